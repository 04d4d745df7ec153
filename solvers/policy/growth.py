"""Growing the acquisition DAG: only sets of sensors that are worth coming to are nodes.

With many features not even the unions of a few groups hold the sets that matter. Here nodes are grown from the empty
set on, layer by layer. In a node the rows that come to it are parted in two, by what is known of them, where the parts
want different sensors; for each part the next sensor is the one that gains most for its cost with the best that can
follow (``growth_scores``). Beside that one sequence is grown for all rows, so that the DAG holds the forward selection
that a person would fix. A node is a set: ways that come to the same one meet there. Sensors that are fetched together
are one here, with all their columns and the sum of their costs. Where sensors have times, the best of those that take
less long is looked at beside, so that short deadlines find sets of their own. What was grown is a DAG of the paper's
kind, and its policy is learned as the paper does (``graph_reduce``), for all trade-offs, hard budgets and deadlines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, UInt8s
from models.policy import PolicyOptions
from solvers.policy.classifier_training import TrainingRows, enough, train_for
from solvers.policy.graph import Graph
from solvers.policy.growth_scores import MOST_ROWS, Scales, Slopes, alone, parted, with_next
from solvers.policy.node_classifiers import Member, tree_inputs, tree_owners
from solvers.policy.sensor_times import fetched

DEEPEST = 32
"""Sensors that are acquired one by one at most; then all others together."""
SLOTS = (("common", 1), ("steering", 2), ("steered", 6), ("parted", 6))
"""Nodes of so many sensors each, at most, by how items come there: on the sequence for all rows; by a sensor that is to
steer; on ways behind such a sensor; on other ways of a part of the rows. A node counts for the first that fits. Of
little sets, which small hard budgets end at, the last take what the others leave."""
WIDE = 128
"""Sensors beyond which they do not: each node keeps numbers for all columns, and archives would exceed 20 MB."""
DEEPEST_PARTS = 12
"""Sensors on ways of parts of the rows."""
FEWEST = 40
"""Rows that a part has at least."""
LEAST_GAIN = 4.0
"""Log-loss, in nats added up over the rows, that a sensor has to be worth."""
MARGIN = 1.02
"""How much more than without parting its parts' sensors have to gain."""
STEERS = 0.25
"""The share of what a sensor gains with what follows that it has to gain by steering."""
NEAR = 64
"""Sensors, the best by themselves, that are looked at in pairs where nothing has steered just before."""
FORESIGHT = 1.05
"""How much more than the sensor best by itself one has to gain with what follows."""
FINELY, PARTINGS = 5, 3
"""With up to so many acquired sensors the parts are parted again, so many times in all."""
STEPS = 8
"""In which chances may part rows."""
MOST_QUESTIONS = 12
"""Numbers of acquired sensors, the last of them, that may part rows."""
MOST_AXES = 8
"""Axes of an embedding that may part rows."""

COMMON, STEERING, STEERED, PARTED = range(len(SLOTS))
Set = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Who comes to a set while the DAG is grown. rows: (n,) bool; kind: the place in ``SLOTS`` of how they come; gain:
    what is hoped of it."""

    rows: Bools
    kind: int
    gain: float

    def met(self, other: "Reached") -> "Reached":
        """Join two ways that lead to the same set."""
        return Reached(self.rows | other.rows, min(self.kind, other.kind), self.gain + other.gain)


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A DAG with its classifiers. members: of each node K; posteriors: (n, C) each, of members that had not seen the
    row; rows: (n,) each, those that come to the node."""

    graph: Graph
    members: list[list[Member]]
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
    sensors = training.basis.sensors
    costs = np.asarray(np.bincount(fetches, weights=sensor_costs), dtype=np.float64)
    owners = np.append(fetches, len(costs)).astype(np.int32)[tree_owners(sensors)]
    scales = Scales(tree_inputs(sensors, training.cells), owners, costs)
    every, all_rows = frozenset(range(len(costs))), np.ones(len(training.labels), dtype=np.bool_)
    halves = rng.permutation(len(all_rows)).astype(np.int64) % 2
    waits = np.array([times[list(each)].max() for each in fetched(fetches)]) if len(times) else np.zeros(len(costs))
    if np.array_equal(waits, costs):  # hurry is thrift then, which steers already
        waits = np.zeros(len(costs))
    grower = _Grower(training, options, scales, waits, fetches, halves.astype(np.uint8), rng)
    nodes, steps = dict[Set, tuple[Reached, list[Member], Floats]](), dict[Set, list[Set]]()
    layer, last = {Set(): Reached(all_rows, COMMON, np.inf)}, Set()
    while layer:
        for chosen, (members, posteriors) in zip(layer, grower.fit(layer), strict=True):
            nodes[chosen] = (layer[chosen], members, posteriors)
        tell(len(next(iter(layer))), min(DEEPEST, len(costs)), len(nodes))
        last = next((chosen for chosen, each in layer.items() if each.kind == COMMON), last)
        wanted = {chosen: grower.expand(chosen, each, nodes[chosen][2]) for chosen, each in layer.items()}
        layer = _kept(wanted, len(costs)) if len(next(iter(layer))) < DEEPEST else {}
        steps |= {chosen: [target for target, _ in each if target in layer] for chosen, each in wanted.items()}
    if every not in nodes:
        ((members, posteriors),) = grower.fit({every: Reached(all_rows, COMMON, 0.0)})
        nodes[every] = (Reached(all_rows, COMMON, 0.0), members, posteriors)
        steps[last] = [*steps.get(last, []), every]
    _lead_back(nodes, steps)
    return _put_in_order(nodes, steps, fetches, training.folds)


def _lead_back(nodes: dict[Set, tuple[Reached, list[Member], Floats]], steps: dict[Set, list[Set]]) -> None:
    """Let ways that ended, because those beside them were more hopeful, go on: to a set of one sensor more, and back to
    the sequence for all rows, to the first of its sets that holds what was acquired."""
    common = sorted((node for node, (reached, *_) in nodes.items() if reached.kind == COMMON), key=len)
    for node in [each for each in nodes if not steps.get(each) and each not in common]:
        beside = sorted((each for each in nodes if len(each) == len(node) + 1 and node < each), key=sorted)
        steps[node] = list(dict.fromkeys([*beside[:1], *[each for each in common if node < each][:1]]))


def _kept(wanted: dict[Set, list[tuple[Set, Reached]]], sensors: int) -> dict[Set, Reached]:
    """Join ways that meet, and keep the sequence for all rows and the sets of which most is hoped, of so many
    sensors."""
    layer = dict[Set, Reached]()
    for targets in wanted.values():
        for target, reached in targets:
            layer[target] = layer[target].met(reached) if target in layer else reached
    order = sorted(layer, key=lambda each: (layer[each].kind, -layer[each].gain, sorted(each)))
    kept = dict[Set, Reached]()
    together = sum(slots for _, slots in SLOTS) if order and len(order[0]) <= FINELY and sensors <= WIDE else 0
    for kind, (_, slots) in enumerate(SLOTS):
        room = max(slots, together - len(kept)) if kind == PARTED else slots
        kept |= {each: layer[each] for each in [each for each in order if layer[each].kind == kind][:room]}
    return kept


def _put_in_order(
    nodes: dict[Set, tuple[Reached, list[Member], Floats]], steps: dict[Set, list[Set]], fetches: Int32s, folds: Int64s
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

    def fit(self, layer: dict[Set, Reached]) -> list[tuple[list[Member], Floats]]:
        """Fit the classifiers of sets to all rows or to those that come, whichever loses less on these."""
        sets = np.array([np.isin(self.fetches, list(chosen)) for chosen in layer])
        seeds = self.rng.integers(2**32, size=len(layer)).tolist()
        return train_for(self.training, sets, [each.rows for each in layer.values()], self.options, seeds)

    def expand(self, chosen: Set, reached: Reached, posteriors: Floats) -> list[tuple[Set, Reached]]:
        """Say where the rows that come to a set go next."""
        open_sensors = np.array([m not in chosen for m in range(len(self.scales.costs))])
        rows = np.flatnonzero(reached.rows)
        usable = self.scales.coarse[self.scales.columns_of(open_sensors)].max(axis=1, initial=0) > 0
        if not usable.any() or not len(rows):
            return []
        slopes = Slopes.of(posteriors, self.training.labels, self.halves)
        own = alone(self.scales, open_sensors, slopes, rows)
        targets = dict[Set, Reached]()

        def lead(sensor: int, some: Int64s, kind: int, gain: float) -> None:
            mask = np.zeros(len(reached.rows), dtype=np.bool_)
            mask[some] = True
            way, target = Reached(mask, kind, gain), chosen | {sensor}
            targets[target] = targets[target].met(way) if target in targets else way

        if reached.kind == COMMON and own.gains[own.best] > 0:
            lead(own.best, rows, COMMON, float(own.gains[own.best]))
        if len(chosen) >= DEEPEST_PARTS:
            return list(targets.items())
        behind, looks_far = reached.kind in (STEERING, STEERED), not chosen or reached.kind == STEERING
        parts = [rows]
        for _ in range(PARTINGS if len(chosen) <= FINELY else 1):
            parts = [each for part in parts for each in self._parts(chosen, open_sensors, slopes, posteriors, part)]
        for part in parts:
            mine = own if len(parts) == 1 else alone(self.scales, open_sensors, slopes, part)
            looked_at = open_sensors & (looks_far | (mine.rates >= np.sort(mine.rates)[-min(NEAR, len(mine.rates))]))
            ahead, steering = with_next(self.scales, looked_at, slopes, part, self.rng)
            best = ahead.best if ahead.rates.max() > FORESIGHT * ahead.rates[mine.best] else mine.best
            gain = float(max(ahead.gains[best], mine.gains[best]))
            steers = steering.gains > np.maximum(LEAST_GAIN, STEERS * ahead.gains)
            may_steer = bool(steers.any()) and (not chosen or behind)
            if may_steer:
                most = int(np.where(steers, steering.rates, -np.inf).argmax())
                lead(most, part, STEERING, float(steering.gains[most]))
            if gain > LEAST_GAIN and not (may_steer and behind):
                lead(best, part, STEERED if behind else PARTED, gain)
            fast = int(np.where(self.waits < self.waits[best], mine.gains, -np.inf).argmax())
            if fast != mine.best and mine.gains[fast] > LEAST_GAIN and not behind:
                lead(fast, part, PARTED, float(mine.gains[fast]))
            if mine.best != best and mine.gains[mine.best] > LEAST_GAIN and not behind:
                lead(mine.best, part, PARTED, float(mine.gains[mine.best]))
        return list(targets.items())

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
            sides = parted(self.scales, open_sensors, slopes, drawn, some)
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
