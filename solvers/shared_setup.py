"""Set-up groups of classifiers that are called one after the other, where the cost of a call includes its groups.

The first call that needs a group pays for it. So a later call costs less than the classifier alone: it saves the groups
that earlier calls have set up. See ``setup_groups`` for sets of members without an order.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Amounts, Bools, Floats, Int64s
from solvers.setup_groups import NO_GROUPS, SetupGroups, SetupPricing


@dataclass(frozen=True, slots=True, eq=False)
class SharedSetup:
    """Set-up groups of M classifiers, and their costs.

    Attributes:
        groups: the classifiers of each group.
        costs: (N, G) by row, or (G,) means.
        worst: (G,), worst-case times.
    """

    groups: SetupGroups = NO_GROUPS
    costs: Floats = field(default_factory=lambda: np.empty(0))
    worst: Floats = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.groups)

    def take_rows(self, rows: Int64s) -> "SharedSetup":
        """Return the groups with the costs of some rows."""
        return SharedSetup(self.groups, self.costs[rows], self.worst) if len(self) else self

    def average_rows(self) -> "SharedSetup":
        """Return the groups with their mean costs."""
        return SharedSetup(self.groups, self.costs.mean(axis=0), self.worst) if len(self) else self

    def find_repeated(self, member: int, earlier: Iterable[int]) -> Bools:
        """Return the groups of a member that earlier members have set up, (G,)."""
        return np.asarray(self.groups.members[:, member] & self.groups.members[:, list(earlier)].any(axis=1))

    def compute_saved_costs(self, member: int, earlier: Sequence[int]) -> Floats | float:
        """Return the cost that a call saves because earlier calls have set up its groups: (N,), or a mean.

        >>> groups = SetupGroups(np.array([[True, True, False]]))
        >>> float(SharedSetup(groups, np.array([10.0])).compute_saved_costs(1, [2, 0]))
        10.0
        """
        if not len(self) or not len(earlier):
            return 0.0
        return np.asarray(self.costs[..., self.find_repeated(member, earlier)].sum(axis=-1))

    def compute_saved_worst(self, member: int, earlier: Sequence[int]) -> float:
        """Return the worst-case time that a call saves because earlier calls have set up its groups."""
        if not len(self) or not len(earlier):
            return 0.0
        return float(self.worst[self.find_repeated(member, earlier)].sum())

    def sum_saved_worst(self, sets: Bools) -> Floats:
        """Return the worst-case time that the members of sets, (..., M), save by sharing groups: (...,).

        >>> groups = SetupGroups(np.array([[True, True, True]]))
        >>> SharedSetup(groups, np.empty(1), np.array([2.0])).sum_saved_worst(np.array([[True] * 3])).tolist()
        [4.0]
        """
        if not len(self):
            return np.zeros(sets.shape[:-1])
        uses = sets.astype(np.int64) @ self.groups.members.T
        return np.asarray(np.maximum(uses - 1, 0) @ self.worst)


NO_SETUP = SharedSetup()
"""No set-up groups: calls cost as much as alone."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SetupContents:
    """Set-up groups in the plan of a cascade or a portfolio: G groups."""

    setup_names: tuple[str, ...] = ()
    """G different names."""
    setup_classifiers: tuple[tuple[str, ...], ...] = ()
    """The classifiers of each group."""
    setup_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,), mean costs, which the costs of the classifiers include."""
    setup_worst_times: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,), worst-case times of cascades; (0,) in portfolios."""

    def has_valid_setup(self, classifiers: Sequence[str]) -> bool:
        """Return whether the groups are consistent, because plans may come from untrusted bytes."""
        groups = self.setup_classifiers
        named = len({*self.setup_names, *classifiers}) == len(self.setup_names) + len({*classifiers})
        called = all(groups)
        count = len(self.setup_names)
        shaped = self.setup_costs.shape == (count,) and self.setup_worst_times.shape in ((0,), (count,))
        return named and called and len(groups) == count and shaped

    def share_setup(self, classifiers: Sequence[str]) -> SharedSetup:
        """Return the groups of some classifiers, with their mean costs and worst-case times."""
        groups = SetupGroups.from_names(classifiers, self.setup_classifiers)
        return SharedSetup(groups, self.setup_costs, self.setup_worst_times)

    def sum_setup(self, called: Collection[str], earlier: Collection[str] = (), costs: Floats | None = None) -> float:
        """Return the cost of the groups that the called classifiers need, and that no earlier call has set up.

        costs: (G,); None for the means.
        """
        needed = [
            not set(called).isdisjoint(group) and set(earlier).isdisjoint(group) for group in self.setup_classifiers
        ]
        return float((self.setup_costs if costs is None else costs)[np.array(needed, dtype=bool)].sum())

    def start_pricing(self, classifiers: Sequence[str], earlier: Collection[str] = ()) -> SetupPricing | None:
        """Return the pricing of a run; None without groups."""
        groups = self.share_setup(classifiers).groups
        return SetupPricing.start_run(groups, self.setup_names, self.setup_costs, classifiers, earlier)

    def exclude_setup(self, costs: Mapping[str, float], earlier: Collection[str] = ()) -> dict[str, float]:
        """Return the costs of classifiers without their set-up groups.

        earlier: classifiers whose set-up groups the costs do not include.
        """
        return {name: cost - self.sum_setup([name], earlier) for name, cost in costs.items()}

    def describe_setup(self) -> dict[str, Any]:
        """Return the set-up groups as a field of summaries; {} without groups."""
        columns = self.setup_names, self.setup_costs.tolist(), self.setup_classifiers
        groups = [
            {"name": name, "cost": cost, "classifiers": list(own)} for name, cost, own in zip(*columns, strict=True)
        ]
        return {"setup": groups} if groups else {}


def share_setup_of_rows(dataset: Trace, columns: Int64s) -> SharedSetup:
    """Return the set-up groups of some classifiers of a trace, with their costs in each row."""
    groups = SetupGroups.from_spec(dataset.spec).select(columns)
    return SharedSetup(groups, dataset.setup_costs) if len(groups) else NO_SETUP


def charge_after(dataset: Trace, earlier: int | None) -> Floats:
    """Return the costs of each classifier, (n, m), after a call of another one; itself costs the same as alone."""
    every = range(len(dataset.spec.classifiers))
    setup = share_setup_of_rows(dataset, np.array(every))
    if earlier is None or not len(setup):
        return dataset.costs
    others = [dataset.costs[:, k] - (setup.compute_saved_costs(k, [earlier]) if k != earlier else 0.0) for k in every]
    return np.column_stack(others)


def measure_setup(dataset: Trace) -> dict[str, Any]:
    """Return the fields of ``SetupContents`` but for worst-case times; {} without groups."""
    groups = dataset.spec.setup
    if not groups:
        return {}
    return {
        "setup_names": tuple(group.name for group in groups),
        "setup_classifiers": tuple(tuple(group.classifiers) for group in groups),
        "setup_costs": dataset.setup_costs.mean(axis=0),
    }
