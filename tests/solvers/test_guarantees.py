"""Guarantees hold on unseen items in the stated share of builds, and are refused where rows cannot prove them."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import binomtest

from models import DatasetFacts, FeaturesSpec, InvalidRequest, TraceSpec, dataset_from_columns
from models.errors import Infeasible
from models.guarantees import GuaranteeReport, Guarantees
from solvers import KINDS, BuildContext
from solvers.evaluation import items_from_dataset
from solvers.guarantees import check_guarantees, clopper_pearson_lower, fit_with_guarantees
from tests.support.cases import first_quick
from tests.support.replays import World

NOISES = ((0.01, 1.5), (0.03, 1.0), (0.1, 0.7))
"""Cost and noise of each feature."""


def patients(seed: int, rows: int, **more: Any) -> Any:
    """Draw patients, three in ten of whom are sick."""
    rng = np.random.default_rng((seed, rows))
    sick = rng.random(rows) < 0.3
    columns = {f"x{at}": 1.5 * sick + noise * rng.normal(size=rows) for at, (_, noise) in enumerate(NOISES)}
    features = [{"name": f"x{at}", "columns": [f"x{at}"], "cost": cost} for at, (cost, _) in enumerate(NOISES)]
    spec = {"kind": "features", "label": "y", "unit": "EUR", "features": features, **more}
    truth = np.array(["well", "sick"], dtype=object)[sick.astype(int)]
    return dataset_from_columns(FeaturesSpec.model_validate(spec), {"y": truth, **columns})


UNSEEN = patients(999, 20_000)


def measure(kind: str, fitted: Any, unseen: Any = UNSEEN) -> tuple[float, float]:
    """Return recall and false positive rate of class ``sick`` on unseen patients; rejected ones count as right."""
    query = KINDS[kind].evaluation.model_validate({**fitted.savings.query, "items": [{}]})
    found = KINDS[kind].evaluate(fitted.plan, query, items_from_dataset(unseen))
    sick = unseen.labels == unseen.classes.index("sick")
    answered = np.array([label == "sick" for label in found.labels])
    rejected = np.zeros(len(sick), dtype=bool) if found.accepted is None else ~found.accepted
    return float((answered | rejected)[sick].mean()), float(answered[~sick].mean())


def fit(kind: str, dataset: Any, guarantees: dict[str, Any], seed: int = 0, **params: Any) -> Any:
    options = KINDS[kind].options.model_validate(params)
    wanted = Guarantees.model_validate(guarantees)
    return fit_with_guarantees(KINDS[kind], dataset, options, wanted, seed, BuildContext())[0]


def measure_accuracy(kind: str, fitted: Any) -> float:
    """Return the accuracy of answered unseen patients."""
    query = KINDS[kind].evaluation.model_validate({**fitted.savings.query, "items": [{}]})
    found = KINDS[kind].evaluate(fitted.plan, query, items_from_dataset(UNSEEN))
    right = np.array(found.labels, dtype=object) == np.array(UNSEEN.classes, dtype=object)[UNSEEN.labels]
    return float(right[slice(None) if found.accepted is None else found.accepted].mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "spec", "reach"),
    [
        ({"min_recall": {"sick": 0.9}}, {}, lambda built: measure("index", built)[0]),
        ({"min_accuracy": 0.95}, {"reject_cost": 0.4}, lambda built: measure_accuracy("index", built)),
    ],
)
def test_the_stated_share_of_builds_keeps_its_guarantee(wanted: dict[str, Any], spec: Any, reach: Any) -> None:
    """At a confidence of 80 %, of 16 builds at most 7 miss it in 99 of 100 tests; a plain build does."""
    bound = wanted.get("min_accuracy", 0.9)
    reached = []
    for seed in range(16):
        try:
            built = fit("index", patients(seed, 900, **spec), {**wanted, "confidence": 0.8}, seed)
        except Infeasible:
            continue
        reached.append(reach(built))
    assert len(reached) >= 12
    assert sum(share < bound for share in reached) <= 7
    plain = KINDS["index"].fit(patients(0, 900), KINDS["index"].options(), np.random.default_rng(0), BuildContext())
    assert reach(plain) < bound


@pytest.mark.parametrize("kind", first_quick(["index", "policy", "pipeline"]))
def test_two_guarantees_hold_together_where_a_person_helps(kind: str) -> None:
    params = {"points": 6, "trees": 24, "folds": 4} if kind == "policy" else {}
    both = {"min_recall": {"sick": 0.93}, "max_false_positive_rate": {"sick": 0.1}}
    built = fit(kind, patients(3, 4000, reject_cost=0.3), both, **params)
    recall, rate = measure(kind, built)
    report = GuaranteeReport.model_validate(built.summary["guarantees"])
    assert [(one.limit, one.value) for one in report.kept] == [("min_recall", 0.93), ("max_false_positive_rate", 0.1)]
    assert report.kept[0].bound >= 0.93
    assert report.kept[1].bound <= 0.1
    assert recall >= 0.93
    assert rate <= 0.1


@pytest.mark.parametrize("kind", first_quick(["index", "policy", "pipeline"]))
def test_answered_items_are_as_accurate_and_as_many_as_guaranteed(kind: str) -> None:
    params = {"points": 6, "trees": 24, "folds": 4} if kind == "policy" else {}
    both = {"min_accuracy": 0.93, "min_coverage": 0.75}
    built = fit(kind, patients(5, 6000, reject_cost=0.2), both, **params)
    report = GuaranteeReport.model_validate(built.summary["guarantees"])
    assert [(one.limit, one.label, one.value) for one in report.kept] == [
        ("min_accuracy", None, 0.93),
        ("min_coverage", None, 0.75),
    ]
    assert all(one.bound >= one.value for one in report.kept)
    query = KINDS[kind].evaluation.model_validate({**built.savings.query, "items": [{}]})
    accepted = KINDS[kind].evaluate(built.plan, query, items_from_dataset(UNSEEN)).accepted
    assert measure_accuracy(kind, built) >= 0.93
    assert accepted is None or accepted.mean() >= 0.75


def test_a_coverage_requires_rejects() -> None:
    facts, options = DatasetFacts.from_dataset(patients(0, 100)), KINDS["index"].options()
    with pytest.raises(InvalidRequest) as refused:
        check_guarantees(KINDS["index"], facts, options, Guarantees(min_coverage=0.9))
    assert refused.value.faults[0].loc == ("guarantees", "min_coverage")


@pytest.mark.slow
def test_cascades_keep_the_recall_of_a_class() -> None:
    world, unseen = (World.of(seed, rows) for seed, rows in ((1, 4000), (2, 8000)))
    plain = world.dataset("cascade")
    built = fit("cascade", plain, {"min_recall": {"a": 0.85}})
    query = KINDS["cascade"].evaluation.model_validate({**built.savings.query, "items": [{}]})
    rows = unseen.dataset("cascade")
    found = KINDS["cascade"].evaluate(built.plan, query, items_from_dataset(rows))
    own = np.flatnonzero(rows.labels == rows.classes.index("a"))
    assert np.mean([found.labels[at] == "a" for at in own.tolist()]) >= 0.85


def test_too_few_rows_are_refused_with_the_number_that_is_required() -> None:
    with pytest.raises(InvalidRequest) as refused:
        fit("index", patients(0, 300), {"min_recall": {"sick": 0.99}})
    (fault,) = refused.value.faults
    assert fault.loc == ("guarantees", "min_recall", "sick")
    assert "517 rows" in fault.msg


@pytest.mark.slow
def test_what_no_factor_proves_is_infeasible() -> None:
    with pytest.raises(Infeasible):
        fit("index", patients(0, 3000), {"min_recall": {"sick": 0.97}, "max_false_positive_rate": {"sick": 0.02}})


@pytest.mark.parametrize(
    ("guarantees", "kind", "where"),
    [
        ({"min_recall": {"ill": 0.9}}, "index", ("guarantees", "min_recall", "ill")),
        ({"max_false_positive_rate": {"ill": 0.1}}, "policy", ("guarantees", "max_false_positive_rate", "ill")),
    ],
)
def test_unknown_classes_are_refused(guarantees: dict[str, Any], kind: str, where: tuple[str, ...]) -> None:
    facts, options = DatasetFacts.from_dataset(patients(0, 100)), KINDS[kind].options()
    with pytest.raises(InvalidRequest) as refused:
        check_guarantees(KINDS[kind], facts, options, Guarantees.model_validate(guarantees))
    assert refused.value.faults[0].loc == where


def test_traces_without_classes_are_refused() -> None:
    spec = {"kind": "trace", "unit": "ms", "classifiers": [{"name": "fast", "cost": 1, "correct": "right"}]}
    trace = dataset_from_columns(TraceSpec.model_validate(spec), {"right": np.ones(30)})
    with pytest.raises(InvalidRequest) as refused:
        check_guarantees(
            KINDS["cascade"],
            DatasetFacts.from_dataset(trace),
            KINDS["cascade"].options(),
            Guarantees(min_recall={"a": 0.9}),
        )
    assert refused.value.faults[0].loc == ("guarantees",)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"min_recall": {"a": 1.0}},
        {"min_recall": {"a": 0}},
        {"min_recall": {"a": 0.9}, "confidence": 1},
        {"min_recall": {"a": 0.9, "b": 0.9}, "max_false_positive_rate": {"a": 0.1}},
        {"min_recall": {"a": 0.9}, "min_accuracy": 0.9, "min_coverage": 0.9},
        {"min_accuracy": 1.0},
    ],
)
def test_guarantees_out_of_bounds_are_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Guarantees.model_validate(wanted)


@pytest.mark.parametrize(("kept", "rows"), [(93, 93), (90, 100), (1, 3), (0, 5)])
def test_bounds_are_those_of_clopper_and_pearson(kept: int, rows: int) -> None:
    exact = binomtest(kept, rows, alternative="greater").proportion_ci(0.97, method="exact").low
    assert clopper_pearson_lower(kept, rows, 0.03) == pytest.approx(exact, abs=1e-12)
