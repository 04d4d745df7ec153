"""Parsing and validation of sensor readings in requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats
from models.policy import PolicyQuery
from models.policy_curves import RolloutItem
from solvers.policy.sensors import Sensors


@dataclass(frozen=True, eq=False)
class SensorReadings:
    """Parses readings of items.

    Attributes:
        sensors: the sensors.
        ranges: (D, 2), minimum and maximum of each column in the dataset.
        confident: (D,), columns that are confidences of classifiers.
    """

    sensors: Sensors
    ranges: Floats
    confident: Bools

    @classmethod
    def from_ranges(cls, sensors: Sensors, ranges: Floats) -> "SensorReadings":
        """Create the parser, and derive which columns are confidences."""
        owners, labelled = sensors.owners, sensors.labelled
        if sensors.classless:
            return cls(sensors, ranges, owners < len(sensors.names))
        return cls(sensors, ranges, np.isin(owners, owners[labelled]) & ~labelled)

    def parse_readings(self, acquired: Mapping[str, Any], where: str = "acquired") -> tuple[Floats, Bools]:
        """Return readings, (D,), and whether each sensor is known, (M,).

        Raises:
            InvalidRequest: unknown sensors or invalid readings.
        """
        cells, known = self.sensors.read_answers(acquired, where)
        self._check_confidences(cells, known, where)
        return cells, known

    def read_query(self, query: PolicyQuery) -> tuple[Floats, Bools]:
        """Return readings of an item, (D,), including its embedding, and whether each sensor is known, (M,).

        Raises:
            InvalidRequest: as ``parse_readings``, or an embedding is missing or of another length.
        """
        cells, known = self.parse_readings(query.acquired)
        self.sensors.write_embedding(query.embedding, cells)
        return cells, known

    def read_item(self, at: int, item: RolloutItem) -> Floats:
        """Return readings of a complete item, (D,).

        Raises:
            InvalidRequest: as ``read_query``, with the item's index; also if a sensor is missing.
        """
        try:
            cells, known = self.parse_readings(item.sensors, "sensors")
            self.sensors.write_embedding(item.embedding, cells)
        except InvalidRequest as error:
            raise InvalidRequest.from_faults(
                *(Fault(("items", at, *fault.loc), fault.msg) for fault in error.faults)
            ) from error
        if not known.all():
            lacking = self.sensors.names[int(np.flatnonzero(~known)[0])]
            raise InvalidRequest.from_faults(
                Fault(("items", at, "sensors"), f"must include {lacking!r}: a rollout needs all sensors")
            )
        return cells

    def _check_confidences(self, cells: Floats, known: Bools, where: str) -> None:
        """Raise InvalidRequest for confidences on another scale than the dataset's.

        If all confidences of the dataset are within [0, 1], others must be, too. Otherwise they must not be farther
        from the dataset's range than its width.
        """
        faults = []
        for column, owner, (least, most) in self._allowed_confidences:
            if known[owner] and not least <= cells[column] <= most:
                low, high = self.ranges[column].tolist()
                fault = f"has confidence {cells[column]:g}; the dataset's are from {low:g} to {high:g}"
                faults.append(Fault((where, self.sensors.names[owner]), fault))
        if faults:
            raise InvalidRequest.from_faults(*faults)

    @cached_property
    def _allowed_confidences(self) -> list[tuple[int, int, tuple[float, float]]]:
        """For each confidence column: its index, its sensor, and the smallest and largest allowed value."""
        allowed = []
        for column in np.flatnonzero(self.confident).tolist():
            low, high = self.ranges[column].tolist()
            bounds = (0.0, 1.0) if low >= 0 and high <= 1 else (2 * low - high, 2 * high - low)
            allowed.append((column, int(self.sensors.owners[column]), bounds))
        return allowed
