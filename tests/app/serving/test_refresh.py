"""What is done every few seconds: gauges follow what changed, and go with what is deleted."""

from functools import partial
from typing import Any

import pytest

from app.building.automation import AutomationRunner
from app.http.fast_router import FastRouter, FastRoutes
from app.importing.frozen_recordings import freeze_by_name
from app.observability.metrics import Metrics
from app.recording.writer import RecordingWriter
from app.serving.catalog import Catalog
from app.serving.refresh import HousekeepingJobs
from app.serving.rollouts import RolloutSplitter
from app.store.repositories import Repositories
from models.rollout import AutomationSpec
from tests.support import stored


def run_here(work: Any, *args: Any) -> Any:
    return work(*args)


class Round:
    def __init__(self, repos: Repositories) -> None:
        self.catalog, self.metrics = Catalog(repos.artifacts), Metrics()
        traffic = RolloutSplitter(repos.rollouts, self.metrics)
        writer = RecordingWriter(repos.settings.recordings_dir, self.metrics)
        automation = AutomationRunner(repos, partial(freeze_by_name, repos=repos, writer=writer, run_in=run_here))
        self.chores = HousekeepingJobs(repos, self.catalog, self.metrics, traffic, writer, automation)

    def __call__(self) -> None:
        self.catalog.refresh_plans()
        self.chores.due = 0.0
        self.chores.run()

    def drift(self, name: str) -> float | None:
        labels = {"kind": "cascade", "name": name, "quantity": "accuracy"}
        return self.metrics.registry.get_sample_value("parsimony_drift", labels)


@pytest.fixture
def again(repos: Repositories) -> Round:
    for name in ("a", "b"):
        stored.publish(repos, name)
    again = Round(repos)
    again()
    return again


def test_failed_automations_are_counted_until_they_are_set_again(repos: Repositories, again: Round) -> None:
    def count_failed() -> float | None:
        again()
        return again.metrics.registry.get_sample_value("parsimony_automations_failed")

    for name in ("a", "b"):
        repos.automations.put(("cascade", name), AutomationSpec())
    assert count_failed() == 0
    repos.automations.change_record(("cascade", "a"), lambda one: one.with_failure("no rows"))
    assert count_failed() == 1
    repos.automations.put(("cascade", "a"), AutomationSpec())
    assert count_failed() == 0


def test_gauges_of_drift_follow_flags_and_versions(repos: Repositories, again: Round) -> None:
    assert (again.drift("a"), again.drift("b"), again.drift("c")) == (None, None, None)
    repos.store.client.sadd("parsimony:drifted", "cascade/a/1/accuracy", "cascade/gone/1/accuracy")
    again()
    assert (again.drift("a"), again.drift("b"), again.drift("gone")) == (1.0, None, None)
    stored.publish(repos, "a", seed=1)
    again()
    assert again.drift("a") == 0.0
    repos.artifacts.activate("cascade", "a", 1)
    again()
    assert again.drift("a") == 1.0
    repos.store.client.delete("parsimony:drifted")
    again()
    assert again.drift("a") == 0.0


def test_series_go_with_their_artifact(repos: Repositories, again: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = FastRouter(lambda *_: None, FastRoutes(), again.metrics)  # type: ignore[arg-type]
    ref = again.catalog.plans["cascade", "a"].ref
    hot._series_of(ref)[0].inc()
    again.metrics.decisions.labels("cascade", "a", "refused").inc()
    again.metrics.feedback.labels("cascade", "b").inc()
    repos.store.client.sadd("parsimony:drifted", "cascade/a/1/accuracy")
    again()
    assert again.drift("a") == 1.0
    repos.artifacts.delete_all("cascade", "a")
    again()
    text = again.metrics.render_text().decode()
    assert 'name="a"' not in text
    assert 'parsimony_feedback_total{kind="cascade",name="b"} 1.0' in text
    stored.publish(repos, "a")
    again()
    assert again.drift("a") is None
    hot._series_of(ref)[0].inc()
    text = again.metrics.render_text().decode()
    assert 'parsimony_decisions_total{kind="cascade",name="a",outcome="answered"} 1.0' in text
    repos.store.client.sadd("parsimony:drifted", "cascade/b/1/accuracy")
    again()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")  # whose series cannot go: they say that all is well
    repos.artifacts.delete_all("cascade", "b")
    again()
    assert again.drift("b") == 0.0
    monkeypatch.setattr(again.metrics.drift, "labels", None)  # nothing is set where nothing changed
    again()


def test_many_announcements_are_not_many_chores(again: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()
    monkeypatch.setattr(again.chores, "_look", lambda: looks.append(1))
    for _ in range(3):
        again.chores.run()
    assert looks == []
    again.chores.due = 0.0
    again.chores.run()
    assert looks == [1]
