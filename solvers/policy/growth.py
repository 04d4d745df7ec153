"""Growing the acquisition DAG: only sets of sensors that are worth coming to are nodes.

With many features not every set can be a node. Here nodes are grown from the empty
set on, layer by layer. In a node the rows that come to it are parted in two, by what is known of them, where the parts
want different sensors; for each part the next sensor is the one that gains most for its cost with the best that can
follow (``growth_scores``). Beside that one sequence is grown for all rows, so that the DAG holds the forward selection
that a person would fix. A node is a set: ways that come to the same one meet there. Sensors that are fetched together
are one here, with all their columns and the sum of their costs. Where sensors have times, the best of those that take
less long is looked at beside, so that short deadlines find sets of their own; and where sensors cost differently, those
that cost less than the best, so that hard budgets below it do. A short sequence does without the sensor that is best of
all, which may fail. What was grown is a DAG of the paper's kind, and its policy is learned as the paper does
(``graph_reduce``), for all trade-offs, hard budgets and deadlines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, UInt8s
from models.policy import PolicyOptions
from solvers.item_splits import fold_rows
from solvers.policy.classifier_training import TrainingRows, enough, train_for
from solvers.policy.graph import Graph
from solvers.policy.growth_layers import (
    COMMON,
    FINELY,
    PARTED,
    SLOTS,
    SPARE,
    STEERED,
    STEERING,
    THRIFTY,
    Reached,
    Set,
    Ways,
    kept_of,
)
from solvers.policy.growth_scores import MOST_ROWS, Scales, SensorGains, Slopes, alone, gains_of_parts, with_next
from solvers.policy.hard_budgets import ROUNDING
from solvers.policy.node_classifiers import tree_inputs, tree_owners
from solvers.policy.sensor_times import fetched
from solvers.trees.oblivious_trees import Forest

DEEPEST = 32
"""Sensors that are acquired one by one at most; then all others together."""
DEEPEST_PARTS = 12
"""Sensors on ways of parts of the rows."""
FEWEST = 40
"""Rows that a part has at least."""
LEAST_GAIN = 4.0
"""Log-loss, in nats added up over the rows, that a sensor has to be worth."""
NEXT_PRICE = 0.7
"""Of a price below which something cheaper is looked for, what the next is below at most."""
MARGIN = 1.02
"""How much more than without parting its parts' sensors have to gain."""
STEERS = 0.25
"""The share of what a sensor gains with what follows that it has to gain by steering."""
NEAR = 64
"""Sensors, the best by themselves, that are looked at in pairs where nothing has steered just before."""
FORESIGHT = 1.05
"""How much more than the sensor best by itself one has to gain with what follows."""
PARTINGS = 3
"""So many times in all the parts of little sets are parted again."""
STEPS = 8
"""In which chances may part rows."""
MOST_QUESTIONS = 12
"""Numbers of acquired sensors, the last of them, that may part rows."""
MOST_AXES = 8
"""Axes of an embedding that may part rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A DAG with its classifiers. members: of each node K; posteriors: (n, C) each, of members that had not seen the
    row; rows: (n,) each, those that come to the node."""

    graph: Graph
    members: list[list[Forest]]
    posteriors: list[Floats]
    rows: list[Bools]


def grow(
    training: TrainingRows,
    options: PolicyOptions,
    sensor_costs: Floats,
    times: Floats,
    fetches: Int32s,
    rng: np.random.Generator,
    tell: Callable[[int, int, int], None],
) -> Grown:
    """Grow the DAG, sensor_costs, times and fetches (M,), what brings each sensor, times (0,) where they are not known;
    ``tell`` hears how many layers there are, of how many at most, and how many nodes."""
    sensors = training.sensors
    costs = np.asarray(np.bincount(fetches, weights=sensor_costs), dtype=np.float64)
    owners = np.append(fetches, len(costs)).astype(np.int32)[tree_owners(sensors)]
    scales = Scales(tree_inputs(sensors, training.cells), owners, costs)
    every, all_rows = frozenset(range(len(costs))), np.ones(len(training.labels), dtype=np.bool_)
    items = np.arange(len(all_rows)) if training.items is None else training.items
    halves = fold_rows(items, 2, rng)
    waits = np.array([times[list(each)].max() for each in fetched(fetches)]) if len(times) else np.zeros(len(costs))
    if np.array_equal(waits, costs):  # hurry is thrift then, which steers already
        waits = np.zeros(len(costs))
    grower = _Grower(training, options, scales, waits, fetches, halves.astype(np.uint8), rng)
    nodes, steps = dict[Set, tuple[Reached, list[Forest], Floats]](), dict[Set, list[Set]]()
    layer, last = {Set(): Reached(all_rows, COMMON, np.inf)}, Set()
    while layer:
        for chosen, (members, posteriors) in zip(layer, grower.fit(layer), strict=True):
            nodes[chosen] = (layer[chosen], members, posteriors)
        tell(len(next(iter(layer))), min(DEEPEST, len(costs)), len(nodes))
        last = next((chosen for chosen, each in layer.items() if each.kind == COMMON), last)
        wanted = {chosen: grower.expand(chosen, each, nodes[chosen][2]) for chosen, each in layer.items()}
        layer = kept_of(wanted, len(costs)) if len(next(iter(layer))) < DEEPEST else {}
        steps |= {chosen: [target for target, _ in each if target in layer] for chosen, each in wanted.items()}
    if every not in nodes:
        ((members, posteriors),) = grower.fit({every: Reached(all_rows, COMMON, 0.0)})
        nodes[every] = (Reached(all_rows, COMMON, 0.0), members, posteriors)
        steps[last] = [*steps.get(last, []), every]
    _lead_back(nodes, steps)
    return _put_in_order(nodes, steps, fetches, training.folds)


def _lead_back(nodes: dict[Set, tuple[Reached, list[Forest], Floats]], steps: dict[Set, list[Set]]) -> None:
    """Let ways that ended, because those beside them were more hopeful, go on: to a set of one sensor more, and back to
    the sequence for all rows, to the first of its sets that holds what was acquired."""
    common = sorted((node for node, (reached, *_) in nodes.items() if reached.kind == COMMON), key=len)
    for node in [each for each in nodes if not steps.get(each) and each not in common]:
        supersets = sorted((each for each in nodes if len(each) == len(node) + 1 and node < each), key=sorted)
        steps[node] = list(dict.fromkeys([*supersets[:1], *[each for each in common if node < each][:1]]))


def _put_in_order(
    nodes: dict[Set, tuple[Reached, list[Forest], Floats]], steps: dict[Set, list[Set]], fetches: Int32s, folds: Int64s
) -> Grown:
    ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
    place = {node: at for at, node in enumerate(ordered)}
    targets = [sorted({place[target] for target in steps.get(node, [])}) for node in ordered]
    sets = np.array([np.isin(fetches, list(node)) for node in ordered])
    offsets = np.cumsum([0, *map(len, targets)]).astype(np.int32)
    graph = Graph(sets, offsets, np.array([target for each in targets for target in each], dtype=np.int32))
    reached, members, posteriors = zip(*(nodes[node] for node in ordered), strict=True)
    rows = [each.rows if enough(each.rows, folds) else np.ones_like(each.rows) for each in reached]
    return Grown(graph, list(members), list(posteriors), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Grower:
    training: TrainingRows
    options: PolicyOptions
    scales: Scales
    waits: Floats
    fetches: Int32s
    halves: UInt8s
    rng: np.random.Generator

    def fit(self, layer: dict[Set, Reached]) -> list[tuple[list[Forest], Floats]]:
        """Fit the classifiers of sets to all rows or to those that come, whichever loses less on these."""
        sets = np.array([np.isin(self.fetches, list(chosen)) for chosen in layer])
        seeds = self.rng.integers(2**32, size=len(layer)).tolist()
        return train_for(self.training, sets, [each.rows for each in layer.values()], self.options, seeds)

    def expand(self, chosen: Set, reached: Reached, posteriors: Floats) -> list[tuple[Set, Reached]]:
        """Say where the rows that come to a set go next."""
        costs, spent = self.scales.costs, float(self.scales.costs[list(chosen)].sum())
        open_sensors = np.array([m not in chosen for m in range(len(costs))])
        open_sensors &= spent + costs < reached.ceiling * (1 - ROUNDING)
        rows = np.flatnonzero(reached.rows)
        usable = self.scales.coarse[self.scales.columns_of(open_sensors)].max(axis=1, initial=0) > 0
        if not usable.any() or not len(rows):
            return []
        slopes = Slopes.of(posteriors, self.training.labels, self.halves)
        own, ways = alone(self.scales, open_sensors, slopes, rows), Ways(chosen, reached)
        self._lead_all(ways, own, rows)
        if len(chosen) >= DEEPEST_PARTS or reached.kind == SPARE:
            return list(ways.targets.items())
        if reached.kind in (COMMON, THRIFTY):
            for sensor, gain, price in self._cheaper(open_sensors, own, slopes, rows, looks_far=not chosen):
                ways.lead(sensor, rows, THRIFTY, gain, spent + price)
        parts = [rows]
        for _ in range(PARTINGS if len(chosen) <= FINELY else 1):
            parts = [each for part in parts for each in self._parts(chosen, open_sensors, slopes, posteriors, part)]
        for part in parts:
            mine = own if len(parts) == 1 else alone(self.scales, open_sensors, slopes, part)
            self._lead_part(ways, mine, open_sensors, slopes, part)
        return list(ways.targets.items())

    def _lead_all(self, ways: Ways, own: SensorGains, rows: Int64s) -> None:
        """Lead all rows that come to a set on along the sequence for all, and along that without its first sensor."""
        if ways.reached.kind == COMMON and own.gains[own.best] > 0:
            ways.lead(own.best, rows, COMMON, float(own.gains[own.best]))
        spared = ways.reached.without if ways.chosen else own.best
        if spared < 0 or len(ways.chosen) >= FINELY:
            return
        spare = int(np.where(np.arange(len(own.rates)) == spared, -np.inf, own.rates).argmax())
        if own.gains[spare] > LEAST_GAIN:
            ways.lead(spare, rows, SPARE, float(own.gains[spare]), without=spared)

    def _lead_part(self, ways: Ways, mine: SensorGains, open_sensors: Bools, slopes: Slopes, part: Int64s) -> None:
        """Lead a part of the rows on: to the best sensor for its price by itself, and by what can follow, to one that
        steers, to one that takes less long, and at first to the one that tells most, whatever it costs."""
        kind = ways.reached.kind
        behind, looks_far = kind in (STEERING, STEERED), not ways.chosen or kind == STEERING
        own_kind = THRIFTY if kind == THRIFTY else PARTED
        looked_at = open_sensors & (looks_far | (mine.rates >= np.sort(mine.rates)[-min(NEAR, len(mine.rates))]))
        ahead, steering = with_next(self.scales, looked_at, slopes, part, self.rng)
        best = ahead.best if ahead.rates.max() > FORESIGHT * ahead.rates[mine.best] else mine.best
        gain = float(max(ahead.gains[best], mine.gains[best]))
        steers = steering.gains > np.maximum(LEAST_GAIN, STEERS * ahead.gains)
        may_steer = bool(steers.any()) and (not ways.chosen or behind)
        if may_steer:
            most = int(np.where(steers, steering.rates, -np.inf).argmax())
            ways.lead(most, part, STEERING, float(steering.gains[most]))
        if gain > LEAST_GAIN and not (may_steer and behind):
            ways.lead(best, part, STEERED if behind else own_kind, gain)
        if behind:
            return
        fast = int(np.where(self.waits < self.waits[best], mine.gains, -np.inf).argmax())
        telling = mine.best if ways.chosen else int(mine.gains.argmax())
        others = [other for other, than in ((fast, mine.best), (mine.best, best)) if other != than]
        others += [telling] if telling not in (best, mine.best, fast) else []
        for other in others:
            if mine.gains[other] > LEAST_GAIN:
                ways.lead(other, part, own_kind, float(mine.gains[other]))

    def _cheaper(
        self, open_sensors: Bools, own: SensorGains, slopes: Slopes, rows: Int64s, *, looks_far: bool
    ) -> Iterator[tuple[int, float, float]]:
        """List what hard budgets below the price of the best sensor are spent on: of the sensors that cost less the one
        that gains most, and, looking far, the best by what can follow it for less; then below the price of that one,
        and so on, as often as a layer has room, and farther apart so that these span the prices. Gives each with what
        it gains and the price that it is below."""
        costs, price = self.scales.costs, float(self.scales.costs[own.best])
        telling = open_sensors & (own.gains > -np.inf)
        for _ in range(SLOTS[THRIFTY][1]):
            cheaper = telling & (costs < price * (1 - ROUNDING))
            if not cheaper.any():
                return
            most = int(np.where(cheaper, own.gains, -np.inf).argmax())
            gains = {most: float(own.gains[most])}
            if looks_far:
                ahead, _ = with_next(self.scales, cheaper, slopes, rows, self.rng)
                gains[ahead.best] = max(float(ahead.gains[ahead.best]), gains.get(ahead.best, 0.0))
            yield from ((sensor, gain, price) for sensor, gain in gains.items() if gain > LEAST_GAIN)
            price = min(float(costs[most]), NEXT_PRICE * price)

    def _parts(
        self, chosen: Set, open_sensors: Bools, slopes: Slopes, posteriors: Floats, rows: Int64s
    ) -> list[Int64s]:
        """Part rows in two where the parts' best sensors gain more for their cost than one for both; judged on rows
        drawn of them."""
        drawn = rows if len(rows) <= MOST_ROWS else np.sort(self.rng.choice(rows, MOST_ROWS, replace=False))
        fewest = FEWEST * len(drawn) / max(len(rows), 1)
        best, parts = 0.0, [rows]
        for every, some in zip(
            self._questions(chosen, posteriors, rows), self._questions(chosen, posteriors, drawn), strict=True
        ):
            sides = gains_of_parts(self.scales, open_sensors, slopes, drawn, some)
            counts = np.cumsum(np.bincount(some))
            needed = MARGIN * float(sides[-1][0].rates.max()) + LEAST_GAIN / float(self.scales.prices.mean())
            for end in np.flatnonzero((counts >= fewest) & (counts <= len(drawn) - fewest)).tolist():
                gained = sum(float(side.rates.max()) for side in sides[end])
                if gained > max(best, needed):
                    best, parts = gained, [rows[every <= end], rows[every > end]]
        return parts

    def _questions(self, chosen: Set, posteriors: Floats, rows: Int64s) -> Sequence[UInt8s]:
        """List what rows can be parted by, in bins: the chance of the likeliest class, or of the second of two, in
        steps, the numbers of acquired sensors, and where an embedding lies."""
        acquired = np.flatnonzero(np.isin(self.scales.owners, list(chosen)))[-MOST_QUESTIONS:]
        of_items = np.flatnonzero(self.scales.owners == len(self.scales.costs))[:MOST_AXES]
        known = np.concatenate([acquired, of_items])
        if not len(known) or len(rows) < 2 * FEWEST:
            return []
        chances = posteriors[rows, 1] if posteriors.shape[1] == 2 else posteriors[rows].max(axis=1)
        return [np.minimum(chances * STEPS, STEPS - 1).astype(np.uint8), *self.scales.coarse[np.ix_(known, rows)]]
