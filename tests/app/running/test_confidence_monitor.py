"""Runs are watched: of each classifier all confidences count, by the share of the runs that called it."""

from typing import Any

import numpy as np
import pytest

from app.running import confidence_monitor
from app.running.confidence_monitor import ConfidenceMonitor
from models import ArtifactRef
from parsimony.runs.steps import CallResult
from solvers.confidence_profile import WINDOW

REF = ArtifactRef(kind="cascade", name="digits", version=1)
QUANTILES = np.linspace(0, 1, 65)
PROFILES: dict[str, Any] = {name: {"rows": 2000, "quantiles": QUANTILES.tolist()} for name in "ab"}


def observe_run(monitor: ConfidenceMonitor, **confidences: float) -> None:
    monitor.observe_results(
        REF, PROFILES, [CallResult(name, "yes", confidence) for name, confidence in confidences.items()]
    )


def test_a_run_that_begins_elsewhere_leaves_the_others_compared() -> None:
    monitor, rng = ConfidenceMonitor(), np.random.default_rng(0)
    observe_run(monitor, b=0.5)
    for confidence in rng.uniform(0.5, 1, WINDOW):
        observe_run(monitor, a=confidence)
    (problem,) = monitor.list_problems({REF}, {})
    assert "'a'" in problem
    for confidence in rng.uniform(0, 1, WINDOW):
        observe_run(monitor, a=confidence)
    assert monitor.list_problems({REF}, {}) == []


def test_items_that_a_cascade_escalates_are_compared_as_the_share_that_they_are() -> None:
    """The second classifier is less sure of hard items, which is expected; one that is always sure is a problem."""
    monitor, rng = ConfidenceMonitor(), np.random.default_rng(0)

    def escalate(second: Any) -> None:
        for confidence in rng.uniform(0, 1, 4 * WINDOW):
            observe_run(monitor, a=confidence, **({} if confidence > 0.4 else {"b": second(confidence)}))

    escalate(lambda confidence: confidence)
    assert monitor.list_problems({REF}, {}) == []
    escalate(lambda _: 0.95)
    (problem,) = monitor.list_problems({REF}, {})
    assert "'b'" in problem


def test_reports_of_batches_count_for_active_versions_unless_a_window_of_the_server_found_a_problem() -> None:
    monitor, older = ConfidenceMonitor(), REF.model_copy(update={"version": 2})
    reported = {(REF, "a"): "reported", (older, "a"): "reported", (REF, "b"): "reported"}
    assert len(monitor.list_problems({REF}, reported)) == 2
    assert monitor.latest_findings(REF) == {}
    for _ in range(WINDOW):
        observe_run(monitor, a=2.0)
    assert ["reported" in each for each in monitor.list_problems({REF}, reported)] == [False, True]
    assert [name for name, problem in monitor.latest_findings(REF).items() if problem is not None] == ["a"]
    assert monitor.latest_findings(older) == {}


def test_the_oldest_windows_go_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence_monitor, "MAX_WATCHED", 10)
    monitor, refs = ConfidenceMonitor(), [REF.model_copy(update={"version": version}) for version in range(1, 100)]
    for ref in refs:
        for _ in range(WINDOW):
            monitor.observe_results(ref, PROFILES, [CallResult("a", "yes", 2.0)])
    assert len(monitor.list_problems(refs, {})) == 5
    assert monitor.list_problems(refs[:-5], {}) == []
