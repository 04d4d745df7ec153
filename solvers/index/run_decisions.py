"""Decisions of an index in the middle of a run, and its predictions."""

from collections.abc import Mapping
from typing import Any

from models.errors import Infeasible, InvalidRequest
from models.index import IndexQuery
from parsimony.runs.steps import DecisionRequest, Predict, Refusal
from solvers.base import ModelRunner
from solvers.index.plan import IndexPlan
from solvers.running import Decide


def make_decisions(plan: IndexPlan, query: IndexQuery, models: ModelRunner) -> Decide:
    """Return a function that decides and predicts with the features that a run has acquired."""

    def decide(step: DecisionRequest | Predict) -> Mapping[str, Any] | Refusal:
        return _predict(plan, step, models) if isinstance(step, Predict) else _choose_acquired(plan, query, step)

    return decide


def _choose_acquired(plan: IndexPlan, query: IndexQuery, ask: DecisionRequest) -> Mapping[str, Any] | Refusal:
    """Return the acquired features, or the best of their subsets if they have no model.

    Returns a Refusal if no subset has a model.
    """
    acquired = tuple(name for name in plan.features if name in ask.acquired)
    if plan.has_model(acquired):
        return {"features": acquired, "cost": 0.0}
    others = tuple(name for name in plan.features if name not in ask.acquired)
    try:
        found = plan.decide(query.model_copy(update={"excluded": others})).features
    except (Infeasible, InvalidRequest) as error:
        return Refusal(str(error))
    return {"features": found, "cost": 0.0} if plan.has_model(found) else Refusal("no model is left")


def _predict(plan: IndexPlan, step: Predict, models: ModelRunner) -> Mapping[str, Any] | Refusal:
    """Classify with the model of some features; a Refusal names features with invalid cells.

    Raises InvalidRequest if the features have no model, CorruptArtifact if it cannot predict.
    """
    columns = dict(zip(plan.features, plan.columns, strict=True))
    odd = frozenset(name for name, cells in step.values.items() if len(cells) != len(columns[name]))
    if odd:
        return Refusal(_OTHER_CELLS, odd)
    cells = {
        column: cell for name, values in step.values.items() for column, cell in zip(columns[name], values, strict=True)
    }
    try:
        found = plan.predict(tuple(step.values), [cells], models.modules, models.run)
    except InvalidRequest as error:
        wrong = {fault.loc[-1] for fault in error.faults if fault.loc}
        invalid = frozenset(name for name in step.values if wrong.intersection(columns[name]))
        if not invalid:
            raise
        return Refusal(_OTHER_CELLS, invalid)
    label, shares = found.labels[0], None if found.probabilities is None else dict(found.probabilities[0])
    confidence = None if shares is None or label is None else shares[label]
    return {"label": label, "confidence": confidence, "probabilities": shares}


_OTHER_CELLS = "a feature returned other columns than its table has, or invalid cells"
