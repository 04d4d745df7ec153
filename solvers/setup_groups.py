"""Set-up groups: work that several members share, which an item pays for once, with the first of them.

For example, to draw blood costs 10, and each blood test then costs 1 (*Indexing Cost Sensitive Prediction*, Section 2).
The cost of a set is the sum of its members' costs and of the costs of all groups that it touches. So it is a plain sum
over *extended* sets: M members, then G groups. Extended costs have M + G entries, in the same order. Without groups,
extended sets and costs are the plain ones.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

import numpy as np

from models import FeaturesSpec, TraceSpec
from models.arrays import Bools, Floats, Int32s, Int64s
from parsimony.runs.steps import CallResult


@dataclass(frozen=True, slots=True, eq=False)
class SetupGroups:
    """The members of each set-up group.

    Attributes:
        members: (G, M), whether a member needs a group's set-up; (0, 0) without groups.
    """

    members: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))

    @classmethod
    def from_spec(cls, spec: FeaturesSpec | TraceSpec) -> "SetupGroups":
        """Return the groups of a table's features, or of a trace's classifiers."""
        every = spec.features if isinstance(spec, FeaturesSpec) else spec.classifiers
        return cls.from_names([each.name for each in every], [group.members for group in spec.setup])

    @classmethod
    def from_names(cls, names: Sequence[str], groups: Sequence[Sequence[str]]) -> "SetupGroups":
        """Return the groups of named members; names of a group that are not members are ignored.

        >>> SetupGroups.from_names(["a", "b"], [["b", "c"]]).members.tolist()
        [[False, True]]
        """
        return cls(np.array([np.isin(names, group) for group in groups])) if groups else NO_GROUPS

    def __len__(self) -> int:
        return len(self.members)

    @property
    def masks(self) -> list[int]:
        """The members of each group as a bit mask, G."""
        return [sum(1 << int(member) for member in np.flatnonzero(own)) for own in self.members]

    def select(self, members: Int64s) -> "SetupGroups":
        """Return the groups of some members, in their order; groups may then have no members."""
        return SetupGroups(self.members[:, members]) if len(self) else self

    def merge(self, owners: Int32s) -> "SetupGroups":
        """Return the groups of members that are acquired together.

        owners: (M,), the number of each member among the merged ones.

        >>> SetupGroups(np.array([[True, False, False]])).merge(np.array([0, 1, 0], np.int32)).members.tolist()
        [[True, False]]
        """
        if not len(self):
            return self
        return SetupGroups(np.stack([self.members[:, owners == own].any(axis=1) for own in range(owners.max() + 1)], 1))

    def append_groups(self, sets: Bools) -> Bools:
        """Append to sets, (..., M), which groups they touch: (..., M + G).

        >>> SetupGroups(np.array([[True, True, False]])).append_groups(np.array([[False, True, True]])).tolist()
        [[False, True, True, True]]
        """
        if not len(self):
            return sets
        touched = (sets[..., None, :] & self.members).any(axis=-1)
        return np.concatenate((sets, touched), axis=-1)

    def step_costs(self, costs: Floats, known: Bools) -> Floats:
        """Return the cost of each member as the next one, (M,).

        Args:
            costs: (M + G,), extended.
            known: (M,), acquired members, whose groups are set up.

        >>> groups, known = SetupGroups(np.ones((1, 2), dtype=bool)), np.array([True, False])
        >>> groups.step_costs(np.array([1.0, 2.0, 10.0]), ~known & known).tolist()
        [11.0, 12.0]
        >>> groups.step_costs(np.array([1.0, 2.0, 10.0]), known).tolist()
        [1.0, 2.0]
        """
        if not len(self):
            return costs
        size = self.members.shape[1]
        return np.asarray(costs[:size] + costs[size:] @ self.find_needed(known))

    def find_needed(self, known: Bools) -> Bools:
        """Return the members of each group, (G, M), without groups that known members, (M,), have set up."""
        return self.members & ~(self.members & known).any(axis=1, keepdims=True)

    def sum_step(self, costs: Floats, known: Bools, after: Bools) -> float:
        """Return the cost of acquiring the members of ``after``, (M,), that are not ``known``, (M,), together.

        costs: (M + G,), extended.
        """
        return float(costs[self.append_groups(after) & ~self.append_groups(known)].sum())

    def order_by_cost(self, costs: Floats) -> Int64s:
        """Return the members in order of their costs, (M,): the cheapest next one first; ties in their order.

        costs: (M + G,), extended.

        >>> SetupGroups(np.array([[True, False, True]])).order_by_cost(np.array([1.0, 3.0, 2.0, 1.5])).tolist()
        [0, 2, 1]
        """
        if not len(self):
            return np.argsort(costs, kind="stable")
        known, order = np.zeros(self.members.shape[1], dtype=np.bool_), list[int]()
        for _ in known:
            order.append(int(np.where(known, np.inf, self.step_costs(costs, known)).argmin()))
            known[order[-1]] = True
        return np.array(order, dtype=np.int64)


@dataclass(slots=True)
class SetupPricing:
    """Plans the cost of set-up groups in the run of one item: the first paid call that needs a group pays for it.

    Attributes:
        costs: cost of each group, by name.
        groups: the groups of each member, by name.
        done: groups that are set up.
    """

    costs: Mapping[str, float]
    groups: Mapping[str, tuple[str, ...]]
    done: set[str] = field(default_factory=set)

    @classmethod
    def start_run(
        cls, setup: SetupGroups, names: Sequence[str], costs: Floats, members: Sequence[str], acquired: Collection[str]
    ) -> "SetupPricing | None":
        """Return the pricing of a run; None without groups.

        Args:
            names: G names of groups.
            costs: (G,).
            members: M names.
            acquired: members that the item has before the run; their groups are set up.
        """
        if not len(setup):
            return None
        groups = {
            member: tuple(name for name, own in zip(names, setup.members[:, at].tolist(), strict=True) if own)
            for at, member in enumerate(members)
        }
        done = {name for member in acquired for name in groups.get(member, ())}
        return cls(dict(zip(names, costs.tolist(), strict=True)), groups, done)

    def plan_costs(self, results: Sequence[CallResult]) -> None:
        """Set ``setup_cost`` of results; calls that were not paid set up nothing."""
        for result in results:
            if result.attempts and (result.is_paid or result.cost is not None):
                first = {*self.groups.get(result.name, ())} - self.done
                result.setup_cost = fsum(self.costs[name] for name in first)
                self.done |= first


def describe_setup(
    setup: SetupGroups, names: Sequence[str], costs: Floats, features: Sequence[str], times: Floats | None = None
) -> dict[str, Any]:
    """Return the set-up groups as a field of summaries, with the names of their features; {} without groups.

    times: (G,), maximum times; (0,) if unknown; None if the kind has no times.

    >>> describe_setup(SetupGroups(np.array([[True, False]])), ["draw blood"], np.array([10.0]), ["glucose", "age"])
    {'setup': [{'name': 'draw blood', 'cost': 10.0, 'features': ['glucose']}]}
    """
    groups = [
        {"name": name, "cost": cost, "features": np.array(features)[own].tolist()}
        for name, cost, own in zip(names, costs.tolist(), setup.members, strict=True)
    ]
    if times is not None:
        known = times.tolist() or [None] * len(groups)
        groups = [{**group, "time": time} for group, time in zip(groups, known, strict=True)]
    return {"setup": groups} if groups else {}


def is_consistent_setup(names: Sequence[str], members: Bools, costs: Floats, features: Sequence[str]) -> bool:
    """Return whether a plan's set-up groups have members and costs, (G, M) and (G, ...), and names of their own."""
    if not names:
        return members.shape == (0, 0) and costs.size == 0
    shaped = members.shape == (len(names), len(features)) and len(costs) == len(names)
    return shaped and bool(members.any(axis=1).all()) and len({*names, *features}) == len(names) + len(features)


NO_GROUPS = SetupGroups()
"""No set-up groups: costs are sums over members."""
