"""Batches within several limits: what requests ask, what replies tell, and what is refused."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.store import codec
from models import InvalidRequest, Trace, TraceSpec, dataset_from_columns
from models.dataset_rows import dataset_to_columns
from models.errors import ConflictingLimits, Infeasible
from models.portfolio import Assignment, AssignmentRequest, PortfolioOptions
from models.portfolio_constraints import ConstrainedAssignment, ConstrainedRequest
from solvers.base import BuildContext
from solvers.portfolio import PortfolioPlan, fit
from solvers.portfolio.constrained import Constraint, assign_constrained
from solvers.portfolio.estimates import estimate_outcome
from tests.solvers.portfolio.test_query_costs import SPEC, costs_of, drawn, plan

N = 300
VECTORS, COLUMNS = drawn(7, N)
LABELS = tuple("acme" if i % 3 else "basic" for i in range(N))
LATENCY = {"small": 1.0, "large": 5.0, "flat": 1.5}


def request(**asked: Any) -> ConstrainedRequest:
    """Make a request for all queries, whose sizes are known unless their costs are given."""
    sizes = None if "costs" in asked else COLUMNS["tokens"].tolist()
    return ConstrainedRequest.model_validate({"queries": VECTORS.tolist(), "sizes": sizes, **asked})


def assigned(made: PortfolioPlan | None = None, **asked: Any) -> ConstrainedAssignment:
    made = made or plan()
    given = made.assign(made.estimate(VECTORS), request(**asked))
    assert isinstance(given, ConstrainedAssignment)
    return given


def counted(given: ConstrainedAssignment) -> dict[str, float]:
    """Add up again what an assignment uses, by the names of limits."""
    names, values = np.array(given.assignments), plan().penalize_estimates(plan().estimate(VECTORS))
    place = np.array([["small", "large", "flat"].index(name) for name in names])
    costs, each = costs_of(COLUMNS["tokens"])[np.arange(N), place], values[np.arange(N), place]
    acme = np.array(LABELS) == "acme"
    return {
        "budget": costs.sum(),
        "accuracy.at_least": each.sum(),
        "classifiers.large.at_most": float((names == "large").sum()),
        "classifiers.flat.at_least": float((names == "flat").sum()),
        "classifiers.large.max_cost": costs[names == "large"].sum(),
        "resources.latency": sum(LATENCY[name] for name in names),
        "groups.acme.budget": costs[acme].sum(),
        "groups.acme.accuracy.at_least": each[acme].sum(),
        "groups.basic.classifiers.large.at_most": float((names[~acme] == "large").sum()),
        "groups.basic.resources.latency": sum(LATENCY[name] for name in names[~acme]),
        "min_group_accuracy.acme": each[acme].sum(),
        "min_group_accuracy.basic": each[~acme].sum(),
    }


EVERYTHING: dict[str, Any] = {
    "accuracy": {"at_least": 0.6},
    "classifiers": {"large": {"at_most": {"share": 0.3}, "max_cost": 1500}, "flat": {"at_least": 20}},
    "resources": {"latency": {"per_query": 2.4, "uses": LATENCY}},
    "groups": {
        "labels": LABELS,
        "limits": {
            "acme": {"budget": 6, "accuracy": {"at_least": 0.65}},
            "basic": {"classifiers": {"large": {"at_most": 25}}, "resources": {"latency": {"total": 220}}},
        },
    },
    "min_group_accuracy": 0.6,
}


@pytest.mark.parametrize("goal", ["accuracy", "cost"])
def test_every_kind_of_limit_is_kept_and_told(goal: str) -> None:
    given = assigned(goal=goal, budget=5, **EVERYTHING)
    again = counted(given)
    assert {each.limit for each in given.prices} == set(again)
    for each in given.prices:
        if "accuracy" in each.limit:  # a floor counts less than what is estimated
            assert again[each.limit] - 0.1 * N < each.used < again[each.limit], each.limit
        else:
            assert each.used == pytest.approx(again[each.limit]), each.limit
        assert each.at_most is None or each.used <= each.at_most * (1 + 1e-9), each.limit
        assert each.at_least is None or each.used >= each.at_least * (1 - 1e-9), each.limit
        assert (each.at_least is None) != (each.at_most is None)
        assert each.price >= 0
    assert given.cost == pytest.approx(again["budget"])
    assert given.budget == pytest.approx(5 * N)
    assert 0 <= given.gap <= 1e-4
    assert sum(given.usage.values()) == N
    bounds = {each.limit: each.at_most for each in given.prices}
    assert bounds["classifiers.large.at_most"] == 90
    assert bounds["resources.latency"] == pytest.approx(2.4 * N)
    assert bounds["groups.acme.budget"] == 6 * LABELS.count("acme")


def test_the_least_cost_at_a_floor_is_what_that_accuracy_costs() -> None:
    """The budget that is found leads the other way to the same accuracy."""
    cheap = assigned(goal="cost", accuracy={"at_least": 0.85}, gap=1e-6)
    assert cheap.budget is None
    assert cheap.estimated_accuracy >= 0.85
    made = plan()
    asked = AssignmentRequest(
        queries=VECTORS.tolist(),
        sizes=COLUMNS["tokens"].tolist(),
        budget_total=cheap.cost,
    )
    again = made.assign(made.estimate(VECTORS), asked)
    assert again.raw_estimate == pytest.approx(cheap.raw_estimate, abs=1e-4)
    (floor,) = cheap.prices
    dearer = assigned(goal="cost", accuracy={"at_least": 0.852}, gap=1e-6)
    assert (dearer.cost - cheap.cost) / (0.002 * N) == pytest.approx(floor.price, rel=0.1)


def uncertain(seed: int, rows: int) -> tuple[Any, dict[str, Any]]:
    """Draw embeddings that tell little of who is right, and who is."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(rows, 10)).astype(np.float32)
    small = 1 / (1 + np.exp(-0.3 - 0.7 * vectors[:, 0] * np.abs(vectors[:, 1])))
    chances: dict[str, Any] = {"small": small, "large": 0.9, "flat": 1 / (1 + np.exp(-0.8 * vectors[:, 1]))}
    return vectors, {name: (rng.random(rows) < chance).astype(float) for name, chance in chances.items()}


@pytest.mark.slow
def test_floors_come_true_on_queries_that_no_build_has_seen() -> None:
    """Estimates of chosen classifiers are too high: a floor of them alone is missed; with that taken off it is kept."""
    costs, n = {"small": 1.0, "large": 9.0, "flat": 1.2}, 10_000
    spec = {"kind": "trace", "unit": "USD", "classifiers": [{"name": k, "correct": k, "cost": costs[k]} for k in costs]}
    vectors, columns = uncertain(4, 300)
    trace = Trace.from_columns(TraceSpec.model_validate(spec), columns, vectors)
    options = PortfolioOptions(curve_points=9)
    made = fit(trace, options, np.random.default_rng(0), BuildContext()).plan
    vectors, columns = uncertain(102, n)
    estimated, right = made.estimate(vectors), np.column_stack([columns[name] for name in costs])
    labels = np.where(np.arange(n) % 3, "acme", "basic")
    missed = []
    for asked in (0.65, 0.75, 0.85):
        groups = {"labels": labels.tolist(), "limits": {"acme": {"accuracy": {"at_least": asked + 0.02}}}}
        floors = {"goal": "cost", "accuracy": {"at_least": asked}, "groups": groups, "time_limit_s": 5.0}
        request = ConstrainedRequest.model_validate({"queries": [[0.0]] * n, **floors})
        given = made.assign(estimated, request)
        came = right[np.arange(n), [made.classifiers.index(name) for name in given.assignments]]
        assert came.mean() >= asked
        assert came[labels == "acme"].mean() >= asked + 0.02
        in_cents = request.model_copy(update={"costs": ((100.0, 900.0, 120.0),) * n})
        again = made.assign(estimated, in_cents)
        assert again.estimated_accuracy == pytest.approx(given.estimated_accuracy, abs=1e-4)
        assert again.cost == pytest.approx(100 * given.cost, rel=1e-3)
        floor = Constraint(("accuracy",), 0, asked * n, is_upper=False)
        plain = assign_constrained(np.broadcast_to(-made.costs, (n, 3)), [floor], uses=[estimated], gap=1e-3)
        missed.append(right[np.arange(n), plain.choice].mean() < asked)
    assert any(missed)


def test_a_limit_that_does_not_bind_leaves_the_assignment_as_within_the_budget_alone() -> None:
    made = plan()
    alone = made.assign(made.estimate(VECTORS), request(budget=4))
    assert isinstance(alone, Assignment)
    loose = assigned(budget=4, classifiers={"large": {"at_most": N}}, gap=1e-6)
    assert loose.raw_estimate == pytest.approx(alone.raw_estimate, rel=2e-6)
    assert loose.prices[1].price == 0


def test_costs_given_outright_are_those_of_sizes() -> None:
    asked: dict[str, Any] = {"budget": 4, "classifiers": {"large": {"at_most": 40}}}
    assignment = assigned(costs=costs_of(COLUMNS["tokens"]).tolist(), **asked)
    assert assignment == assigned(**asked)
    made = plan()
    within = made.assign(made.estimate(VECTORS), request(costs=costs_of(COLUMNS["tokens"]).tolist(), budget=4))
    assert within == made.assign(made.estimate(VECTORS), request(budget=4))
    assert estimate_outcome(made, request(**asked), assignment).cost == pytest.approx(assignment.cost / N)


@cache
def embedding_plan() -> PortfolioPlan:
    """Let the small classifier make the embeddings."""
    vectors, columns = drawn(0, 400)
    trace = Trace.from_columns(TraceSpec.model_validate(SPEC), columns, vectors)
    options = PortfolioOptions(curve_points=3, feature_classifier="small")
    return fit(trace, options, np.random.default_rng(0), BuildContext()).plan


@pytest.mark.slow
def test_budgets_hold_the_embeddings_and_the_feature_classifier_answers_for_free() -> None:
    made = embedding_plan()
    given = assigned(made, budget=4, groups={"labels": LABELS, "limits": {"acme": {"budget": 3}}})
    paid = costs_of(COLUMNS["tokens"]) + made.embedding_cost
    paid[:, 0] = made.embedding_cost
    place = [made.classifiers.index(name) for name in given.assignments]
    each, acme = paid[np.arange(N), place], np.array(LABELS) == "acme"
    assert given.cost == pytest.approx(each.sum())
    assert [limit.used for limit in given.prices] == pytest.approx([each.sum(), each[acme].sum()])
    assert given.cost <= 4 * N * (1 + 1e-9)


def test_limits_that_conflict_are_told_with_what_each_must_give() -> None:
    classifiers = {"large": {"at_most": 10}}
    with pytest.raises(ConflictingLimits, match=r"^limits cannot be met together: accuracy\.at_least") as caught:
        assigned(goal="cost", accuracy={"at_least": 0.8}, classifiers=classifiers, budget=100)
    assert isinstance(caught.value, Infeasible)
    floor, capacity = caught.value.conflict
    assert (floor.limit, capacity.limit) == ("accuracy.at_least", "classifiers.large.at_most")
    assert floor.give is not None
    assert capacity.give is not None
    more = {"large": {"at_most": 10 + round(capacity.give)}}
    assert assigned(goal="cost", accuracy={"at_least": 0.8}, classifiers=more).usage["large"] == 10 + capacity.give
    assert floor.bound == pytest.approx(0.8)
    less = {"at_least": 0.8 - floor.give * (1 + 1e-6)}
    assert assigned(goal="cost", accuracy=less, classifiers=classifiers).usage["large"] == 10
    with pytest.raises(ConflictingLimits, match=r"^no assignment meets budget at most 3 \(would have to be "):
        assigned(goal="cost", budget_total=3)


def test_limits_that_no_estimates_could_keep_are_refused_without_any() -> None:
    plan().check_feasibility(N, request(**EVERYTHING, goal="cost"))
    none = {name: {"at_most": 0} for name in ("small", "large", "flat")}
    for asked in (
        {"budget": 0.01},
        {"min_accuracy": 1.0},
        {"classifiers": none},
        {"budget": 0.01, **EVERYTHING},
        {"groups": {"labels": LABELS, "limits": {"acme": {"classifiers": none}}}},
    ):
        with pytest.raises(Infeasible) as alone:
            plan().check_feasibility(N, request(**asked))
        with pytest.raises(type(alone.value)):
            plan().assign(np.ones((N, 3)), request(**asked))
    plan().check_feasibility(N, request(accuracy={"at_least": 1.0}, budget=3.0))  # estimates may be 1
    with pytest.raises(InvalidRequest, match=r"^classifiers\.stranger: .* available: "):
        plan().check_feasibility(N, request(classifiers={"stranger": {"at_most": 1}}))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.slow
def test_without_estimates_the_same_limits_are_refused_as_with_any(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = {
        "budget": rng.uniform(2.0, 6.0),
        "classifiers": {
            "small": {"at_most": {"share": rng.uniform(0.2, 0.8)}},
            "large": {"at_most": {"share": rng.uniform(0.1, 0.6)}, "max_cost": rng.uniform(100, 1500)},
            "flat": {"at_least": int(rng.integers(0, 90)), "at_most": int(rng.integers(90, 200))},
        },
        "resources": {"latency": {"per_query": rng.uniform(1.2, 2.5), "uses": LATENCY}},
    }

    def refuses(estimates: Any) -> bool:
        try:
            if estimates is None:
                plan().check_feasibility(N, request(**asked))
            else:
                plan().assign(estimates, request(**asked))
        except Infeasible:
            return True
        return False

    given = (None, plan().estimate(VECTORS), rng.uniform(size=(N, 3)), np.ones((N, 3)))
    assert len({refuses(estimates) for estimates in given}) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "budget, min_accuracy, or another limit is required"),
        (
            {"goal": "cost", "min_accuracy": 0.5},
            "use accuracy.at_least",
        ),
        (
            {"goal": "cost", "objective": "min"},
            "use min_group_accuracy",
        ),
        ({"goal": "speed"}, "goal"),
        ({"accuracy": {"at_least": 1.5}}, "accuracy.at_least"),
        ({"classifiers": {"large": {}}}, "at_least, at_most, or max_cost is required"),
        ({"classifiers": {"large": {"at_most": -1}}}, "must be at least 0"),
        ({"classifiers": {"large": {"at_most": {"share": 2}}}}, "must be at most 1"),
        ({"classifiers": {"large": {"at_most": "all"}}}, "must be a number, or have share"),
        ({"resources": {"x": {"uses": LATENCY}}}, "exactly one of total and per_query is required, got none"),
        (
            {"resources": {"x": {"total": 1, "uses": [[1, 1, 1]]}}},
            "uses of 'x' must have 300 rows",
        ),
        ({"groups": {"labels": ["a"]}}, "groups must have 300 labels, one per query, got 1"),
        ({"min_group_accuracy": 0.5}, "min_group_accuracy"),
        (
            {"groups": {"labels": LABELS, "limits": {"acme": {"resources": {"x": {"total": 1}}}}}},
            "'x'",
        ),
        ({"groups": {"labels": LABELS, "limits": {"acne": {"budget_total": 1}}}}, "'acne' not found"),
        ({"costs": [[1, 1, 1]], "sizes": None, "goal": "cost"}, "costs must have 300 rows, one per query, got 1"),
        ({"costs": [[1, 1, 1]] * N, "sizes": [1.0] * N, "goal": "cost"}, "costs cannot be combined with sizes"),
    ],
)
def test_requests_that_say_nothing_sensible_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        request(**asked)
    assert message in str(InvalidRequest.from_validation(caught.value))


def test_at_most_a_thousand_labels_are_told_apart() -> None:
    labels = [str(i) for i in range(1001)]
    with pytest.raises(ValidationError, match="at most 1000 different labels, got 1001"):
        request(queries=[[0.0]] * 1001, sizes=None, groups={"labels": labels})


def test_at_most_a_thousand_limits_are_kept_together() -> None:
    labels = [str(i) for i in range(1000)]
    many = ConstrainedRequest.model_validate(
        {"queries": [[0.0] * 3] * 1000, "groups": {"labels": labels}, "min_group_accuracy": 0.1, "budget_total": 9}
    )
    with pytest.raises(InvalidRequest, match="at most 1000 limits, got 1001"):
        plan().assign(np.full((1000, 3), 0.5), many)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"classifiers": {"huge": {"at_most": 1}}}, ("classifiers", "huge")),
        (
            {"groups": {"labels": LABELS, "limits": {"acme": {"classifiers": {"huge": {"at_most": 1}}}}}},
            ("groups", "limits", "acme", "classifiers", "huge"),
        ),
        ({"resources": {"x": {"total": 9, "uses": {**LATENCY, "huge": 1}}}}, ("resources", "x", "uses", "huge")),
        ({"resources": {"x": {"total": 9, "uses": {"small": 1}}}}, ("resources", "x", "uses")),
        ({"resources": {"x": {"total": 9, "uses": [[1, 1]] * N}}}, ("resources", "x", "uses", 0)),
        ({"costs": [[1, 1, 1]] * (N - 1) + [[1]], "goal": "cost"}, ("costs", N - 1)),
    ],
)
def test_what_the_portfolio_does_not_have_is_refused_where_it_stands(asked: dict[str, Any], where: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        assigned(**asked)
    assert caught.value.faults[0].loc == where


@cache
def with_resources() -> PortfolioPlan:
    """Build from a trace that tells of tokens by the item's size, of latency as it was measured, and of carbon."""
    vectors, columns = drawn(0, 400)
    columns |= {f"{name}_ms": np.linspace(0.5, 1.5, 400) * LATENCY[name] for name in LATENCY}
    spec = SPEC | {
        "classifiers": [
            each
            | {
                "resources": {
                    "carbon": place,
                    "tokens": {"polynomial": [100, 1 + place]},
                    "latency": {"column": f"{each['name']}_ms"},
                }
            }
            for place, each in enumerate(SPEC["classifiers"])
        ]
    }
    trace = Trace.from_columns(TraceSpec.model_validate(spec), columns, vectors)
    assert trace.resources.shape == (400, 3, 3)
    again = dataset_from_columns(trace.spec, dataset_to_columns(trace), vectors)
    assert isinstance(again, Trace)
    assert np.array_equal(again.resources, trace.resources)
    assert np.array_equal(again.take(np.arange(3)).resources, trace.resources[:3])
    assert np.array_equal(codec.decode(codec.encode(trace, {}), Trace).resources, trace.resources)
    options = PortfolioOptions(curve_points=3)
    return fit(trace, options, np.random.default_rng(0), BuildContext()).plan


@pytest.mark.slow
def test_resources_that_a_trace_tells_of_are_limited_by_name() -> None:
    made = with_resources()
    given = assigned(
        made,
        budget=6,
        gap=1e-3,  # a proof at the default gap takes a minute
        resources={"tokens": {"per_query": 500}, "latency": {"total": 700}, "carbon": {"per_query": 1}},
    )
    names, tokens = np.array(given.assignments), np.array(COLUMNS["tokens"])
    place = np.array([["small", "large", "flat"].index(name) for name in names])
    used = {each.limit: each.used for each in given.prices}
    assert used["resources.tokens"] == pytest.approx((100 + (1 + place) * tokens).sum())
    assert used["resources.latency"] == pytest.approx(sum(LATENCY[name] for name in names))
    assert used["resources.carbon"] == pytest.approx(place.sum())
    blind = made.assign(
        made.estimate(VECTORS), request(sizes=None, resources={"tokens": {"per_query": 1000}}, goal="cost")
    )
    assert isinstance(blind, ConstrainedAssignment)
    means = (100 + np.multiply.outer(np.array([1, 2, 3]), drawn(0, 400)[1]["tokens"])).mean(axis=1)
    chosen = [made.classifiers.index(name) for name in blind.assignments]
    assert blind.prices[0].used == pytest.approx(means[chosen].sum())
    with pytest.raises(InvalidRequest, match=r"available: carbon, tokens, latency; set its uses"):
        assigned(made, resources={"money": {"total": 1}})
    assert codec.decode(codec.encode(made, {}), PortfolioPlan).resources == ("carbon", "tokens", "latency")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"resource_means": np.ones((1, 3))}, "uses of each resource"),
        ({"resource_means": -np.ones((3, 3))}, "resource_means"),
        ({"resources": ("a", "a", "b")}, "uses of each resource"),
        ({"resources": ("a",)}, "uses of each resource"),
        ({"resource_powers": np.full((2, 1), 99)}, "uses of each resource"),
        ({"resource_coefficients": np.ones((2, 2))}, "uses of each resource"),
        ({"resource_coefficients": np.ones(2)}, "arrays of the correct dimensions"),
    ],
)
def test_forged_resources_are_refused(resources: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        replace(with_resources(), **resources)


def test_every_classifier_tells_the_same_resources() -> None:
    def spec(*resources: Any) -> dict[str, Any]:
        classifiers = [{**each, "resources": own} for each, own in zip(SPEC["classifiers"], resources, strict=True)]
        return {**SPEC, "classifiers": classifiers}

    with pytest.raises(
        ValidationError, match="all classifiers must have the same resources: 'small' has a, 'flat' has none"
    ):
        TraceSpec.model_validate(spec({"a": 1}, {"a": 2}, {}))
    two = {"a": {"terms": [{"coefficient": 1, "powers": [1, 1]}]}}
    with pytest.raises(ValidationError, match=r"the a of 'small' depends on 2 sizes, but the spec has 1 size columns"):
        TraceSpec.model_validate(spec(two, two, two))
    many = [{"name": str(i), "quality": str(i), "cost": 1, "resources": dict.fromkeys("abc", 1)} for i in range(67)]
    with pytest.raises(ValidationError, match=r"200 uses of resources, got 201"):
        TraceSpec.model_validate({"kind": "trace", "unit": "ms", "classifiers": many})
