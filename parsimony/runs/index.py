"""Run of an item of an index: compute the chosen features concurrently, and classify."""

from collections.abc import Mapping
from typing import Any

from parsimony.runs.steps import (
    Call,
    CollectedResults,
    DecisionRequest,
    NoAnswer,
    Predict,
    Refusal,
    RunAnswer,
    Steps,
    join_reasons,
    make_skipped_result,
)


def run_index(
    first: Mapping[str, Any], *, remaining_seconds: float, unavailable: frozenset[str] = frozenset()
) -> Steps:
    """Run an item with its decision, which has ``features`` and their ``cost``.

    If features fail or have invalid values, the next decision excludes them; without one, no feature is used.

    Args:
        remaining_seconds: time limit of the run.
        unavailable: features that must not be called.
    Raises:
        NoAnswer: no model is left.
    """
    so_far, cells = CollectedResults(), dict[str, tuple[Any, ...]]()
    forbidden, decision = set[str](), first
    while True:
        features = () if isinstance(decision, Refusal) else decision["features"]
        missing = [name for name in features if name not in cells]
        so_far.results += [make_skipped_result(name) for name in missing if name in unavailable]
        wanted = tuple(name for name in missing if name not in unavailable)
        if wanted and remaining_seconds > 0:
            called = yield Call(wanted, remaining_seconds, planned_cost=decision["cost"])
            so_far.results += called.results
            remaining_seconds = called.remaining_seconds
            cells |= {one.name: one.cells for one in called.results if one.error is None}
        failed = [name for name in missing if name not in cells]
        if not failed:
            found = yield Predict({name: cells[name] for name in features})
            if not isinstance(found, Refusal):
                reason = so_far.failures
                return RunAnswer(found["label"], found["confidence"], None, found["probabilities"], reason)
            if not found.invalid:
                raise NoAnswer(join_reasons(so_far.failures, found.reason) or "", remaining_seconds)
            so_far.mark_invalid(found.invalid, found.reason)
            failed = list(found.invalid)
        forbidden |= {*failed}
        cells = {name: value for name, value in cells.items() if name not in forbidden}
        decision = yield DecisionRequest(dict(cells), frozenset(forbidden))
