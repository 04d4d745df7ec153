"""Costs and times of sensors and of set-up groups, as read from a dataset."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from models import FeatureTable, Trace
from models.arrays import Bools, Floats, Int32s
from models.policy import PolicyOptions
from solvers.policy.sensor_times import assign_fetches, compute_worst_case_times
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.setup_groups import NO_GROUPS, SetupGroups


@dataclass(frozen=True, slots=True, eq=False)
class SensorPrices:
    """Costs and times of sensors, then of set-up groups.

    Attributes:
        costs: (n, M + G), cost of each row.
        means: (M + G,), mean costs.
        times: (M + G,), maximum times, in ``unit``; (0,) if unknown.
        unit: unit of times.
        fetches: (M,), the fetch of each sensor.
        groups: the sensors of each set-up group.
        group_names: (G,).
    """

    costs: Floats
    means: Floats
    times: Floats
    unit: str
    fetches: Int32s
    groups: SetupGroups = NO_GROUPS
    group_names: tuple[str, ...] = ()

    @classmethod
    def from_dataset(
        cls, dataset: FeatureTable | Trace, sensors: Sequence[str], options: PolicyOptions
    ) -> "SensorPrices":
        """Read costs and times of a dataset."""
        costs = compute_item_sensor_costs(dataset)
        means = np.minimum(costs.mean(axis=0), costs.max(axis=0))  # rounding can raise a mean above every cost
        times, unit = compute_worst_case_times(dataset, costs, options.worst_case_quantile)
        fetches = assign_fetches(sensors, options.parallel)
        names = tuple(group.name for group in dataset.spec.setup)
        return cls(costs, means, times, unit, fetches, SetupGroups.from_spec(dataset.spec), names)


@dataclass(frozen=True, slots=True, eq=False)
class FetchCosts:
    """Mean costs of what is fetched together.

    Attributes:
        costs: (F + G,), of fetches, then of set-up groups.
        groups: the fetches of each group.
    """

    costs: Floats
    groups: SetupGroups

    def sum_set(self, chosen: Collection[int]) -> float:
        """Return the cost of a set of fetches."""
        return float(self.costs[self.groups.append_groups(self._mark(chosen))].sum())

    def price_steps(self, chosen: Collection[int]) -> tuple[Floats, Floats]:
        """Return the cost of each fetch after others, (F,), and what two fetches together save, (F, F)."""
        known = self._mark(chosen)
        needed = self.groups.find_needed(known)
        priced = needed * self.costs[len(known) :, None]
        return self.groups.step_costs(self.costs, known), np.asarray(priced.T @ needed)

    def _mark(self, chosen: Collection[int]) -> Bools:
        return np.isin(np.arange(len(self.costs) - len(self.groups)), list(chosen))
