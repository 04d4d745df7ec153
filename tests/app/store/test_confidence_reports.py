"""Reports of confidences in the store: replaced, ended, dropped by endpoint, expired, and few."""

import json

import pytest

from app.store.client import make_store_key
from app.store.confidence_reports import MAX_REPORTS, REPORT_TTL_S, ConfidenceReports
from app.store.repositories import Repositories
from models import ArtifactRef

REF = ArtifactRef(kind="cascade", name="digits", version=1)
NEWER = REF.model_copy(update={"version": 2})


@pytest.fixture
def reports(repos: Repositories) -> ConfidenceReports:
    return repos.confidence_reports


def test_a_report_is_replaced_by_the_next_of_its_version_and_endpoint(reports: ConfidenceReports) -> None:
    assert reports.list_problems() == {}
    reports.record_findings(REF, {"a": "first", "b": "first", "c": None})
    reports.record_findings(NEWER, {"a": "newer"})
    reports.record_findings(REF, {"a": "second", "b": None})
    assert reports.list_problems() == {(REF, "a"): "second", (NEWER, "a"): "newer"}
    reports.record_findings(REF, {"b": "first"})
    reports.forget_endpoint("a")  # as when it is registered again
    assert reports.list_problems() == {(REF, "b"): "first"}


def test_reports_expire_one_by_one_and_all_together(reports: ConfidenceReports, repos: Repositories) -> None:
    reports.record_findings(REF, {"a": "first"})
    client = repos.store.client
    assert 0 < client.ttl(make_store_key("confidence-reports")) <= REPORT_TTL_S
    (report,) = json.loads(client.get(make_store_key("confidence-reports")) or b"[]")
    client.set(
        make_store_key("confidence-reports"), json.dumps([report | {"expires_at": 1.0}, report | {"endpoint": "b"}])
    )
    assert reports.list_problems() == {(REF, "b"): "first"}


def test_the_newest_reports_are_kept_where_there_are_many(reports: ConfidenceReports) -> None:
    for version in range(1, 4):
        names = {str(place): "differs" for place in range(MAX_REPORTS // 2)}
        reports.record_findings(REF.model_copy(update={"version": version}), names)
    assert {ref.version for ref, _ in reports.list_problems()} == {2, 3}
    assert len(reports.list_problems()) == MAX_REPORTS
