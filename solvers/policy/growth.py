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
from solvers.policy.classifier_training import TrainingRows, has_enough_rows, train_on_reaching_rows
from solvers.policy.graph import Graph
from solvers.policy.growth_layers import (
    COMMON,
    MAX_SMALL_SET,
    PARTED,
    SLOTS,
    SPARE,
    STEERED,
    STEERING,
    THRIFTY,
    Extensions,
    ReachingRows,
    SensorSet,
    select_layer,
)
from solvers.policy.growth_scores import (
    MAX_SCORED_ROWS,
    BinnedColumns,
    LossGradients,
    SensorGains,
    score_alone,
    score_parts,
    score_with_next,
)
from solvers.policy.hard_budgets import RELATIVE_TOLERANCE
from solvers.policy.node_classifiers import tree_inputs, tree_owners
from solvers.policy.sensor_times import group_by_fetch
from solvers.trees.oblivious_trees import Forest

MAX_DEPTH = 32
"""Sensors that are acquired one by one at most; then all others together."""
MAX_PART_DEPTH = 12
"""Sensors on ways of parts of the rows."""
MIN_PART_ROWS = 40
"""Rows that a part has at least."""
MIN_GAIN = 4.0
"""Log-loss, in nats added up over the rows, that a sensor has to be worth."""
PRICE_STEP = 0.7
"""Of a price below which something cheaper is looked for, what the next is below at most."""
SPLIT_MARGIN = 1.02
"""How much more than without parting its parts' sensors have to gain."""
MIN_STEERING_SHARE = 0.25
"""The share of what a sensor gains with what follows that it has to gain by steering."""
MAX_PAIR_SENSORS = 64
"""Sensors, the best by themselves, that are looked at in pairs where nothing has steered just before."""
LOOKAHEAD_MARGIN = 1.05
"""How much more than the sensor best by itself one has to gain with what follows."""
SPLIT_ROUNDS = 3
"""So many times in all the parts of little sets are parted again."""
PROBABILITY_STEPS = 8
"""In which chances may part rows."""
MAX_SPLIT_COLUMNS = 12
"""Numbers of acquired sensors, the last of them, that may part rows."""
MAX_SPLIT_AXES = 8
"""Axes of an embedding that may part rows."""


@dataclass(frozen=True, slots=True, eq=False)
class GrownGraph:
    """A DAG with its classifiers. members: of each node K; posteriors: (n, C) each, of members that had not seen the
    row; rows: (n,) each, those that come to the node."""

    graph: Graph
    members: list[list[Forest]]
    posteriors: list[Floats]
    rows: list[Bools]


def grow_graph(
    training: TrainingRows,
    options: PolicyOptions,
    sensor_costs: Floats,
    times: Floats,
    fetches: Int32s,
    rng: np.random.Generator,
    report: Callable[[int, int, int], None],
) -> GrownGraph:
    """Grow the DAG, sensor_costs, times and fetches (M,), what brings each sensor, times (0,) where they are not known;
    ``tell`` hears how many layers there are, of how many at most, and how many nodes."""
    sensors = training.sensors
    costs = np.asarray(np.bincount(fetches, weights=sensor_costs), dtype=np.float64)
    owners = np.append(fetches, len(costs)).astype(np.int32)[tree_owners(sensors)]
    scales = BinnedColumns(tree_inputs(sensors, training.cells), owners, costs)
    every, all_rows = frozenset(range(len(costs))), np.ones(len(training.labels), dtype=np.bool_)
    items = np.arange(len(all_rows)) if training.items is None else training.items
    halves = fold_rows(items, 2, rng)
    waits = (
        np.array([times[list(each)].max() for each in group_by_fetch(fetches)]) if len(times) else np.zeros(len(costs))
    )
    if np.array_equal(waits, costs):  # hurry is thrift then, which steers already
        waits = np.zeros(len(costs))
    grower = _GraphGrower(training, options, scales, waits, fetches, halves.astype(np.uint8), rng)
    nodes, steps = dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]](), dict[SensorSet, list[SensorSet]]()
    layer, last = {SensorSet(): ReachingRows(all_rows, COMMON, np.inf)}, SensorSet()
    while layer:
        for chosen, (members, posteriors) in zip(layer, grower.fit(layer), strict=True):
            nodes[chosen] = (layer[chosen], members, posteriors)
        report(len(next(iter(layer))), min(MAX_DEPTH, len(costs)), len(nodes))
        last = next((chosen for chosen, each in layer.items() if each.kind == COMMON), last)
        wanted = {chosen: grower.expand(chosen, each, nodes[chosen][2]) for chosen, each in layer.items()}
        layer = select_layer(wanted, len(costs)) if len(next(iter(layer))) < MAX_DEPTH else {}
        steps |= {chosen: [target for target, _ in each if target in layer] for chosen, each in wanted.items()}
    if every not in nodes:
        ((members, posteriors),) = grower.fit({every: ReachingRows(all_rows, COMMON, 0.0)})
        nodes[every] = (ReachingRows(all_rows, COMMON, 0.0), members, posteriors)
        steps[last] = [*steps.get(last, []), every]
    _connect_dead_ends(nodes, steps)
    return _order_nodes(nodes, steps, fetches, training.folds)


def _connect_dead_ends(
    nodes: dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]], steps: dict[SensorSet, list[SensorSet]]
) -> None:
    """Let ways that ended, because those beside them were more hopeful, go on: to a set of one sensor more, and back to
    the sequence for all rows, to the first of its sets that holds what was acquired."""
    common = sorted((node for node, (reached, *_) in nodes.items() if reached.kind == COMMON), key=len)
    for node in [each for each in nodes if not steps.get(each) and each not in common]:
        supersets = sorted((each for each in nodes if len(each) == len(node) + 1 and node < each), key=sorted)
        steps[node] = list(dict.fromkeys([*supersets[:1], *[each for each in common if node < each][:1]]))


def _order_nodes(
    nodes: dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]],
    steps: dict[SensorSet, list[SensorSet]],
    fetches: Int32s,
    folds: Int64s,
) -> GrownGraph:
    ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
    place = {node: at for at, node in enumerate(ordered)}
    targets = [sorted({place[target] for target in steps.get(node, [])}) for node in ordered]
    sets = np.array([np.isin(fetches, list(node)) for node in ordered])
    offsets = np.cumsum([0, *map(len, targets)]).astype(np.int32)
    graph = Graph(sets, offsets, np.array([target for each in targets for target in each], dtype=np.int32))
    reached, members, posteriors = zip(*(nodes[node] for node in ordered), strict=True)
    rows = [each.rows if has_enough_rows(each.rows, folds) else np.ones_like(each.rows) for each in reached]
    return GrownGraph(graph, list(members), list(posteriors), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _GraphGrower:
    training: TrainingRows
    options: PolicyOptions
    scales: BinnedColumns
    waits: Floats
    fetches: Int32s
    halves: UInt8s
    rng: np.random.Generator

    def fit(self, layer: dict[SensorSet, ReachingRows]) -> list[tuple[list[Forest], Floats]]:
        """Fit the classifiers of sets to all rows or to those that come, whichever loses less on these."""
        sets = np.array([np.isin(self.fetches, list(chosen)) for chosen in layer])
        seeds = self.rng.integers(2**32, size=len(layer)).tolist()
        return train_on_reaching_rows(self.training, sets, [each.rows for each in layer.values()], self.options, seeds)

    def expand(
        self, chosen: SensorSet, reached: ReachingRows, posteriors: Floats
    ) -> list[tuple[SensorSet, ReachingRows]]:
        """Say where the rows that come to a set go next."""
        costs, spent = self.scales.costs, float(self.scales.costs[list(chosen)].sum())
        open_sensors = np.array([m not in chosen for m in range(len(costs))])
        open_sensors &= spent + costs < reached.ceiling * (1 - RELATIVE_TOLERANCE)
        rows = np.flatnonzero(reached.rows)
        usable = self.scales.coarse[self.scales.columns_of(open_sensors)].max(axis=1, initial=0) > 0
        if not usable.any() or not len(rows):
            return []
        slopes = LossGradients.from_posteriors(posteriors, self.training.labels, self.halves)
        own, extensions = score_alone(self.scales, open_sensors, slopes, rows), Extensions(chosen, reached)
        self._extend_for_all(extensions, own, rows)
        if len(chosen) >= MAX_PART_DEPTH or reached.kind == SPARE:
            return list(extensions.targets.items())
        if reached.kind in (COMMON, THRIFTY):
            for sensor, gain, price in self._list_cheaper(open_sensors, own, slopes, rows, looks_far=not chosen):
                extensions.add(sensor, rows, THRIFTY, gain, spent + price)
        parts = [rows]
        for _ in range(SPLIT_ROUNDS if len(chosen) <= MAX_SMALL_SET else 1):
            parts = [
                each for part in parts for each in self._split_rows(chosen, open_sensors, slopes, posteriors, part)
            ]
        for part in parts:
            mine = own if len(parts) == 1 else score_alone(self.scales, open_sensors, slopes, part)
            self._extend_for_part(extensions, mine, open_sensors, slopes, part)
        return list(extensions.targets.items())

    def _extend_for_all(self, extensions: Extensions, own: SensorGains, rows: Int64s) -> None:
        """Lead all rows that come to a set on along the sequence for all, and along that without its first sensor."""
        if extensions.reached.kind == COMMON and own.gains[own.best] > 0:
            extensions.add(own.best, rows, COMMON, float(own.gains[own.best]))
        spared = extensions.reached.excluded if extensions.chosen else own.best
        if spared < 0 or len(extensions.chosen) >= MAX_SMALL_SET:
            return
        spare = int(np.where(np.arange(len(own.rates)) == spared, -np.inf, own.rates).argmax())
        if own.gains[spare] > MIN_GAIN:
            extensions.add(spare, rows, SPARE, float(own.gains[spare]), excluded=spared)

    def _extend_for_part(
        self, extensions: Extensions, mine: SensorGains, open_sensors: Bools, slopes: LossGradients, part: Int64s
    ) -> None:
        """Lead a part of the rows on: to the best sensor for its price by itself, and by what can follow, to one that
        steers, to one that takes less long, and at first to the one that tells most, whatever it costs."""
        kind = extensions.reached.kind
        behind, looks_far = kind in (STEERING, STEERED), not extensions.chosen or kind == STEERING
        own_kind = THRIFTY if kind == THRIFTY else PARTED
        looked_at = open_sensors & (
            looks_far | (mine.rates >= np.sort(mine.rates)[-min(MAX_PAIR_SENSORS, len(mine.rates))])
        )
        ahead, steering = score_with_next(self.scales, looked_at, slopes, part, self.rng)
        best = ahead.best if ahead.rates.max() > LOOKAHEAD_MARGIN * ahead.rates[mine.best] else mine.best
        gain = float(max(ahead.gains[best], mine.gains[best]))
        steers = steering.gains > np.maximum(MIN_GAIN, MIN_STEERING_SHARE * ahead.gains)
        may_steer = bool(steers.any()) and (not extensions.chosen or behind)
        if may_steer:
            most = int(np.where(steers, steering.rates, -np.inf).argmax())
            extensions.add(most, part, STEERING, float(steering.gains[most]))
        if gain > MIN_GAIN and not (may_steer and behind):
            extensions.add(best, part, STEERED if behind else own_kind, gain)
        if behind:
            return
        fast = int(np.where(self.waits < self.waits[best], mine.gains, -np.inf).argmax())
        telling = mine.best if extensions.chosen else int(mine.gains.argmax())
        others = [other for other, than in ((fast, mine.best), (mine.best, best)) if other != than]
        others += [telling] if telling not in (best, mine.best, fast) else []
        for other in others:
            if mine.gains[other] > MIN_GAIN:
                extensions.add(other, part, own_kind, float(mine.gains[other]))

    def _list_cheaper(
        self, open_sensors: Bools, own: SensorGains, slopes: LossGradients, rows: Int64s, *, looks_far: bool
    ) -> Iterator[tuple[int, float, float]]:
        """List what hard budgets below the price of the best sensor are spent on: of the sensors that cost less the one
        that gains most, and, looking far, the best by what can follow it for less; then below the price of that one,
        and so on, as often as a layer has room, and farther apart so that these span the prices. Gives each with what
        it gains and the price that it is below."""
        costs, price = self.scales.costs, float(self.scales.costs[own.best])
        telling = open_sensors & (own.gains > -np.inf)
        for _ in range(SLOTS[THRIFTY][1]):
            cheaper = telling & (costs < price * (1 - RELATIVE_TOLERANCE))
            if not cheaper.any():
                return
            most = int(np.where(cheaper, own.gains, -np.inf).argmax())
            gains = {most: float(own.gains[most])}
            if looks_far:
                ahead, _ = score_with_next(self.scales, cheaper, slopes, rows, self.rng)
                gains[ahead.best] = max(float(ahead.gains[ahead.best]), gains.get(ahead.best, 0.0))
            yield from ((sensor, gain, price) for sensor, gain in gains.items() if gain > MIN_GAIN)
            price = min(float(costs[most]), PRICE_STEP * price)

    def _split_rows(
        self, chosen: SensorSet, open_sensors: Bools, slopes: LossGradients, posteriors: Floats, rows: Int64s
    ) -> list[Int64s]:
        """Part rows in two where the parts' best sensors gain more for their cost than one for both; judged on rows
        drawn of them."""
        drawn = rows if len(rows) <= MAX_SCORED_ROWS else np.sort(self.rng.choice(rows, MAX_SCORED_ROWS, replace=False))
        fewest = MIN_PART_ROWS * len(drawn) / max(len(rows), 1)
        best, parts = 0.0, [rows]
        for every, some in zip(
            self._split_columns(chosen, posteriors, rows), self._split_columns(chosen, posteriors, drawn), strict=True
        ):
            sides = score_parts(self.scales, open_sensors, slopes, drawn, some)
            counts = np.cumsum(np.bincount(some))
            needed = SPLIT_MARGIN * float(sides[-1][0].rates.max()) + MIN_GAIN / float(self.scales.prices.mean())
            for end in np.flatnonzero((counts >= fewest) & (counts <= len(drawn) - fewest)).tolist():
                gained = sum(float(side.rates.max()) for side in sides[end])
                if gained > max(best, needed):
                    best, parts = gained, [rows[every <= end], rows[every > end]]
        return parts

    def _split_columns(self, chosen: SensorSet, posteriors: Floats, rows: Int64s) -> Sequence[UInt8s]:
        """List what rows can be parted by, in bins: the chance of the likeliest class, or of the second of two, in
        steps, the numbers of acquired sensors, and where an embedding lies."""
        acquired = np.flatnonzero(np.isin(self.scales.owners, list(chosen)))[-MAX_SPLIT_COLUMNS:]
        of_items = np.flatnonzero(self.scales.owners == len(self.scales.costs))[:MAX_SPLIT_AXES]
        known = np.concatenate([acquired, of_items])
        if not len(known) or len(rows) < 2 * MIN_PART_ROWS:
            return []
        chances = posteriors[rows, 1] if posteriors.shape[1] == 2 else posteriors[rows].max(axis=1)
        return [
            np.minimum(chances * PROBABILITY_STEPS, PROBABILITY_STEPS - 1).astype(np.uint8),
            *self.scales.coarse[np.ix_(known, rows)],
        ]
