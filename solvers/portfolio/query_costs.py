"""Query costs as functions of the query's size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models import Fault, InvalidRequest, Trace
from models.arrays import Floats, Int64s
from models.cost import Cost
from models.trace_spec import CostColumn, TraceCost, get_cost_function
from solvers.portfolio.cost_regression import CostRegression
from solvers.setup_groups import SetupGroups

QuerySize = float | Sequence[float]


def list_cost_functions(
    dataset: Trace, names: tuple[str, ...], means: Floats, embedder: str | None
) -> tuple[Int64s, Floats]:
    """Return the terms, (t, k), and each classifier's coefficients, (m, t), of costs by size.

    Measured costs are represented by their means, (m,), which include set-up groups. Both arrays are (0, 0) if no cost
    depends on size.

    Args:
        embedder: the classifier that computes the embeddings; costs exclude its set-up groups.
    """
    by_name, groups = {classifier.name: classifier for classifier in dataset.spec.classifiers}, dataset.spec.setup
    needs = SetupGroups.from_spec(dataset.spec)
    needed = needs.members[:, [list(by_name).index(name) for name in names]].T if groups else np.empty((len(names), 0))
    if groups and embedder in names:
        needed = needed & ~needed[names.index(embedder)]
    setup = dataset.setup_costs.mean(axis=0) if groups else np.empty(0)
    costs: list[TraceCost | Cost] = [*(by_name[name].cost for name in names), *(group.cost for group in groups)]
    powers, each = _collect_terms(costs, means - needed @ setup, len(dataset.spec.size_columns))
    return powers, each[: len(names)] + needed @ each[len(names) :] if each.size else each


def make_cost_fields(regression: CostRegression | None) -> dict[str, Any]:
    """Return the plan's fields of predicted costs, which are used for queries without a size."""
    if regression is None:
        return {}
    return {f"cost_{name}": getattr(regression, name) for name in ("weights", "intercepts", "knots", "levels")}


def make_resource_fields(dataset: Trace, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of ``PortfolioContents`` for resources."""
    resources = dataset.spec.resources
    if not resources:
        return {}
    by_name = {classifier.name: classifier for classifier in dataset.spec.classifiers}
    places = [list(by_name).index(name) for name in names]
    means = dataset.resources[:, places].mean(axis=0).T
    costs = [by_name[name].resources[resource] for resource in resources for name in names]
    powers, coefficients = _collect_terms(costs, means.ravel(), len(dataset.spec.size_columns))
    return {
        "resources": resources,
        "resource_means": means.copy(),
        "resource_powers": powers,
        "resource_coefficients": coefficients,
    }


def _collect_terms(costs: Sequence[TraceCost | Cost], means: Floats, dimensions: int) -> tuple[Int64s, Floats]:
    """Return the terms, (t, k), and coefficients, (c, t), of costs.

    ``means``, (c,), are the means of measured costs. Both arrays are (0, 0) if no cost depends on size.
    """
    functions = [get_cost_function(cost) for cost in costs]
    if not any(function.dimensions for function in functions):
        return np.empty((0, 0), dtype=np.int64), np.empty((0, 0))
    rows: dict[tuple[int, ...], int] = {(0,) * dimensions: 0}
    for function in functions:
        for powers in function.powers.tolist() if function.dimensions else []:
            rows.setdefault(tuple(powers), len(rows))
    coefficients = np.zeros((len(costs), len(rows)))
    for k, (cost, function) in enumerate(zip(costs, functions, strict=True)):
        if isinstance(cost, CostColumn):
            coefficients[k, 0] = means[k]
        elif not function.dimensions:
            coefficients[k, 0] = float(function.coefficients.sum())
        else:
            coefficients[k, [rows[tuple(powers)] for powers in function.powers.tolist()]] = function.coefficients
    return np.array(list(rows), dtype=np.int64), coefficients


def evaluate_costs(powers: Int64s, coefficients: Floats, sizes: Sequence[QuerySize], where: str) -> Floats:
    """Return the costs of n queries with each classifier, (n, m).

    Args:
        where: the field named in errors.
    Raises:
        InvalidRequest: sizes of another number of dimensions, or too large.
    """
    if not len(powers):
        raise InvalidRequest.from_faults(
            Fault((where,), "must be omitted: costs of this portfolio do not depend on it")
        )
    given = [(size,) if isinstance(size, int | float) else tuple(size) for size in sizes]
    wrong = next((size for size in given if len(size) != powers.shape[1]), None)
    if wrong is not None:
        raise InvalidRequest.from_faults(Fault((where,), f"must have {powers.shape[1]} numbers, got {len(wrong)}"))
    points = np.array(given, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        costs = np.prod(points[:, None, :] ** powers, axis=2) @ coefficients.T
    if not np.all(costs <= MAX_COST):
        raise InvalidRequest.from_faults(Fault((where,), f"must give costs of at most {MAX_COST:g}"))
    return np.asarray(costs)


MAX_COST = 1e60
"""Upper bound of a cost; sums of many are still finite."""
