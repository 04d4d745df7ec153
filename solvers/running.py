"""Runs in the process that holds the plan.

Decisions and predictions are made in this process; calls are made elsewhere.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from models.errors import EndpointFailed, RunTimeout
from parsimony.runs.steps import Call, CallResults, DecisionRequest, NoAnswer, Predict, Refusal, RunAnswer, Steps
from solvers.setup_groups import SetupPricing

Runner = Generator[Call, CallResults, RunAnswer]
"""Yields the calls of a run, and receives their results."""
Decide = Callable[[DecisionRequest | Predict], Mapping[str, Any] | Refusal]


def reject_further_steps(step: DecisionRequest | Predict) -> Refusal:
    """Refuse decisions after the first one; used for runs that need no others."""
    return Refusal("no other decision is possible")


def run_with_local_decisions(
    steps: Steps, decide: Decide = reject_further_steps, setup: SetupPricing | None = None
) -> Runner:
    """Run an item; ``decide`` makes its decisions and predictions in this process.

    setup: plans the costs of set-up groups; None: there are none.

    Raises EndpointFailed without an answer, and RunTimeout if no time remains.
    """
    outcome: Any = None
    try:
        while True:
            step = steps.send(outcome)
            outcome = (yield step) if isinstance(step, Call) else decide(step)
            if setup is not None and isinstance(step, Call):
                setup.plan_costs(outcome.results)
    except StopIteration as end:
        answer: RunAnswer = end.value
        return answer
    except NoAnswer as error:
        raise (RunTimeout if error.is_late else EndpointFailed)(str(error)) from None
