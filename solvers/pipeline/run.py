"""Run an item through a pipeline: acquire the features of its stages until one is sure enough.

A feature that cannot be had is a missing cell, as the table had them.
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
    left: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item. step: says what is next, given the known features. widths: how many cells each feature has.

    left: seconds that it may take. Without an answer the label is None: somebody else has to decide.
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
        if left <= 0:
            return RunAnswer(None, degraded="; ".join(filter(None, (so_far.failures, "the time was over"))))
        callable_ = tuple(name for name in following.features if name not in excluded)
        heard = [
            CallResult(name, attempts=0, error="its circuit is open") for name in following.features if name in excluded
        ]
        if callable_:
            back = yield Call(callable_, left)
            heard, left = [*heard, *back.results], back.remaining_seconds
        so_far.results += heard
        known |= {one.name: _cells(one, widths[one.name]) for one in heard}
    return RunAnswer(None, degraded=so_far.failures)


def _cells(heard: CallResult, width: int) -> Cells:
    if heard.values is None:
        return None if width == 1 else (None,) * width
    return heard.values[0] if width == 1 and len(heard.values) == 1 else heard.values
