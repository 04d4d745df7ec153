"""Set-up groups drawn at random, and the cost of a set in plain Python."""

from collections.abc import Collection, Sequence

import numpy as np

from models.arrays import Bools, Floats
from solvers.setup_groups import SetupGroups


def random_members(rng: np.random.Generator, features: int, most: int = 3) -> Bools:
    """Draw 1 to ``most`` groups, which may overlap, each with at least one feature: (G, features)."""
    members = rng.random((int(rng.integers(1, most + 1)), features)) < rng.uniform(0.2, 0.9)
    members[np.arange(len(members)), rng.integers(features, size=len(members))] = True
    return members


def random_groups(rng: np.random.Generator, features: int, most: int = 3) -> SetupGroups:
    """Draw groups as solvers hold them."""
    return SetupGroups(random_members(rng, features, most))


def cost_of_set(chosen: Collection[int], costs: Sequence[float], groups: SetupGroups) -> float:
    """Add the costs of features and of each group that one of them needs; costs: of features, then of groups."""
    features = len(costs) - len(groups)
    total = sum(costs[feature] for feature in chosen)
    for group, own in enumerate(groups.members.tolist()):
        if any(own[feature] for feature in chosen):
            total += costs[features + group]
    return float(total)


def costs_of_sets(costs: Floats, groups: SetupGroups) -> Floats:
    """Return the cost of each set by mask, (2^n,)."""
    features = len(costs) - len(groups)
    sets = [[f for f in range(features) if mask >> f & 1] for mask in range(1 << features)]
    return np.array([cost_of_set(each, costs.tolist(), groups) for each in sets])
