"""Feedback in the store: one transaction per request, bounded space, gone with its version."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.store.client import make_store_key
from app.store.feedback import DRIFTS, MAX_FEEDBACK_BYTES, MAX_FEEDBACK_ROWS, ROW_SIZES, AddedOutcomes
from app.store.repositories import Repositories
from models import ArtifactRecord, ArtifactRef
from models.errors import InvalidRequest, UnknownVersion
from models.feedback import Estimates, Outcome
from solvers.change_detection import MIN_BLOCK
from solvers.drift import compare_moments, start_from_dataset, sum_moments
from tests.support.stored import publish

ID = "cascade/plan/1@0123456789ab?accuracy=0.9&time=2.0"
EXPECTED = Estimates(accuracy=0.9, time=2.0)


@pytest.fixture
def record(repos: Repositories) -> ArtifactRecord:
    return publish(repos, "plan")


def counted(ref: ArtifactRef, *outcomes: Outcome) -> dict[ArtifactRef, AddedOutcomes]:
    count = AddedOutcomes(1000)
    for outcome in outcomes:
        count.add(outcome, EXPECTED)
    return {ref: count}


def ref_of(record: ArtifactRecord) -> ArtifactRef:
    return ArtifactRef(kind=record.kind, name=record.name, version=record.version)


def test_outcomes_are_added_up_and_reported(repos: Repositories, record: ArtifactRecord) -> None:
    """Estimated beside actual, with bounds, and each classifier's share."""
    told = [{"correct": place % 10 > 0, "time": 1.0 + place % 3, "classifier": "fast"} for place in range(300)]
    outcomes = [Outcome.model_validate({"decision": ID, **each}) for each in told]
    for _ in range(2):
        assert repos.feedback.add(counted(ref_of(record), *outcomes), 0.0) == {ref_of(record): ()}
    report = repos.feedback.make_report(record)
    assert (report.outcomes, report.rows, report.drift) == (600, 0, ())
    assert (report.accuracy.outcomes, report.cost.outcomes) == (600, 0)
    assert (report.accuracy.actual, report.accuracy.estimated) == pytest.approx((0.9, 0.9))
    assert (report.time.actual, report.time.estimated) == pytest.approx((2, 2))
    assert report.time.low is not None
    assert report.time.low < 2 < (report.time.high or 0)
    assert [(each.classifier, each.outcomes, each.correct) for each in report.classifiers] == [("fast", 600, 540)]


def test_an_accuracy_is_judged_by_the_items_that_got_an_answer_and_a_cost_by_all() -> None:
    """Of 100 rows that a build judged by, a tenth answered: ten rows are behind the accuracy, a hundred the cost."""
    count = AddedOutcomes(100)
    estimates = Estimates(accuracy=0.7, coverage=0.1, cost=2.0)
    count.add(Outcome(decision=ID, correct=True, answered=True, cost=3.0), estimates)
    assert count.outcomes_of == {
        "accuracy": [(0, 0.7, 1.0, 10)],
        "coverage": [(0, 0.1, 1.0, 100)],
        "cost": [(0, 2.0, 3.0, 100)],
    }
    assert (
        count.sum_outcomes().items()
        >= {"accuracy.estimated": 0.7, "accuracy.with.sum": 1.0, "cost.with.sum": 3.0}.items()
    )


def test_graded_answers_are_held_against_the_mean_quality() -> None:
    count = AddedOutcomes(100)
    for quality in (0.25, 1.0, 0.75):
        count.add(Outcome(decision=ID, quality=quality), Estimates(accuracy=0.7))
    assert count.outcomes_of["accuracy"] == [(0, 0.7, 0.25, 100), (1, 0.7, 1.0, 100), (2, 0.7, 0.75, 100)]
    with pytest.raises(ValidationError, match="correct cannot be combined with answered=false"):
        Outcome(decision=ID, correct=True, answered=False)
    with pytest.raises(ValidationError, match="correct cannot be combined with quality"):
        Outcome(decision=ID, quality=0.5, correct=True)


def test_servers_count_side_by_side_and_lose_nothing(repos: Repositories, record: ArtifactRecord) -> None:
    """Eight at once, fifty times each."""
    more = counted(ref_of(record), Outcome(decision=ID, correct=True, row={"a": 1.0}))
    start = threading.Barrier(8)

    def send(_: int) -> None:
        start.wait()
        for _ in range(50):
            repos.feedback.add(more, 0.0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    report = repos.feedback.make_report(record)
    assert (report.outcomes, report.accuracy.outcomes, report.rows) == (400, 400, 400)


def test_an_alarm_is_raised_kept_and_forgotten(repos: Repositories, record: ArtifactRecord) -> None:
    """It carries the estimated change point and its time; the flag stays, also if later outcomes are as promised."""
    right = counted(ref_of(record), *[Outcome(decision=ID, correct=place % 10 > 0) for place in range(10)] * 60)
    wrong = counted(ref_of(record), *[Outcome(decision=ID, correct=False)] * 100)
    assert repos.feedback.add(right, 1000.0) == {ref_of(record): ()}
    (alarm,) = repos.feedback.add(wrong, 2000.0)[ref_of(record)]
    assert (alarm.quantity, alarm.direction, alarm.classifier) == ("accuracy", "below", None)
    assert abs(alarm.change_point - 601) <= MIN_BLOCK
    assert alarm.detected == 700
    assert alarm.after == pytest.approx(0, abs=0.2)
    assert alarm.before == pytest.approx(0.9, abs=0.02)
    assert alarm.changed_at in ("1970-01-01T00:16:40.000Z", "1970-01-01T00:33:20.000Z")
    repos.feedback.add(right, 3000.0)
    assert repos.feedback.with_drift([record])[0].drift == ("accuracy",)
    report = repos.feedback.make_report(record)
    assert report.accuracy.drift
    assert report.alarms[0] == alarm
    repos.feedback.delete(ref_of(record))
    assert repos.feedback.with_drift([record])[0].drift == ()
    report = repos.feedback.make_report(record)
    assert (report.outcomes, report.alarms) == (0, ())


@pytest.mark.parametrize(
    ("good", "bad", "estimates", "quantity"),
    [
        ({"answered": True}, {"answered": False}, Estimates(coverage=0.9), "coverage"),
        ({"cost": 2.0}, {"cost": 3.0}, Estimates(cost=2.0), "cost"),
        ({"time": 2.0}, {"time": 3.0}, Estimates(time=2.0), "time"),
    ],
)
def test_each_quantity_has_a_detector(
    repos: Repositories,
    record: ArtifactRecord,
    good: dict[str, Any],
    bad: dict[str, Any],
    estimates: Estimates,
    quantity: str,
) -> None:
    """Nine outcomes in ten as promised raise no alarm, then outcomes that are not do."""
    for outcome, parts, alarms in ((good, 10, 0), (bad, 3, 1)):
        for _ in range(parts):
            count = AddedOutcomes(1000)
            for place in range(100):
                other = bad if place % 10 == 0 and quantity == "coverage" else outcome
                count.add(Outcome(decision=ID, **other), estimates)
            repos.feedback.add({ref_of(record): count}, 0.0)
        assert [alarm.quantity for alarm in repos.feedback.get_alarms(ref_of(record))] == [quantity] * alarms


def test_each_classifier_has_a_detector_that_begins_with_its_accuracy_in_the_dataset(
    repos: Repositories, record: ArtifactRecord
) -> None:
    """Outcomes of the cascade stay as promised while one classifier's answers become wrong."""
    seeds = {f"classifiers.{name}": start_from_dataset(0.9, 2000) for name in ("fast", "sure")}
    for _ in range(3):
        count = AddedOutcomes(1000, seeds=seeds)
        for place in range(100):
            count.add(Outcome(decision=ID, row={}), EXPECTED, {"fast": float(place % 2), "sure": float(place % 10 > 0)})
        repos.feedback.add({ref_of(record): count}, 0.0)
    alarms = repos.feedback.get_alarms(ref_of(record))
    assert {(alarm.quantity, alarm.classifier, alarm.direction) for alarm in alarms} == {
        ("classifiers", "fast", "below")
    }
    assert alarms[0].change_point <= MIN_BLOCK
    assert repos.feedback.make_report(record).drift == ("classifiers",)


@pytest.mark.parametrize("unit", [1e-90, 1e-30, 1e-10, 1.0, 1e90])
def test_means_and_bounds_are_those_of_any_unit(repos: Repositories, record: ArtifactRecord, unit: float) -> None:
    """What is told in other units, batch by batch, has the same mean and bounds in these units."""
    rng = np.random.default_rng(3)
    sums: dict[str, float] = {}
    for _ in range(20):
        costs = rng.exponential(1, 10)
        count = AddedOutcomes(1000)
        for cost in costs.tolist():
            count.add(Outcome(decision=ID, cost=cost * unit), Estimates(cost=unit))
        repos.feedback.add({ref_of(record): count}, 0.0)
        for name, more in sum_moments("cost", np.ones(10), costs).items():
            sums[name] = sums.get(name, 0.0) + more
    reported, exact = repos.feedback.make_report(record).cost, compare_moments("cost", sums)
    assert exact.low is not None
    for name in ("estimated", "actual", "low", "high"):
        assert getattr(reported, name) == pytest.approx(getattr(exact, name) * unit, rel=1e-9, abs=0)


def test_the_newest_rows_are_kept(repos: Repositories, record: ArtifactRecord) -> None:
    """No more than the limit, in the order they came."""
    for start in (0, 6000):
        rows = [Outcome(decision=ID, row={"a": float(start + place)}, embedding=(1.0, 2.0)) for place in range(6000)]
        repos.feedback.add(counted(ref_of(record), *rows), 0.0)
    kept = repos.feedback.get_rows(ref_of(record))
    assert len(kept) == MAX_FEEDBACK_ROWS
    shown = [(each.number, each.row, each.embedding) for each in (kept[0], kept[-1])]
    assert shown == [(2001, {"a": 2000.0}, [1.0, 2.0]), (12000, {"a": 11999.0}, [1.0, 2.0])]


def long_row(kilobytes: int, mark: float = 0.0) -> Outcome:
    cells = {f"{place:05}" + "x" * 95: "y" * 200 for place in range(kilobytes * 1000 // 306)}
    return Outcome(decision=ID, row={"a": mark, **cells})


def bytes_of_rows(repos: Repositories) -> int:
    names = repos.store.client.scan_iter(make_store_key("feedback-rows*"))
    return sum(len(row) for name in names for row in repos.store.client.lrange(name, 0, -1))


@pytest.mark.slow
def test_rows_of_a_version_take_no_more_bytes_than_are_kept(repos: Repositories, record: ArtifactRecord) -> None:
    """However long ones and short ones follow each other, the newest are there; one that is too long is refused."""
    for place, kilobytes in enumerate((4000, 2000)):
        repos.feedback.add(counted(ref_of(record), *[long_row(kilobytes, float(place))] * 9), 0.0)
        repos.feedback.add(counted(ref_of(record), *[long_row(1, 10.0 + place)] * 9), 0.0)
    kept = [each.row["a"] for each in repos.feedback.get_rows(ref_of(record))]
    assert MAX_FEEDBACK_BYTES - 4_000_000 < bytes_of_rows(repos) <= MAX_FEEDBACK_BYTES
    assert kept == [0.0] * 3 + [10.0] * 9 + [1.0] * 9 + [11.0] * 9
    with pytest.raises(InvalidRequest, match=r"row: .* at most 4194304"):
        counted(ref_of(record), long_row(4300))
    repos.feedback.delete(ref_of(record))
    repos.feedback.add(counted(ref_of(record), long_row(4100)), 0.0)
    assert repos.feedback.make_report(record).rows == 1


def test_rows_of_all_versions_together_take_no_more_bytes_than_are_kept(
    repos: Repositories, record: ArtifactRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version whose rows take most gives way, down to an equal share; what is forgotten makes room."""
    monkeypatch.setattr("app.store.feedback.MAX_TOTAL_FEEDBACK_BYTES", 300_000)
    versions = [ref_of(record), *(ref_of(publish(repos, "plan", seed=seed)) for seed in (1, 2))]
    sizes = []
    for ref in versions:
        for mark in range(20):
            repos.feedback.add(counted(ref, *[long_row(10, float(mark))] * 2), 0.0)
            assert bytes_of_rows(repos) <= 300_000
        sizes.append([len(repos.feedback.get_rows(each)) for each in versions])
    assert sizes == [[30, 0, 0], [15, 15, 0], [10, 10, 10]]
    assert all(repos.feedback.get_rows(ref)[-1].row["a"] == 19.0 for ref in versions)
    repos.feedback.delete(versions[0])
    repos.feedback.add(counted(versions[1], *[long_row(10)] * 9), 0.0)
    assert [len(repos.feedback.get_rows(each)) for each in versions] == [0, 19, 10]


def test_a_deleted_version_takes_its_feedback_along_and_gets_no_more(
    repos: Repositories, record: ArtifactRecord
) -> None:
    """Nothing of it stays in the store, nor comes back."""
    more = counted(ref_of(record), *[Outcome(decision=ID, correct=False, row={"a": 1.0})] * 100)
    with pytest.raises(UnknownVersion):  # of several versions all are counted or none
        repos.feedback.add({**more, **counted(ArtifactRef(kind="cascade", name="plan", version=9))}, 0.0)
    assert repos.feedback.make_report(record).outcomes == 0
    repos.feedback.add(more, 0.0)
    publish(repos, "plan", seed=1)
    repos.artifacts.delete(record.kind, record.name, record.version)
    assert not list(repos.store.client.scan_iter(make_store_key("feedback*")))
    assert not repos.store.client.exists(DRIFTS, ROW_SIZES)
    with pytest.raises(UnknownVersion, match="cascade/plan/1 was deleted"):
        repos.feedback.add(more, 0.0)
    assert not list(repos.store.client.scan_iter(make_store_key("feedback*")))
