"""Artifacts of a server: decide, evaluate, and run items with the caller's own functions."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parsimony.decisions import Decision
from parsimony.errors import Infeasible, InvalidRequest, ParsimonyError, RunFailed, Unavailable
from parsimony.function_run import FunctionRun, RunResult
from parsimony.functions import Function, call_function, call_functions_async, check_functions, to_plain
from parsimony.runs.steps import (
    Call,
    DecisionRequest,
    NoAnswer,
    Predict,
    Refusal,
    RunAnswer,
    Steps,
    refusal_from_values,
)

if TYPE_CHECKING:
    from parsimony.client import AsyncParsimony, Parsimony
    from parsimony.replies import CurveReply, EvaluationReply

A = TypeVar("A")


class BoundArtifact:
    """An artifact of a client's server.

    Args:
        kind: cascade, index, pipeline, policy, or portfolio.
        version: a version other than the active one; None: the active one.
    """

    def __init__(self, client: Any, kind: str, name: str, version: int | None = None) -> None:
        self.client, self.kind, self.name, self.version = client, kind, name, version


class HasArtifacts(Generic[A]):
    """Artifacts of a client, by kind."""

    _artifact_type: Callable[..., A]

    def cascade(self, name: str, version: int | None = None) -> A:
        """Return a cascade: classifiers in order, until one is confident enough."""
        return self._artifact_type(self, "cascade", name, version)

    def index(self, name: str, version: int | None = None) -> A:
        """Return an index: the features to compute for an item."""
        return self._artifact_type(self, "index", name, version)

    def pipeline(self, name: str, version: int | None = None) -> A:
        """Return a pipeline: features stage by stage, with a reject option."""
        return self._artifact_type(self, "pipeline", name, version)

    def policy(self, name: str, version: int | None = None) -> A:
        """Return a policy: the next feature or classifier, given what is known."""
        return self._artifact_type(self, "policy", name, version)

    def portfolio(self, name: str, version: int | None = None) -> A:
        """Return a portfolio: the classifier of an item, by its embedding."""
        return self._artifact_type(self, "portfolio", name, version)


class Artifact(BoundArtifact):
    """An artifact of a server."""

    client: "Parsimony"

    def decide(self, **query: Any) -> Decision:
        """Return the decision for limits such as ``budget=5``, and for known values of the item."""
        return self.client.decide(self.kind, self.name, version=self.version, **query)

    def evaluate(self, items: Sequence[Mapping[str, Any]], **limits: Any) -> "EvaluationReply":
        """Evaluate complete items; return the outcome of each item, and a summary."""
        return self.client.evaluate(self.kind, self.name, items, version=self.version, **limits)

    def curve(self, **query: Any) -> "CurveReply":
        """Return the trade-off curve: operating points with intervals, and baselines."""
        return self.client.curve(self.kind, self.name, version=self.version, **query)

    def run(
        self, item: Any, functions: Mapping[str, Function], /, *, deadline_s: float | None = None, **limits: Any
    ) -> RunResult:
        """Run an item with your own functions, which this process calls.

        Args:
            item: passed to each function.
            functions: by classifier or feature: a function of the item that returns a label, ``(label, confidence)``,
                an ``Answer``, or feature values; or a fitted classifier with ``predict_proba``.
            deadline_s: time limit in seconds, for artifacts whose unit is a time. Running functions are not
                interrupted. Of a cascade, a classifier is skipped if its worst-case time and that of the last one
                exceed the remaining time.
            limits: limits such as ``budget``, and for portfolios ``query``, the item's embedding.
        Raises:
            RunFailed: no function answered.
            Infeasible: no decision keeps the limits.
            InvalidRequest: an invalid limit or function.
        """
        check_functions(functions)
        run = FunctionRun(self.kind, limits_to_json(limits), deadline_s)
        if run.needs_unit:
            run.record = self.client.describe(self.kind, self.name, self.version, timeout_s=run.time_limit_s)
        decision = self.decide(**run.make_first_query(), timeout_s=run.time_limit_s)
        decided = type(self)(self.client, self.kind, self.name, decision["artifact"]["version"])
        if run.needs_facts:
            run.record = self.client.describe(self.kind, self.name, decided.version, timeout_s=run.time_limit_s)
        steps, outcome = run.make_steps(decision), None
        while not isinstance(step := resume_run(steps, outcome), RunAnswer):
            outcome = decided._make_step(run, step, functions, item)
        return run.make_result(step)

    def _make_step(
        self, run: FunctionRun, step: DecisionRequest | Call | Predict, functions: Mapping[str, Function], item: Any
    ) -> Any:
        if isinstance(step, Call):
            return run.add_outcomes(step, [call_function(name, functions, item) for name in step.names])
        try:
            if isinstance(step, DecisionRequest):
                return self.decide(**run.make_query(step), timeout_s=run.time_limit_s)
            items, limits = run.make_evaluation(step)
            return self.evaluate(items, timeout_s=run.time_limit_s, **limits)["items"][0]
        except (Infeasible, InvalidRequest, Unavailable) as error:
            return refusal_from_error(step, error)


class AsyncArtifact(BoundArtifact):
    """An artifact of a server, for asyncio."""

    client: "AsyncParsimony"

    async def decide(self, **query: Any) -> Decision:
        """Return the decision for limits such as ``budget=5``, and for known values of the item."""
        return await self.client.decide(self.kind, self.name, version=self.version, **query)

    async def evaluate(self, items: Sequence[Mapping[str, Any]], **limits: Any) -> "EvaluationReply":
        """Evaluate complete items; return the outcome of each item, and a summary."""
        return await self.client.evaluate(self.kind, self.name, items, version=self.version, **limits)

    async def curve(self, **query: Any) -> "CurveReply":
        """Return the trade-off curve: operating points with intervals, and baselines."""
        return await self.client.curve(self.kind, self.name, version=self.version, **query)

    async def run(
        self, item: Any, functions: Mapping[str, Function], /, *, deadline_s: float | None = None, **limits: Any
    ) -> RunResult:
        """Run an item with your own functions, concurrently and within the time limit.

        Functions that are not asynchronous are called in threads, which continue after the time limit.

        Arguments and errors are those of ``Artifact.run``.
        """
        check_functions(functions)
        run = FunctionRun(self.kind, limits_to_json(limits), deadline_s)
        if run.needs_unit:
            run.record = await self.client.describe(self.kind, self.name, self.version, timeout_s=run.time_limit_s)
        decision = await self.decide(**run.make_first_query(), timeout_s=run.time_limit_s)
        decided = type(self)(self.client, self.kind, self.name, decision["artifact"]["version"])
        if run.needs_facts:
            run.record = await self.client.describe(self.kind, self.name, decided.version, timeout_s=run.time_limit_s)
        steps, outcome = run.make_steps(decision), None
        while not isinstance(step := resume_run(steps, outcome), RunAnswer):
            outcome = await decided._make_step(run, step, functions, item)
        return run.make_result(step)

    async def _make_step(
        self, run: FunctionRun, step: DecisionRequest | Call | Predict, functions: Mapping[str, Function], item: Any
    ) -> Any:
        if isinstance(step, Call):
            timeout_s = None if step.timeout_s == inf else step.timeout_s
            return run.add_outcomes(step, await call_functions_async(step.names, functions, item, timeout_s))
        try:
            if isinstance(step, DecisionRequest):
                return await self.decide(**run.make_query(step), timeout_s=run.time_limit_s)
            items, limits = run.make_evaluation(step)
            return (await self.evaluate(items, timeout_s=run.time_limit_s, **limits))["items"][0]
        except (Infeasible, InvalidRequest, Unavailable) as error:
            return refusal_from_error(step, error)


def limits_to_json(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits and facts as JSON has them; embeddings and readings may be NumPy arrays."""
    return {name: to_plain(value) for name, value in limits.items()}


def refusal_from_error(step: DecisionRequest | Predict, error: ParsimonyError) -> Refusal:
    """Return the refusal of a step, with the names of those values that the server found invalid."""
    sent = step.acquired if isinstance(step, DecisionRequest) else step.values
    return refusal_from_values(str(error), sent, [fault["loc"] for fault in error.details.get("errors", ())])


def resume_run(steps: Steps, outcome: Any) -> DecisionRequest | Call | Predict | RunAnswer:
    """Continue a run with the outcome of its last step; return the next step, or the answer. Raises RunFailed."""
    try:
        return steps.send(outcome)
    except StopIteration as ended:
        answer: RunAnswer = ended.value
        return answer
    except NoAnswer as error:
        raise RunFailed(str(error), code="run-failed") from None
