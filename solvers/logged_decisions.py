"""Decisions of an artifact's version on the rows of a dataset, for off-policy evaluation."""

from collections.abc import Iterable, Sequence

import numpy as np

from models import Dataset, DatasetFacts, Fault, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int64s
from models.evaluation import EvaluatedItem
from parsimony.runs.steps import REJECT
from solvers.base import Plan
from solvers.kind import AnyKind
from solvers.off_policy import DecisionRule


def require_compatible_dataset(kind: AnyKind, plan: Plan, dataset: Dataset, unit: str) -> None:
    """Raise InvalidRequest for a dataset on which a plan cannot decide, or whose unit differs.

    Args:
        unit: the unit of the plan's costs.
    """
    facts = DatasetFacts.from_dataset(dataset)
    if not isinstance(dataset, kind.datasets):
        kinds = " or ".join(each.__name__ for each in kind.datasets)
        raise _refusal(f"must be a {kinds}, got a {type(dataset).__name__}")
    if dataset.spec.unit != unit:
        raise _refusal(f"must have costs in {unit!r}, as the artifact has, got {dataset.spec.unit!r}")
    wanted = kind.embedding_dimensions(plan)
    if wanted and facts.embedding_dimensions != wanted:
        raise _refusal(f"must have embeddings of {wanted} numbers, got {facts.embedding_dimensions}")
    missing = _missing_names(kind, plan, facts)
    if missing:
        raise _refusal(f"must have columns of {', '.join(map(repr, missing))}, which the artifact may call")


def _missing_names(kind: AnyKind, plan: Plan, facts: DatasetFacts) -> list[str]:
    skipped = {REJECT, *getattr(plan, "setup_names", ())}
    names = [name for name in kind.item_columns(plan) if name not in skipped]
    if facts.classifiers:
        return [name for name in names if name not in facts.classifiers]
    return [name for name in names if not set(kind.item_columns(plan)[name]) <= {*facts.columns}]


def _refusal(message: str) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault(("on",), message))


def make_rule(dataset: Dataset, items: Sequence[EvaluatedItem], fixed_cost: float) -> DecisionRule:
    """Return the rule of a version from its outcomes on the rows of a dataset.

    Args:
        items: one per row, from ``items_from_dataset``.
        fixed_cost: cost of each item in addition to calls; the items' costs include it.
    Raises:
        InvalidRequest: the dataset has no true labels.
    """
    paths, supported = _read_paths(dataset, items)
    costs = np.array([item.cost for item in items]) - fixed_cost
    quality = _read_quality(dataset, items)
    if np.isnan(quality[supported]).any():
        raise _refusal("must have true labels or losses for all rows")
    return DecisionRule(
        paths=paths,
        supported=supported,
        quality=np.where(supported, quality, np.nan),
        costs=np.where(supported, np.maximum(costs, 0.0), np.nan),
        fixed_cost=fixed_cost,
    )


def _read_paths(dataset: Dataset, items: Sequence[EvaluatedItem]) -> tuple[Bools, Bools]:
    """Return the calls up to the first call that was not logged, (n, m).

    Also return whether all calls were logged, (n,).
    """
    n, supported = len(items), np.ones(len(items), dtype=np.bool_)
    if not isinstance(dataset, Trace):
        return np.zeros((n, 0), dtype=np.bool_), supported
    places = {each.name: j for j, each in enumerate(dataset.spec.classifiers)}
    called = dataset.called if dataset.is_partial else np.ones((n, len(places)), dtype=np.bool_)
    paths = np.zeros_like(called)
    for at, item in enumerate(items):
        for j in (places[name] for name in item.path if name in places):
            paths[at, j] = True
            if not called[at, j]:
                supported[at] = False
                break
    return paths, supported


def _read_quality(dataset: Dataset, items: Sequence[EvaluatedItem]) -> Floats:
    """Return the quality of each answer, (n,).

    It is the answering classifier's quality, else follows from the true label or the loss.
    """
    if isinstance(dataset, Trace) and items[0].classifier is not None:
        if dataset.spec.reject_cost is None and not all(item.accepted for item in items):
            message = "is missing: the artifact rejects items, whose price must be known"
            raise InvalidRequest.from_faults(Fault(("dataset", "spec", "reject_cost"), message))
        whole = dataset.with_reject()
        places = {each.name: j for j, each in enumerate(whole.spec.classifiers)}
        return np.asarray(whole.quality[np.arange(len(items)), [places[str(item.classifier)] for item in items]])
    if dataset.loss_scale:
        losses = [np.nan if item.loss is None else item.loss for item in items]
        return np.asarray(1 - np.array(losses) / dataset.loss_scale)
    return np.array([np.nan if item.correct is None and item.accepted else item.correct or 0.0 for item in items])


def find_logged_choices(trace: Trace) -> Int64s | None:
    """Return the classifier whose answer each logged row used, (n,).

    Return None if it is not known for all rows.

    It is the only classifier that was called, or the only one that was called with a propensity of 1.
    """
    if not trace.is_partial:
        return None
    certain = trace.called & (trace.propensities == 1) if trace.propensities.size else np.zeros_like(trace.called)
    is_single = trace.called.sum(axis=1) == 1
    used = np.where(is_single[:, None], trace.called, certain)
    return used.argmax(axis=1) if (used.sum(axis=1) == 1).all() else None


def sum_weights_by_name(names: Sequence[Iterable[str]], weights: Floats) -> dict[str, float]:
    """Return the weighted share of rows that have each name.

    Args:
        names: the names of each of n rows.
        weights: (n,), with a sum above 0.

    >>> sum_weights_by_name([("a",), ("a", "b")], np.array([3.0, 1.0]))
    {'a': 1.0, 'b': 0.25}
    """
    sums: dict[str, float] = {}
    for own, weight in zip(names, (weights / weights.sum()).tolist(), strict=True):
        for name in own:
            sums[name] = sums.get(name, 0.0) + weight
    return sums
