"""Runs with the caller's own functions: answers, paths, and costs are those of the server's evaluation."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from app.serving.local import LocalPlan
from models.errors import EndpointFailed
from parsimony import Answer, AsyncParsimony, Infeasible, InvalidRequest, NotFound, Parsimony, RunFailed, RunResult
from parsimony.functions import CallOutcome, call_function, call_function_async, call_functions_async
from parsimony.runs.steps import CallResults
from solvers import KINDS
from solvers.evaluation import items_from_dataset
from solvers.kind import RunContext, make_query
from tests.support.cases import case_count
from tests.support.kinds import SAMPLES, dataset
from tests.support.samples import FEATURES_SPEC, MIXED_SPEC
from tests.support.servers import Server

pytestmark = [pytest.mark.server, pytest.mark.smoke]
ROWS = case_count(25, 8)
SPECS = {"features": FEATURES_SPEC, "mixed": MIXED_SPEC}


@pytest.fixture
def client(all_kinds: Server) -> Iterator[Parsimony]:
    with Parsimony(all_kinds.url, key="k") as connected:
        yield connected


def functions_of(kind: str) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    """Make a function of each name, which looks its answer up in the item."""
    source = SAMPLES[kind].dataset
    if source == "trace":

        def answer(name: str) -> Callable[[Mapping[str, Any]], Answer]:
            return lambda item: Answer(item[f"{name}.label"], item[f"{name}.confidence"], item[f"{name}.cost"])

        return {name: answer(name) for name in ("fast", "middle", "strong")}

    def value(columns: list[str]) -> Callable[[Mapping[str, Any]], Any]:
        return lambda item: item[columns[0]] if len(columns) == 1 else [item[each] for each in columns]

    return {each["name"]: value(each["columns"]) for each in SPECS[source]["features"]}


def items_of(kind: str) -> list[dict[str, Any]]:
    """Return complete items, as evaluations take them."""
    complete = items_from_dataset(dataset(SAMPLES[kind].dataset).take(np.arange(ROWS)))
    items: list[dict[str, Any]] = []
    for at, values in enumerate(complete.values):
        item: dict[str, Any] = {"id": str(at), "values": dict(values)}
        if complete.embeddings is not None and kind == "portfolio":
            item["embedding"] = complete.embeddings[at].tolist()
        if complete.sizes[at] is not None and kind == "index":
            item["size"] = complete.sizes[at]
        items.append(item)
    return items


LIMITS: dict[str, list[dict[str, Any]]] = {
    "cascade": [{}, {"budget": 4.0}, {"deadline": 12.0}],
    "portfolio": [{"budget": "50%"}, {"budget": 3.0}],
    "index": [{"budget": 0.0}, {"budget": 4.0}, {}],
    "policy": [{}, {"budget": 5.0}, {"tradeoff": 0.01}],
    "pipeline": [{}, {"budget": 5.0}],
}


def facts_of(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a query that describe the item."""
    if kind == "portfolio":
        return {"query": np.array(item["embedding"])}
    if kind == "index":
        return {"size": item["size"]}
    return {"item": item["id"]} if kind in ("cascade", "policy") else {}


@pytest.mark.parametrize("kind", LIMITS)
def test_runs_end_as_evaluations_of_the_same_items_do(client: Parsimony, kind: str) -> None:
    items, artifact = items_of(kind), getattr(client, kind)("plan")
    for limits in LIMITS[kind]:
        expected = artifact.evaluate(items, **limits)["items"]
        for item, outcome in zip(items, expected, strict=True):
            result = artifact.run(item["values"], functions_of(kind), **limits, **facts_of(kind, item))
            assert (result.label, list(result.called)) == (outcome["label"], outcome["path"])
            assert result.decision["artifact"]["name"] == "plan"
            assert not result.failures
            if kind != "pipeline":
                assert result.cost == pytest.approx(outcome["cost"])


async def run_async(
    url: str, kind: str, item: dict[str, Any], functions: Mapping[str, Any], **limits: Any
) -> RunResult:
    async with AsyncParsimony(url, key="k") as client:
        found = await getattr(client, kind)("plan").run(item["values"], functions, **limits, **facts_of(kind, item))
        assert isinstance(found, RunResult)
        return found


@pytest.mark.parametrize("kind", LIMITS)
def test_asynchronous_functions_give_the_same(all_kinds: Server, client: Parsimony, kind: str) -> None:
    def wrap(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def call(item: Any) -> Any:
            await asyncio.sleep(0)
            return function(item)

        return call

    limits, item = LIMITS[kind][-1], items_of(kind)[3]
    plain = getattr(client, kind)("plan").run(item["values"], functions_of(kind), **limits, **facts_of(kind, item))
    wrapped = {name: wrap(function) for name, function in functions_of(kind).items()}
    found = asyncio.run(run_async(all_kinds.url, kind, item, wrapped, **limits))
    assert (found.label, found.called, found.cost) == (plain.label, plain.called, plain.cost)


def fail(item: Any) -> Any:
    raise ValueError("out of order")


@pytest.mark.parametrize("kind", LIMITS)
def test_a_function_that_fails_is_reported_and_the_others_answer(client: Parsimony, kind: str) -> None:
    for item in items_of(kind)[:5]:
        functions, limits = functions_of(kind), LIMITS[kind][0]
        artifact = getattr(client, kind)("plan")
        first = artifact.run(item["values"], functions, **limits, **facts_of(kind, item)).called
        if len(first) == 0 or (kind == "cascade" and len(first) == 3):
            continue
        result = artifact.run(item["values"], {**functions, first[0]: fail}, **limits, **facts_of(kind, item))
        assert "out of order" in result.failures[first[0]]
        assert result.label is not None


@dataclass
class Outcome:
    """Outcome of a run in the server's way: the plan is in this process."""

    label: str | None
    answered_by: str | None
    called: list[str]


def run_in_server(kind: str, plan: Any, query: Any, functions: Mapping[str, Any], item: Any) -> Outcome:
    """Run an item as the server does, with functions in place of endpoints."""
    runner, called = KINDS[kind].start_run(plan, query, RunContext(remaining_seconds=30.0)).runner, list[str]()
    outcome: Any = None
    while True:
        try:
            call = runner.send(outcome)
        except StopIteration as ended:
            return Outcome(ended.value.label, ended.value.answered_by, called)
        called += call.names
        results = tuple(call_function(name, functions, item).to_result() for name in call.names)
        outcome = CallResults(results, 30.0)


@pytest.mark.parametrize("kind", sorted(LIMITS.keys() - {"index"}))
def test_whatever_fails_the_client_ends_as_the_server_does(client: Parsimony, kind: str) -> None:
    """By intent, a client computes other features of an index, where a server uses those that it has; and it asks for
    no classifier of a portfolio that costs more than the budget, which a server does where all others failed."""
    plan: Any = LocalPlan(client.export_version(kind, "plan", 1)).plan
    limits, compared = {"budget": 12.0} if kind == "portfolio" else LIMITS[kind][1], 0
    for at, item in enumerate(items_of(kind)):
        lost = [name for bit, name in enumerate(functions_of(kind)) if at >> bit & 1]
        functions = {**functions_of(kind), **dict.fromkeys(lost, fail)}
        facts = {name: np.array(value).tolist() for name, value in facts_of(kind, item).items()}
        query = make_query(KINDS[kind].query, **limits, **facts)
        try:
            there = run_in_server(kind, plan, query, functions, item["values"])
        except EndpointFailed:
            with pytest.raises(RunFailed):
                getattr(client, kind)("plan").run(item["values"], functions, **limits, **facts)
            continue
        here = getattr(client, kind)("plan").run(item["values"], functions, **limits, **facts)
        assert Outcome(here.label, here.answered_by, list(here.called)) == there, (lost, item["id"])
        compared += bool(lost)
    assert compared > case_count(10, 4)


@pytest.mark.parametrize("value", ["abc", float("nan"), [1.0] * 5, {"a": 1}, None, True, ()])
@pytest.mark.parametrize("kind", ["policy", "index", "pipeline"])
def test_invalid_readings_are_as_if_the_function_had_failed(client: Parsimony, kind: str, value: Any) -> None:
    item, functions, artifact = items_of(kind)[0], functions_of(kind), getattr(client, kind)("plan")
    query = {**LIMITS[kind][-1], **facts_of(kind, item)}
    first = artifact.run(item["values"], functions, **query).called[0]
    with_failure = artifact.run(item["values"], {**functions, first: fail}, **query)
    found = artifact.run(item["values"], {**functions, first: lambda item: value}, **query)
    assert found.label == with_failure.label
    assert found.degraded is not None or value in (None, ())


@pytest.mark.parametrize("kind", ["cascade", "portfolio"])
def test_if_all_functions_fail_the_run_fails(client: Parsimony, kind: str) -> None:
    item = items_of(kind)[0]
    with pytest.raises(RunFailed, match="out of order"):
        getattr(client, kind)("plan").run(
            item["values"], dict.fromkeys(functions_of(kind), fail), **LIMITS[kind][0], **facts_of(kind, item)
        )


def test_a_missing_function_is_a_failure_that_names_it(client: Parsimony) -> None:
    functions = functions_of("cascade")
    result = client.cascade("plan").run(items_of("cascade")[0]["values"], {"strong": functions["strong"]})
    assert result.answered_by == "strong"
    assert "'fast'" in " ".join(result.failures.values())


def test_what_is_no_function_is_refused_before_any_call(client: Parsimony) -> None:
    with pytest.raises(InvalidRequest, match="functions\\['fast'\\]"):
        client.cascade("plan").run({}, {"fast": 3})


def test_a_deadline_is_sent_with_the_decision_in_the_unit_of_the_artifact(client: Parsimony) -> None:
    item = items_of("cascade")[0]["values"]
    result = client.cascade("plan").run(item, functions_of("cascade"), deadline_s=10.0)
    assert result.decision["deadline"] == 10_000.0
    assert result.label is not None


def test_a_deadline_that_no_classifier_keeps_is_infeasible(client: Parsimony) -> None:
    with pytest.raises(Infeasible):
        client.cascade("plan").run({}, functions_of("cascade"), deadline=0.1)


def test_fitted_classifiers_are_functions(client: Parsimony) -> None:
    from sklearn.dummy import DummyClassifier

    sure = DummyClassifier(strategy="prior").fit([[0]] * 10, ["cat"] * 10)
    result = client.cascade("plan").run([0.0], {"fast": sure, "middle": sure, "strong": sure})
    assert (result.label, result.confidence, result.answered_by) == ("cat", 1.0, result.called[-1])


def test_unknown_artifacts_and_limits_are_refused(client: Parsimony) -> None:
    with pytest.raises(NotFound):
        client.cascade("nosuch").decide()
    with pytest.raises(InvalidRequest) as refused:
        client.cascade("plan").decide(budgte=3)
    assert refused.value.details["errors"][0]["loc"] == ["budgte"]


def test_a_function_that_is_missing_costs_nothing(client: Parsimony) -> None:
    functions = functions_of("cascade")
    item = {**items_of("cascade")[0]["values"], "fast.confidence": 0.0}
    result = client.cascade("plan").run(item, {"strong": functions["strong"]})
    assert result.called == ("strong",)
    assert result.cost == item["strong.cost"]


def test_an_own_timeout_error_is_kept_and_a_late_function_is_a_failure(all_kinds: Server) -> None:
    async def own(item: object) -> str:
        raise TimeoutError("the database")

    item, functions = items_of("cascade")[0], functions_of("cascade")
    names = ("fast", "middle")
    found = asyncio.run(run_async(all_kinds.url, "cascade", item, {**functions, **dict.fromkeys(names, own)}))
    assert set(found.failures.values()) == {"TimeoutError: the database"}

    async def late(function: Callable[[Any], Any]) -> CallOutcome:
        return await call_function_async("slow", {"slow": function}, 1, 0.01)

    for function in (lambda item: asyncio.sleep(60), lambda item: time.sleep(0.2)):
        assert isinstance(asyncio.run(late(function)).raised, TimeoutError)


def test_functions_that_are_not_asynchronous_do_not_block_each_other() -> None:
    both = threading.Barrier(2, timeout=10.0)

    async def call() -> list[CallOutcome]:
        return await call_functions_async(["a", "b"], dict.fromkeys("ab", lambda item: both.wait()), 1, None)

    assert sorted(one.value for one in asyncio.run(call())) == [0, 1]


@pytest.mark.parametrize("made", [("cat", 1.5), ("cat", float("nan"))])
def test_confidences_out_of_range_are_failures(made: Any) -> None:
    called = call_function("f", {"f": lambda item: made}, 1)
    assert called.value is made
    assert isinstance(called.to_label().raised, ValueError)
    with pytest.raises(ValueError, match="cost"):
        Answer("cat", 0.5, -1.0)


def test_budgets_divide_items_without_an_id_as_expected(client: Parsimony) -> None:
    """Of a mixture of two operating points, each decides its share of the items, not the cheaper one all of them."""
    items = items_of("cascade") * (400 // ROWS)
    for kind in ("cascade", "policy"):
        artifact, budget = getattr(client, kind)("plan"), 4.0
        functions = functions_of(kind)
        paths = [artifact.run(item["values"], functions, budget=budget).called for item in items[:150]]
        ids = [
            artifact.run(item["values"], functions, budget=budget, item=str(at)).called
            for at, item in enumerate(items[:150])
        ]
        lengths = [np.mean([len(path) for path in each]) for each in (paths, ids)]
        assert lengths[0] == pytest.approx(lengths[1], abs=0.35)


@pytest.mark.parametrize("value", [None, 2.5, ["cat", 0.9], ("cat", 0.9, 1), np.array(["cat"]), True])
def test_what_has_no_label_is_a_failure_of_a_classifier(client: Parsimony, value: Any) -> None:
    functions = {**functions_of("cascade"), "fast": lambda item: value}
    result = client.cascade("plan").run(items_of("cascade")[0]["values"], functions)
    assert "must return a label" in result.failures["fast"]
    assert result.degraded is not None
    numbered = client.cascade("plan").run(None, dict.fromkeys(functions, lambda item: (np.int64(3), 1.0)))
    assert (numbered.label, numbered.confidence) == ("3", 1.0)


def test_values_that_are_no_json_and_addresses_without_a_scheme_are_refused(client: Parsimony) -> None:
    with pytest.raises(InvalidRequest, match="JSON"):
        client.portfolio("plan").decide(query=[float("nan"), 1.0])
    with pytest.raises(InvalidRequest, match="key"):
        Parsimony(key="schl\u00fcssel")
    with Parsimony("127.0.0.1:8000") as without, pytest.raises(InvalidRequest):
        without.list_builds()
