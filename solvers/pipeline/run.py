"""Run of a pipeline on one item: acquire features stage by stage until a prediction is accepted.

An unavailable feature is a missing cell.
"""

from collections.abc import Callable, Mapping, Sequence

from models.errors import InvalidRequest
from models.pipeline import Acquire, Classify, Step
from solvers.running import Call, CallResult, ResultsSoFar, RunAnswer, Runner

Cells = float | None | Sequence[float | None]


def run(
    step: Callable[[Mapping[str, Cells]], Step],
    widths: Mapping[str, int],
    *,
    remaining_seconds: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run one item; the label is None without an accepted prediction.

    step: returns the next step, given the known features; widths: number of cells of each feature.
    """
    so_far, known = ResultsSoFar(), dict[str, Cells]()
    for _ in range(len(widths) + 1):
        try:
            following = step(known)
        except InvalidRequest as error:
            return RunAnswer(None, degraded="; ".join(filter(None, (so_far.failures, str(error)))))
        if isinstance(following, Classify):
            return RunAnswer(following.label, following.confidence, None, None, so_far.failures)
        if not isinstance(following, Acquire):
            return RunAnswer(None, following.confidence, None, None, so_far.failures)
        if remaining_seconds <= 0:
            return RunAnswer(None, degraded="; ".join(filter(None, (so_far.failures, "deadline exceeded"))))
        callable_ = tuple(name for name in following.features if name not in excluded)
        results = [
            CallResult(name, attempts=0, error="its circuit is open") for name in following.features if name in excluded
        ]
        if callable_:
            called = yield Call(callable_, remaining_seconds)
            results, remaining_seconds = [*results, *called.results], called.remaining_seconds
        so_far.results += results
        known |= {one.name: _cells(one, widths[one.name]) for one in results}
    return RunAnswer(None, degraded=so_far.failures)


def _cells(result: CallResult, width: int) -> Cells:
    if result.values is None:
        return None if width == 1 else (None,) * width
    return result.values[0] if width == 1 and len(result.values) == 1 else result.values
