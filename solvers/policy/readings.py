"""What callers tell of items, read and held against what the dataset had."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats
from models.policy import PolicyQuery
from models.policy_curves import RolloutItem
from solvers.policy.sensors import Sensors, append_embedding


@dataclass(frozen=True, slots=True, eq=False)
class SensorReadings:
    """Reads items' sensors. ranges: (D, 2) the least and the largest value of each column in the dataset;
    confident: (D,) which columns are confidences of classifiers."""

    sensors: Sensors
    ranges: Floats
    confident: Bools

    @classmethod
    def from_ranges(cls, sensors: Sensors, ranges: Floats) -> "SensorReadings":
        """Tell which columns are confidences."""
        owners, labelled = sensors.owners, sensors.labelled
        if sensors.classless:
            return cls(sensors, ranges, owners < len(sensors.names))
        return cls(sensors, ranges, np.isin(owners, owners[labelled]) & ~labelled)

    def read_sensors(self, acquired: Mapping[str, Any], where: str = "acquired") -> tuple[Floats, Bools]:
        """Read what some sensors told: (D,) cells, and which of them did, (M,).

        Raises InvalidRequest for sensors that are not known here, and what they cannot have told.
        """
        cells, known = self.sensors.read_answers(acquired, where)
        self._check_confidences(cells, known, where)
        return cells, known

    def read_query(self, query: PolicyQuery) -> tuple[Floats, Bools]:
        """Read what is known of an item, (D,), its embedding too, and which sensors told, (M,).

        Raises InvalidRequest as ``of_some`` does, and for an embedding that is missing or of another length.
        """
        cells, known = self.read_sensors(query.acquired)
        self.sensors.write_embedding(query.embedding, cells)
        return cells, known

    def read_item(self, at: int, item: RolloutItem) -> Floats:
        """Read a complete item, the one at a place in its list: (D,).

        Raises InvalidRequest, with that place, as ``of_query`` does, and for a sensor that is missing.
        """
        try:
            cells, known = self.read_sensors(item.sensors, "sensors")
            self.sensors.write_embedding(item.embedding, cells)
        except InvalidRequest as error:
            raise InvalidRequest.at(*(Fault(("items", at, *fault.loc), fault.msg) for fault in error.faults)) from error
        if not known.all():
            lacking = self.sensors.names[int(np.flatnonzero(~known)[0])]
            raise InvalidRequest.at(Fault(("items", at, "sensors"), f"lack {lacking!r}: a rollout needs all of them"))
        return cells

    def _check_confidences(self, cells: Floats, known: Bools, where: str) -> None:
        """Refuse confidences of classifiers, cells (D,), that can be none of those the dataset had: it had them from 0
        to 1 and they are beyond, or they are farther from its range than that is wide."""
        faults = []
        for column in np.flatnonzero(self.confident & append_embedding(known)[self.sensors.owners]).tolist():
            low, high = self.ranges[column].tolist()
            least, most = (0.0, 1.0) if low >= 0 and high <= 1 else (2 * low - high, 2 * high - low)
            if not least <= cells[column] <= most:
                sensor = self.sensors.names[int(self.sensors.owners[column])]
                fault = f"has the confidence {cells[column]:g}, the dataset's were from {low:g} to {high:g}"
                faults.append(Fault((where, sensor), fault))
        if faults:
            raise InvalidRequest.at(*faults)
