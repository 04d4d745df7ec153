"""Greedy growth of the acquisition DAG: only promising sets of sensors become nodes.

With many features, not every set can be a node. Nodes are grown from the empty set, layer by layer:

- The rows that reach a node are split in two by an acquired reading, if different sensors are best for the two parts.
- The next sensor of a part is the one with the highest gain per cost, including its best successor (``growth_scores``).
- One sequence is grown for all rows, so the DAG contains the sequence of forward selection.
- If sensors have times, the best faster sensor is added, for short deadlines. If costs differ, the best cheaper sensors
are added, for small hard budgets.
- A short sequence omits the best sensor, because this sensor may fail.

Paths that reach the same set share a node. Sensors that are fetched together count as one, with all their columns and
the sum of their costs. The policy of the resulting DAG is learned as in the paper (``graph_reduce``), for all
trade-offs, hard budgets, and deadlines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, UInt8s
from models.policy import PolicyOptions
from solvers.item_splits import assign_group_folds
from solvers.policy.classifier_training import TrainingRows, has_enough_rows, train_on_reaching_rows
from solvers.policy.graph import Graph
from solvers.policy.growth_layers import (
    COMMON,
    LAYER_SLOTS,
    MAX_SMALL_SET,
    PARTED,
    SPARE,
    STEERED,
    STEERING,
    THRIFTY,
    ReachingRows,
    SensorSet,
    SetExtensions,
    select_layer,
)
from solvers.policy.learned_limits import RELATIVE_TOLERANCE
from solvers.policy.node_classifiers import list_tree_owners, make_tree_inputs
from solvers.policy.sensor_gains import (
    MAX_SCORED_ROWS,
    BinnedColumns,
    LossGradients,
    SensorGains,
    score_row_splits,
    score_sensor_pairs,
    score_single_sensors,
)
from solvers.policy.sensor_prices import FetchCosts, SensorPrices
from solvers.policy.sensor_times import group_by_fetch
from solvers.trees.oblivious_trees import Forest

MAX_DEPTH = 32
"""Maximum number of fetches acquired one by one; then all others follow together."""
MAX_PART_DEPTH = 12
"""Maximum number of fetches on paths of a part of the rows."""
MIN_PART_ROWS = 40
"""Minimum number of rows of a part."""
MIN_GAIN = 4.0
"""Minimum gain of a sensor, in nats of log-loss summed over the rows."""
PRICE_STEP = 0.7
"""Maximum ratio of consecutive price bounds in the search for cheaper sensors."""
SPLIT_MARGIN = 1.02
"""Minimum ratio of the parts' total gain to the gain without a split."""
MIN_STEERING_SHARE = 0.25
"""Minimum share of steering in a sensor's gain with successors."""
MAX_PAIR_SENSORS = 64
"""Maximum number of sensors, best first, that are scored in pairs where no steering sensor precedes."""
LOOKAHEAD_MARGIN = 1.05
"""Minimum ratio of a sensor's rate with successors to that of the best single sensor."""
SPLIT_ROUNDS = 3
"""Number of rounds in which all parts of small sets are split again."""
PROBABILITY_STEPS = 8
"""Number of bins of probabilities that may split rows."""
MAX_SPLIT_COLUMNS = 12
"""Maximum number of acquired columns, the last ones, that may split rows."""
MAX_SPLIT_AXES = 8
"""Maximum number of axes of an embedding that may split rows."""


@dataclass(frozen=True, slots=True, eq=False)
class GrownGraph:
    """A grown DAG with its classifiers.

    Attributes:
        graph: the DAG.
        members: K forests of each node.
        posteriors: out-of-fold posteriors (n, C) of each node.
        rows: for each node, which rows reach it, (n,).
    """

    graph: Graph
    members: list[list[Forest]]
    posteriors: list[Floats]
    rows: list[Bools]


def grow_graph(
    training: TrainingRows,
    options: PolicyOptions,
    prices: SensorPrices,
    rng: np.random.Generator,
    report: Callable[[int, int, int], None],
) -> GrownGraph:
    """Grow the DAG.

    Args:
        prices: costs, times, and fetches of the M sensors.
        report: receives the number of layers, the maximum number of layers, and the number of nodes.
    """
    sensors, fetches, times = training.sensors, prices.fetches, prices.times
    costs = np.asarray(np.bincount(fetches, weights=prices.means[: len(fetches)]), dtype=np.float64)
    owners = np.append(fetches, len(costs)).astype(np.int32)[list_tree_owners(sensors)]
    binned = BinnedColumns.from_inputs(make_tree_inputs(sensors, training.cells), owners, costs)
    fetch_costs = FetchCosts(np.append(costs, prices.means[len(fetches) :]), prices.groups.merge(fetches))
    every, all_rows = frozenset(range(len(costs))), np.ones(len(training.labels), dtype=np.bool_)
    items = np.arange(len(all_rows)) if training.items is None else training.items
    halves = assign_group_folds(items, 2, rng)
    fetch_times = (
        np.array([times[list(each)].max() for each in group_by_fetch(fetches)]) if len(times) else np.zeros(len(costs))
    )
    if np.array_equal(fetch_times, costs):  # faster sensors are the cheaper ones, which are added anyway
        fetch_times = np.zeros(len(costs))
    grower = _GraphGrower(training, options, binned, fetch_costs, fetch_times, fetches, halves.astype(np.uint8), rng)
    nodes, steps = dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]](), dict[SensorSet, list[SensorSet]]()
    layer, last = {SensorSet(): ReachingRows(all_rows, COMMON, np.inf)}, SensorSet()
    while layer:
        for chosen, (members, posteriors) in zip(layer, grower.fit(layer), strict=True):
            nodes[chosen] = (layer[chosen], members, posteriors)
        report(len(next(iter(layer))), min(MAX_DEPTH, len(costs)), len(nodes))
        last = next((chosen for chosen, each in layer.items() if each.kind == COMMON), last)
        wanted = {
            chosen: grower.price_after(chosen).expand(chosen, each, nodes[chosen][2]) for chosen, each in layer.items()
        }
        layer = select_layer(wanted, len(costs)) if len(next(iter(layer))) < MAX_DEPTH else {}
        steps |= {chosen: [target for target, _ in each if target in layer] for chosen, each in wanted.items()}
    if every not in nodes:
        ((members, posteriors),) = grower.fit({every: ReachingRows(all_rows, COMMON, 0.0)})
        nodes[every] = (ReachingRows(all_rows, COMMON, 0.0), members, posteriors)
        steps[last] = [*steps.get(last, []), every]
    _connect_dead_ends(nodes, steps)
    return _order_nodes(nodes, steps, prices, training.folds)


def _connect_dead_ends(
    nodes: dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]], steps: dict[SensorSet, list[SensorSet]]
) -> None:
    """Connect nodes without successors to a superset with one more sensor, and to the common sequence."""
    common = sorted((node for node, (reached, *_) in nodes.items() if reached.kind == COMMON), key=len)
    for node in [each for each in nodes if not steps.get(each) and each not in common]:
        supersets = sorted((each for each in nodes if len(each) == len(node) + 1 and node < each), key=sorted)
        steps[node] = list(dict.fromkeys([*supersets[:1], *[each for each in common if node < each][:1]]))


def _order_nodes(
    nodes: dict[SensorSet, tuple[ReachingRows, list[Forest], Floats]],
    steps: dict[SensorSet, list[SensorSet]],
    prices: SensorPrices,
    folds: Int64s,
) -> GrownGraph:
    """Sort nodes by size, and replace fetches by their sensors."""
    ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
    place = {node: at for at, node in enumerate(ordered)}
    targets = [sorted({place[target] for target in steps.get(node, [])}) for node in ordered]
    sets = np.array([np.isin(prices.fetches, list(node)) for node in ordered])
    offsets = np.cumsum([0, *map(len, targets)]).astype(np.int32)
    onward = np.array([target for each in targets for target in each], dtype=np.int32)
    graph = Graph(sets, offsets, onward, prices.groups)
    reached, members, posteriors = zip(*(nodes[node] for node in ordered), strict=True)
    rows = [each.rows if has_enough_rows(each.rows, folds) else np.ones_like(each.rows) for each in reached]
    return GrownGraph(graph, list(members), list(posteriors), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _GraphGrower:
    """Chooses the successors of nodes.

    binned: with the cost of each fetch as the next one. fetch_times: (M,). halves: (n,), for cross-fitted gains.
    """

    training: TrainingRows
    options: PolicyOptions
    binned: BinnedColumns
    fetch_costs: FetchCosts
    fetch_times: Floats
    fetches: Int32s
    halves: UInt8s
    rng: np.random.Generator

    def price_after(self, chosen: SensorSet) -> "_GraphGrower":
        """Return the grower with the costs of fetches after others, whose groups are set up."""
        if not len(self.fetch_costs.groups):
            return self
        costs, shared = self.fetch_costs.price_steps(chosen)
        return replace(self, binned=replace(self.binned, costs=costs, shared=shared))

    def fit(self, layer: dict[SensorSet, ReachingRows]) -> list[tuple[list[Forest], Floats]]:
        """Fit each classifier of a layer to all rows or to the reaching rows.

        The fit with the lower loss is kept.
        """
        sets = np.array([np.isin(self.fetches, list(chosen)) for chosen in layer])
        seeds = self.rng.integers(2**32, size=len(layer)).tolist()
        return train_on_reaching_rows(self.training, sets, [each.rows for each in layer.values()], self.options, seeds)

    def expand(
        self, chosen: SensorSet, reached: ReachingRows, posteriors: Floats
    ) -> list[tuple[SensorSet, ReachingRows]]:
        """Return the successors of a set, with the rows that reach each successor."""
        costs, spent = self.binned.costs, self.fetch_costs.sum_set(chosen)
        open_sensors = np.array([m not in chosen for m in range(len(costs))])
        open_sensors &= spent + costs < reached.ceiling * (1 - RELATIVE_TOLERANCE)
        rows = np.flatnonzero(reached.rows)
        usable = self.binned.coarse[self.binned.columns_of(open_sensors)].max(axis=1, initial=0) > 0
        if not usable.any() or not len(rows):
            return []
        gradients = LossGradients.from_posteriors(posteriors, self.training.labels, self.halves)
        own, extensions = (
            score_single_sensors(self.binned, open_sensors, gradients, rows),
            SetExtensions(chosen, reached),
        )
        self._extend_for_all(extensions, own, rows)
        if len(chosen) >= MAX_PART_DEPTH or reached.kind == SPARE:
            return list(extensions.targets.items())
        if reached.kind in (COMMON, THRIFTY):
            for sensor, gain, price in self._list_cheaper(open_sensors, own, gradients, rows, looks_far=not chosen):
                extensions.add(sensor, rows, THRIFTY, gain, spent + price)
        parts = [rows]
        for _ in range(SPLIT_ROUNDS if len(chosen) <= MAX_SMALL_SET else 1):
            parts = [
                each for part in parts for each in self._split_rows(chosen, open_sensors, gradients, posteriors, part)
            ]
        for part in parts:
            own_gains = own if len(parts) == 1 else score_single_sensors(self.binned, open_sensors, gradients, part)
            self._extend_for_part(extensions, own_gains, open_sensors, gradients, part)
        return list(extensions.targets.items())

    def _extend_for_all(self, extensions: SetExtensions, single_gains: SensorGains, rows: Int64s) -> None:
        """Extend the sequence for all rows, and the sequence that omits its first sensor."""
        if extensions.reached.kind == COMMON and single_gains.gains[single_gains.best] > 0:
            extensions.add(single_gains.best, rows, COMMON, float(single_gains.gains[single_gains.best]))
        spared = extensions.reached.excluded if extensions.chosen else single_gains.best
        if spared < 0 or len(extensions.chosen) >= MAX_SMALL_SET:
            return
        spare = int(np.where(np.arange(len(single_gains.rates)) == spared, -np.inf, single_gains.rates).argmax())
        if single_gains.gains[spare] > MIN_GAIN:
            extensions.add(spare, rows, SPARE, float(single_gains.gains[spare]), excluded=spared)

    def _extend_for_part(
        self,
        extensions: SetExtensions,
        own_gains: SensorGains,
        open_sensors: Bools,
        gradients: LossGradients,
        part: Int64s,
    ) -> None:
        """Add successors for a part of the rows.

        These are the sensors with the highest gain per price, alone and including successors. Others are a steering
        sensor and a faster sensor. From the empty set, the sensor of highest gain at any price is also added.
        """
        kind = extensions.reached.kind
        follows_steering, looks_far = kind in (STEERING, STEERED), not extensions.chosen or kind == STEERING
        own_kind = THRIFTY if kind == THRIFTY else PARTED
        looked_at = open_sensors & (
            looks_far | (own_gains.rates >= np.sort(own_gains.rates)[-min(MAX_PAIR_SENSORS, len(own_gains.rates))])
        )
        ahead, steering = score_sensor_pairs(self.binned, looked_at, gradients, part, self.rng)
        best = ahead.best if ahead.rates.max() > LOOKAHEAD_MARGIN * ahead.rates[own_gains.best] else own_gains.best
        gain = float(max(ahead.gains[best], own_gains.gains[best]))
        steers = steering.gains > np.maximum(MIN_GAIN, MIN_STEERING_SHARE * ahead.gains)
        may_steer = bool(steers.any()) and (not extensions.chosen or follows_steering)
        if may_steer:
            most = int(np.where(steers, steering.rates, -np.inf).argmax())
            extensions.add(most, part, STEERING, float(steering.gains[most]))
        if gain > MIN_GAIN and not (may_steer and follows_steering):
            extensions.add(best, part, STEERED if follows_steering else own_kind, gain)
        if follows_steering:
            return
        fast = int(np.where(self.fetch_times < self.fetch_times[best], own_gains.gains, -np.inf).argmax())
        informative = own_gains.best if extensions.chosen else int(own_gains.gains.argmax())
        others = [other for other, than in ((fast, own_gains.best), (own_gains.best, best)) if other != than]
        others += [informative] if informative not in (best, own_gains.best, fast) else []
        for other in others:
            if own_gains.gains[other] > MIN_GAIN:
                extensions.add(other, part, own_kind, float(own_gains.gains[other]))

    def _list_cheaper(
        self, open_sensors: Bools, single_gains: SensorGains, gradients: LossGradients, rows: Int64s, *, looks_far: bool
    ) -> Iterator[tuple[int, float, float]]:
        """Yield sensors for hard budgets below the best sensor's price, with their gain and price bound.

        The first is the sensor of highest gain below that price. With ``looks_far``, the best sensor including cheaper
        successors is also yielded. This repeats below falling prices, up to the number of slots of a layer.
        """
        costs, price = self.binned.costs, float(self.binned.costs[single_gains.best])
        informative = open_sensors & (single_gains.gains > -np.inf)
        for _ in range(LAYER_SLOTS[THRIFTY][1]):
            cheaper = informative & (costs < price * (1 - RELATIVE_TOLERANCE))
            if not cheaper.any():
                return
            most = int(np.where(cheaper, single_gains.gains, -np.inf).argmax())
            gains = {most: float(single_gains.gains[most])}
            if looks_far:
                ahead, _ = score_sensor_pairs(self.binned, cheaper, gradients, rows, self.rng)
                gains[ahead.best] = max(float(ahead.gains[ahead.best]), gains.get(ahead.best, 0.0))
            yield from ((sensor, gain, price) for sensor, gain in gains.items() if gain > MIN_GAIN)
            price = min(float(costs[most]), PRICE_STEP * price)

    def _split_rows(
        self, chosen: SensorSet, open_sensors: Bools, gradients: LossGradients, posteriors: Floats, rows: Int64s
    ) -> list[Int64s]:
        """Split rows in two if two sensors, one for each part, gain more per cost than a common one.

        The decision uses a sample of the rows.
        """
        sampled = (
            rows if len(rows) <= MAX_SCORED_ROWS else np.sort(self.rng.choice(rows, MAX_SCORED_ROWS, replace=False))
        )
        fewest = MIN_PART_ROWS * len(sampled) / max(len(rows), 1)
        best, parts = 0.0, [rows]
        for every, some in zip(
            self._split_columns(chosen, posteriors, rows), self._split_columns(chosen, posteriors, sampled), strict=True
        ):
            sides = score_row_splits(self.binned, open_sensors, gradients, sampled, some)
            counts = np.cumsum(np.bincount(some))
            needed = SPLIT_MARGIN * float(sides[-1][0].rates.max()) + MIN_GAIN / float(self.binned.prices.mean())
            for end in np.flatnonzero((counts >= fewest) & (counts <= len(sampled) - fewest)).tolist():
                gained = sum(float(side.rates.max()) for side in sides[end])
                if gained > max(best, needed):
                    best, parts = gained, [rows[every <= end], rows[every > end]]
        return parts

    def _split_columns(self, chosen: SensorSet, posteriors: Floats, rows: Int64s) -> Sequence[UInt8s]:
        """Return binned columns that may split rows: probabilities, readings, and embedding axes."""
        acquired = np.flatnonzero(np.isin(self.binned.owners, list(chosen)))[-MAX_SPLIT_COLUMNS:]
        of_items = np.flatnonzero(self.binned.owners == len(self.binned.costs))[:MAX_SPLIT_AXES]
        known = np.concatenate([acquired, of_items])
        if not len(known) or len(rows) < 2 * MIN_PART_ROWS:
            return []
        chances = posteriors[rows, 1] if posteriors.shape[1] == 2 else posteriors[rows].max(axis=1)
        return [
            np.minimum(chances * PROBABILITY_STEPS, PROBABILITY_STEPS - 1).astype(np.uint8),
            *self.binned.coarse[np.ix_(known, rows)],
        ]
