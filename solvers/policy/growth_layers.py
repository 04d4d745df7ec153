"""The layers of a grown DAG: by which ways rows come to sets of so many sensors, and which of the sets are kept."""

from dataclasses import dataclass, field

import numpy as np

from models.arrays import Bools, Int64s

SLOTS = (("common", 1), ("steering", 2), ("steered", 6), ("thrifty", 4), ("parted", 6), ("spare", 1))
"""Nodes of so many sensors each, at most, by how items come there: on the sequence for all rows; by a sensor that is to
steer; on ways behind such a sensor; on ways that cost less than the best; on other ways of a part of the rows; on the
sequence without the first sensor. A node counts for the first that fits. Of little sets, which small hard budgets end
at, the parted take what those before leave of ``LITTLE``."""
SMALL_LAYER_SLOTS = 15
MAX_SENSORS_OF_SMALL_LAYERS = 128
"""Sensors beyond which they do not: each node keeps numbers for all columns, and archives would exceed 20 MB."""
MAX_SMALL_SET = 5
"""Sensors of little sets, at most."""

COMMON, STEERING, STEERED, THRIFTY, PARTED, SPARE = range(len(SLOTS))
SensorSet = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class ReachingRows:
    """Who comes to a set while the DAG is grown. rows: (n,) bool; kind: the place in ``SLOTS`` of how they come; gain:
    what is hoped of it; ceiling: what sets on its way cost less than; without: the sensor that its way does without, -1
    if none."""

    rows: Bools
    kind: int
    gain: float
    ceiling: float = np.inf
    excluded: int = -1

    def merge(self, other: "ReachingRows") -> "ReachingRows":
        """Join two ways that lead to the same set."""
        kind, ceiling = min(self.kind, other.kind), max(self.ceiling, other.ceiling)
        return ReachingRows(
            self.rows | other.rows, kind, self.gain + other.gain, ceiling, max(self.excluded, other.excluded)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Extensions:
    """Where the rows that come to a set, chosen, go on to. targets: sets of one sensor more, and who comes there."""

    chosen: SensorSet
    reached: ReachingRows
    targets: dict[SensorSet, ReachingRows] = field(default_factory=dict)

    def add(
        self, sensor: int, rows: Int64s, kind: int, gain: float, ceiling: float = np.inf, excluded: int = -1
    ) -> None:
        """Let some rows acquire a sensor."""
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
    """Join ways that meet, and keep the sequence for all rows and the sets of which most is hoped, of so many
    sensors."""
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
    for kind, (_, slots) in enumerate(SLOTS):
        room = max(slots, together - len(kept)) if kind == PARTED else slots
        kept |= {each: layer[each] for each in [each for each in order if layer[each].kind == kind][:room]}
    return kept


def _order_by_ceiling(order: list[SensorSet], layer: dict[SensorSet, ReachingRows]) -> list[SensorSet]:
    """Put the best set below each ceiling before the second best below any, of a kind, in an order by kind."""
    ranks, seen = dict[SensorSet, int](), dict[tuple[int, float], int]()
    for each in order:
        group = (layer[each].kind, layer[each].ceiling)
        seen[group] = ranks[each] = seen.get(group, -1) + 1
    return sorted(order, key=lambda each: (layer[each].kind, ranks[each] if layer[each].kind == THRIFTY else 0))
