"""Layers of a grown DAG: candidate sets of equal size, and the selection of sets to keep."""

from dataclasses import dataclass, field

import numpy as np

from models.arrays import Bools, Int64s

LAYER_SLOTS = (("common", 1), ("steering", 2), ("steered", 6), ("thrifty", 4), ("parted", 6), ("spare", 1))
"""Maximum number of nodes of a layer by kind of path, in order of precedence.

common: the sequence for all rows. steering: a sensor that selects successors. steered: paths after such a sensor.
thrifty: paths cheaper than the best. parted: other paths of a part of the rows. spare: the sequence without the first
sensor. In layers of small sets, which small hard budgets end at, parted nodes may use all remaining
``SMALL_LAYER_SLOTS``.
"""
SMALL_LAYER_SLOTS = 15
MAX_SENSORS_OF_SMALL_LAYERS = 128
"""Number of sensors above which they may not: each node stores numbers for all columns, and archives would exceed 20
MB.
"""
MAX_SMALL_SET = 5
"""Maximum size of small sets."""

COMMON, STEERING, STEERED, THRIFTY, PARTED, SPARE = range(len(LAYER_SLOTS))
SensorSet = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class ReachingRows:
    """Rows that reach a set while the DAG is grown.

    Attributes:
        rows: (n,) bool.
        kind: index in ``LAYER_SLOTS``.
        gain: expected gain.
        ceiling: upper bound of the prices of sets on the path.
        excluded: the sensor that the path must omit; -1 if none.
    """

    rows: Bools
    kind: int
    gain: float
    ceiling: float = np.inf
    excluded: int = -1

    def merge(self, other: "ReachingRows") -> "ReachingRows":
        """Merge with the rows of another path to the same set."""
        kind, ceiling = min(self.kind, other.kind), max(self.ceiling, other.ceiling)
        return ReachingRows(
            self.rows | other.rows, kind, self.gain + other.gain, ceiling, max(self.excluded, other.excluded)
        )


@dataclass(frozen=True, slots=True, eq=False)
class SetExtensions:
    """Successors of a set: sets with one more sensor, and the rows that reach each."""

    chosen: SensorSet
    reached: ReachingRows
    targets: dict[SensorSet, ReachingRows] = field(default_factory=dict)

    def add(
        self, sensor: int, rows: Int64s, kind: int, gain: float, ceiling: float = np.inf, excluded: int = -1
    ) -> None:
        """Add the successor in which these rows acquire a sensor."""
        mask = np.zeros(len(self.reached.rows), dtype=np.bool_)
        mask[rows] = True
        reaching, target = (
            ReachingRows(mask, kind, gain, min(ceiling, self.reached.ceiling), excluded),
            self.chosen | {sensor},
        )
        self.targets[target] = self.targets[target].merge(reaching) if target in self.targets else reaching


def select_layer(
    wanted: dict[SensorSet, list[tuple[SensorSet, ReachingRows]]], sensors: int
) -> dict[SensorSet, ReachingRows]:
    """Merge paths to the same set, and select the sets of a layer by kind and expected gain."""
    layer = dict[SensorSet, ReachingRows]()
    for targets in wanted.values():
        for target, reached in targets:
            layer[target] = layer[target].merge(reached) if target in layer else reached
    order = sorted(layer, key=lambda each: (layer[each].kind, -layer[each].gain, sorted(each)))
    order = _order_by_ceiling(order, layer)
    kept = dict[SensorSet, ReachingRows]()
    together = (
        SMALL_LAYER_SLOTS if order and len(order[0]) <= MAX_SMALL_SET and sensors <= MAX_SENSORS_OF_SMALL_LAYERS else 0
    )
    for kind, (_, slots) in enumerate(LAYER_SLOTS):
        room = max(slots, together - len(kept)) if kind == PARTED else slots
        kept |= {each: layer[each] for each in [each for each in order if layer[each].kind == kind][:room]}
    return kept


def _order_by_ceiling(order: list[SensorSet], layer: dict[SensorSet, ReachingRows]) -> list[SensorSet]:
    """Order sets by kind; order thrifty sets by their rank below each price ceiling."""
    ranks, seen = dict[SensorSet, int](), dict[tuple[int, float], int]()
    for each in order:
        group = (layer[each].kind, layer[each].ceiling)
        seen[group] = ranks[each] = seen.get(group, -1) + 1
    return sorted(order, key=lambda each: (layer[each].kind, ranks[each] if layer[each].kind == THRIFTY else 0))
