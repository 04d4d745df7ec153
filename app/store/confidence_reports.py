"""Reports of endpoints whose confidences in batches differ from those of the build; they expire."""

import time
from collections.abc import Callable, Mapping

from pydantic import TypeAdapter

from app.store.client import Pipeline, Store, make_store_key
from models.artifact import ArtifactRef
from models.base import Value

REPORT_TTL_S = 24 * 3600
"""How long a problem is reported after a batch found it last."""
MAX_REPORTS = 200
"""Reports that are kept; of more, the oldest are dropped."""
_ALL = make_store_key("confidence-reports")


class _Report(Value):
    """A problem of an endpoint's confidences, and the Unix time at which it expires."""

    artifact: ArtifactRef
    endpoint: str
    problem: str
    expires_at: float


_REPORTS: TypeAdapter[tuple[_Report, ...]] = TypeAdapter(tuple[_Report, ...])


class ConfidenceReports:
    """The confidence reports of one store, in one key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record_findings(self, ref: ArtifactRef, findings: Mapping[str, str | None]) -> None:
        """Replace the reports of an artifact's endpoints.

        Args:
            findings: the problem of each endpoint; None deletes the endpoint's report.
        """
        expires_at = time.time() + REPORT_TTL_S
        made = [
            _Report(artifact=ref, endpoint=name, problem=problem, expires_at=expires_at)
            for name, problem in findings.items()
            if problem is not None
        ]
        self._replace(lambda one: one.artifact == ref and one.endpoint in findings, made)

    def forget_endpoint(self, endpoint: str) -> None:
        """Delete the reports of an endpoint, for example when it is registered again."""
        self._replace(lambda one: one.endpoint == endpoint, [])

    def list_problems(self) -> dict[tuple[ArtifactRef, str], str]:
        """Return the problems by artifact version and endpoint."""
        return {(one.artifact, one.endpoint): one.problem for one in _unexpired(self._store.execute("get", _ALL))}

    def _replace(self, is_replaced: Callable[[_Report], bool], made: list[_Report]) -> None:
        def change(pipe: Pipeline) -> None:
            kept = [one for one in _unexpired(pipe.get(_ALL)) if not is_replaced(one)]
            pipe.multi()
            pipe.set(_ALL, _REPORTS.dump_json(tuple([*kept, *made][-MAX_REPORTS:])), ex=REPORT_TTL_S)

        self._store.run_transaction(change, _ALL)


def _unexpired(text: object) -> tuple[_Report, ...]:
    if not isinstance(text, bytes):
        return ()
    return tuple(one for one in _REPORTS.validate_json(text) if one.expires_at > time.time())
