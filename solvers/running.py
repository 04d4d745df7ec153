"""Runs in the process that holds the plan: its decisions and predictions are made here, its calls elsewhere."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from models.errors import EndpointFailed, RunTimeout
from parsimony.runs.steps import Ask, Call, CallResults, NoAnswer, Predict, Refusal, RunAnswer, Steps

Runner = Generator[Call, CallResults, RunAnswer]
"""Yields the calls of a run, and receives their results."""
Decide = Callable[[Ask | Predict], Mapping[str, Any] | Refusal]


def refuse_step(step: Ask | Predict) -> Refusal:
    """Refuse decisions after the first one, for runs that need no others."""
    return Refusal("no other decision is possible")


def run_here(steps: Steps, decide: Decide = refuse_step) -> Runner:
    """Run an item whose decisions and predictions ``decide`` makes.

    Raises EndpointFailed without an answer, or RunTimeout if no time remains.
    """
    outcome: Any = None
    try:
        while True:
            step = steps.send(outcome)
            outcome = (yield step) if isinstance(step, Call) else decide(step)
    except StopIteration as end:
        answer: RunAnswer = end.value
        return answer
    except NoAnswer as error:
        raise (RunTimeout if error.is_late else EndpointFailed)(str(error)) from None
