"""Client of the public API, for commands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import orjson
from pydantic import BaseModel

from app.cli.key_values import parse_repeated_keys, read_query
from app.http.address_file import read_address
from app.settings import Settings
from app.store.table_types import CSV_TYPES, JSON, JSON_LINES_TYPES, NPY, PARQUET
from models import ArtifactRecord, Build, BuildRequest
from models.advice import Advice, AdviceRequest
from models.batch import Batch
from models.dataset_source import DatasetSource
from models.errors import ParsimonyError
from models.feedback import FeedbackReport
from models.rebuild import Rebuild, RebuildRequest
from models.rollout import Automation, AutomationSpec, RolloutRequest, VersionRollout
from models.stored_dataset import DatasetInfo, DeletedDataset, ShownDataset, StoredDataset
from models.version_diff import VersionDiff
from models.version_evaluation import VersionEvaluation
from parsimony.errors import ParsimonyError as UploadError
from parsimony.resumable_upload import ReportUpload, perform_upload, upload_file
from parsimony.transport import send
from solvers import KINDS

V = TypeVar("V", bound=BaseModel)
_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
"""A server replies to an upload only after it has checked all rows."""
_PAGE = 1000
_RETRIES = 2


@contextmanager
def open_service() -> Iterator["ServiceClient"]:
    """Connect to the server, or run the application in this process.

    The server is the one at ``PARSIMONY_URL``, else the one that uses the data folder.
    """
    settings = Settings()
    url = settings.url or read_address(settings)
    if url is not None:
        with _connect(url, settings) as client:
            yield ServiceClient(client)
        return
    from app.cli.in_process import run_application

    with run_application(settings) as client:
        yield ServiceClient(client)


def _connect(url: str, settings: Settings) -> httpx.Client:
    """Return an HTTP client of a server, with the API key of the settings."""
    key = None if settings.key is None else settings.key.get_secret_value()
    if key is not None and not key.isascii():
        raise ParsimonyError("PARSIMONY_KEY contains characters that are not allowed in a key; copy it again")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT)


class ServiceClient:
    """Client of the public API.

    Methods raise ParsimonyError with the server's error, or if it cannot be reached.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def put_dataset(self, name: str, table: Path, spec: Path, embeddings: Path | None) -> StoredDataset:
        """Upload a table; the suffix of its file name determines the format."""
        kinds = {".parquet": PARQUET, ".jsonl": JSON_LINES_TYPES[0], ".ndjson": JSON_LINES_TYPES[0]}
        kind = kinds.get(Path(table.name.removesuffix(".gz")).suffix, CSV_TYPES[0])
        with ExitStack() as stack:
            files = {"table": (table.name, stack.enter_context(table.open("rb")), kind)}
            if embeddings is not None:
                files["embeddings"] = (embeddings.name, stack.enter_context(embeddings.open("rb")), NPY)
            data = {"spec": spec.read_text()}
            return self._model(StoredDataset, "PUT", _at("datasets", name), data=data, files=files)

    def put_source(self, name: str, source: DatasetSource, spec: Path) -> Build:
        """Queue the build that checks a source, and stores a sample of its rows."""
        data = {"spec": spec.read_text(), "source": source.model_dump_json()}
        return self._model(
            Build, "PUT", _at("datasets", name), files={part: (None, each) for part, each in data.items()}
        )

    def upload_file(self, path: Path, upload_id: str | None, report: ReportUpload) -> str:
        """Upload a file in parts, or continue its upload; return the id."""
        try:
            return perform_upload(
                upload_file(path, upload_id, report), lambda request: send(self._client, request, _RETRIES)
            )
        except UploadError as error:
            raise ParsimonyError(str(error)) from error

    def embed_texts(self, embedder: str, texts: list[str]) -> dict[str, Any]:
        """Embed texts by a registered embedder.

        The reply has OpenAI's format, with numbers in base64.
        """
        body = {"model": embedder, "input": texts, "encoding_format": "base64"}
        return dict(self._ask("POST", "/v1/embeddings", json=body).json())

    def list_datasets(self) -> list[DatasetInfo]:
        """List the datasets."""
        return [DatasetInfo.model_validate(item) for item in self._all("/v1/datasets")]

    def get_dataset(self, name: str) -> ShownDataset:
        """Return a dataset."""
        return self._model(ShownDataset, "GET", _at("datasets", name))

    def delete_dataset(self, name: str) -> DeletedDataset:
        """Delete a dataset; return the artifacts that were built from it."""
        reply = self._ask("DELETE", _at("datasets", name))
        nothing = DeletedDataset(name=name, artifacts=())
        return nothing if reply.status_code == 204 else DeletedDataset.model_validate_json(reply.content)

    def enqueue_build(self, request: BuildRequest) -> Build:
        """Queue a build."""
        return self._model(Build, "POST", "/v1/builds", json=request.model_dump(mode="json"))

    def rebuild(self, kind: str, name: str, options: RebuildRequest, version: int | None) -> Rebuild:
        """Queue the build of the next version from feedback."""
        path, body = _at("artifacts", kind, name, "rebuild"), options.model_dump(mode="json")
        return self._model(Rebuild, "POST", path, params=_version(version), json=body)

    def enqueue_advice(self, request: AdviceRequest) -> Build:
        """Queue the builds of advice."""
        return self._model(Build, "POST", "/v1/advice", json=request.model_dump(mode="json"))

    def get_advice(self, dataset: str) -> Advice:
        """Return the latest advice on a dataset."""
        return self._model(Advice, "GET", _at("advice", dataset))

    def has_worker(self) -> bool:
        """Return whether any worker is running."""
        return bool(self._client.get("/health/ready").json().get("workers"))

    def build(self, build_id: str) -> Build:
        """Return a build."""
        return self._model(Build, "GET", _at("builds", build_id))

    def list_builds(self, most: int) -> list[Build]:
        """List the latest builds."""
        items = self._ask("GET", "/v1/builds", params={"limit": most}).json()["items"]
        return [Build.model_validate(item) for item in items]

    def cancel(self, build_id: str) -> Build:
        """Cancel a build."""
        return self._model(Build, "DELETE", _at("builds", build_id))

    def list_artifacts(self, kind: str | None) -> list[ArtifactRecord]:
        """List the active versions."""
        given = {} if kind is None else {"kind": kind}
        return [ArtifactRecord.model_validate(item) for item in self._all("/v1/artifacts", **given)]

    def get_artifact(self, kind: str, name: str, version: int | None) -> ArtifactRecord:
        """Return the record of a version."""
        if version is None:
            return self._model(ArtifactRecord, "GET", _at("artifacts", kind, name))
        every = self.list_versions(kind, name)
        record = next((one for one in every if one.version == version), None)
        if record is None:
            raise ParsimonyError(f"version {version} of {kind} {name!r} not found; it has {len(every)} versions")
        return record

    def list_versions(self, kind: str, name: str) -> list[ArtifactRecord]:
        """List every version of an artifact."""
        return [ArtifactRecord.model_validate(item) for item in self._all(_at("artifacts", kind, name, "versions"))]

    def activate(self, kind: str, name: str, version: int) -> None:
        """Activate a version."""
        self._ask("PUT", _at("artifacts", kind, name, "active"), json={"version": version})

    def delete_artifact(self, kind: str, name: str) -> None:
        """Delete an artifact with all its versions."""
        self._ask("DELETE", _at("artifacts", kind, name))

    def delete_version(self, kind: str, name: str, version: int, *, even_active: bool) -> None:
        """Delete a version."""
        given = {"even_active": "true"} if even_active else {}
        self._ask("DELETE", _at("artifacts", kind, name, "versions", str(version)), params=given)

    def export(self, record: ArtifactRecord) -> bytes:
        """Return the bytes of a version."""
        path = _at("artifacts", record.kind, record.name, "versions", str(record.version), "export")
        return self._ask("GET", path).content

    def import_(self, data: bytes) -> ArtifactRecord:
        """Publish exported bytes."""
        from app.routes.artifacts import MEDIA_TYPE

        headers = {"Content-Type": MEDIA_TYPE}
        return self._model(ArtifactRecord, "POST", "/v1/artifacts/import", content=data, headers=headers)

    def get_feedback(self, kind: str, name: str, version: int | None) -> FeedbackReport:
        """Return a comparison of estimates with actual outcomes."""
        return self._model(FeedbackReport, "GET", _at("feedback", kind, name), params=_version(version))

    def decide(self, kind: str, name: str, query: list[str], version: int | None) -> dict[str, Any]:
        """Request a decision of an artifact."""
        asked, which = read_query(kind, query).model_dump(mode="json", exclude_defaults=True), _version(version)
        path = _at(KINDS[kind].plural, name, "decision")
        return dict(self._ask("POST", path, params=which, json=asked).json())

    def evaluate(
        self,
        collection: str,
        name: str,
        body: bytes,
        media_type: str,
        wanted: str,
        limits: list[str],
        truth: str,
        version: int | None,
    ) -> bytes:
        """Evaluate complete items; return the reply in the requested media type."""
        truth_column = [] if media_type == JSON else [("truth_column", truth)]
        params = [*_version(version).items(), *parse_repeated_keys(limits), *truth_column]
        headers = {"Content-Type": media_type, "Accept": wanted}
        return self._ask(
            "POST", _at(collection, name, "evaluate"), params=params, content=body, headers=headers
        ).content

    def curve(self, collection: str, name: str, limits: list[str], version: int | None) -> dict[str, Any]:
        """Return the trade-off curve of an artifact."""
        params = [*_version(version).items(), *parse_repeated_keys(limits)]
        return dict(self._ask("GET", _at(collection, name, "curve"), params=params).json())

    def evaluate_version(
        self, kind: str, name: str, version: int, on: str, times: dict[str, str | None], limits: list[str]
    ) -> VersionEvaluation:
        """Evaluate a version on logged rows of a dataset, or of a recording in a range of time."""
        path = _at("artifacts", kind, name, "versions", str(version), "evaluation")
        given = [(key, time) for key, time in times.items() if time is not None]
        return self._model(VersionEvaluation, "GET", path, params=[("on", on), *given, *parse_repeated_keys(limits)])

    def get_diff(self, kind: str, name: str, between: list[tuple[str, Any]]) -> VersionDiff:
        """Compare two versions, ``from`` and ``to``, within limits.

        With ``on``, ``since``, and ``until``, decisions on logged rows are compared, too.
        """
        return self._model(VersionDiff, "GET", _at("artifacts", kind, name, "diff"), params=between)

    def get_diff_page(self, kind: str, name: str, between: list[tuple[str, Any]]) -> bytes:
        """Return the comparison of two versions as an HTML page."""
        path = _at("artifacts", kind, name, "diff")
        return self._ask("GET", path, params=between, headers={"Accept": "text/html"}).content

    def assign_batch(
        self, name: str, parts: dict[str, bytes], options: dict[str, Any], version: int | None
    ) -> dict[str, Any]:
        """Assign a batch, sent in the parts that ``assignment_requests.read_parts`` reads."""
        given = {key: value for key, value in options.items() if value is not None} | _version(version)
        files = {part: (part, data) for part, data in parts.items()}
        path = _at("portfolios", name, "assignments")
        answered: dict[str, Any] = self._ask("POST", path, params=given, files=files).json()
        return answered

    def list_endpoints(self) -> list[dict[str, Any]]:
        """List the endpoints by name."""
        return list(self._all("/v1/endpoints"))

    def put_endpoint(self, name: str, spec: Any) -> dict[str, Any]:
        """Register an endpoint."""
        kept: dict[str, Any] = self._ask("PUT", _at("endpoints", name), json=spec).json()
        return kept

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint."""
        self._ask("DELETE", _at("endpoints", name))

    def probe_endpoint(self, name: str, item: Any) -> dict[str, Any]:
        """Call an endpoint once, from the server."""
        return dict(self._ask("POST", _at("endpoints", name, "probe"), json={"item": item}).json())

    def put_budget(self, name: str, spec: Any) -> dict[str, Any]:
        """Set a budget."""
        return dict(self._ask("PUT", _at("budgets", name), json=spec).json())

    def list_budgets(self) -> list[dict[str, Any]]:
        """List the budgets by name."""
        return list(self._ask("GET", "/v1/budgets").json()["items"])

    def delete_budget(self, name: str) -> None:
        """Delete a budget."""
        self._ask("DELETE", _at("budgets", name))

    def list_rollouts(self) -> list[VersionRollout]:
        """List the last rollouts of artifacts."""
        return [VersionRollout.model_validate(one) for one in self._ask("GET", "/v1/rollouts").json()["items"]]

    def put_rollout(self, kind: str, name: str, rules: RolloutRequest) -> VersionRollout:
        """Start the rollout of a version."""
        body = rules.model_dump(mode="json")
        return self._model(VersionRollout, "PUT", _at("artifacts", kind, name, "rollout"), json=body)

    def get_rollout(self, kind: str, name: str) -> VersionRollout:
        """Return the last rollout of an artifact."""
        return self._model(VersionRollout, "GET", _at("artifacts", kind, name, "rollout"))

    def stop_rollout(self, kind: str, name: str) -> VersionRollout:
        """Stop the rollout of an artifact."""
        return self._model(VersionRollout, "DELETE", _at("artifacts", kind, name, "rollout"))

    def put_automation(self, kind: str, name: str, spec: AutomationSpec) -> Automation:
        """Set what follows from drift of an artifact."""
        body = spec.model_dump(mode="json")
        return self._model(Automation, "PUT", _at("artifacts", kind, name, "automation"), json=body)

    def get_automation(self, kind: str, name: str) -> Automation:
        """Return the automation of an artifact."""
        return self._model(Automation, "GET", _at("artifacts", kind, name, "automation"))

    def get_spend(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the spend report."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return dict(self._ask("GET", "/v1/spend", params=given).json())

    def put_recording(self, name: str, spec: Any) -> dict[str, Any]:
        """Set a recording."""
        return dict(self._ask("PUT", _at("recordings", name), json=spec).json())

    def list_recordings(self) -> list[dict[str, Any]]:
        """List the recordings by name."""
        return list(self._all("/v1/recordings"))

    def delete_recording(self, name: str) -> None:
        """Delete a recording and its rows."""
        self._ask("DELETE", _at("recordings", name))

    def freeze_recording(self, name: str, freeze: dict[str, Any]) -> dict[str, Any]:
        """Make a dataset of recorded rows."""
        return dict(self._ask("POST", _at("recordings", name, "dataset"), json=freeze).json())

    def run(self, kind: str, name: str, request: dict[str, Any], version: int | None) -> dict[str, Any]:
        """Run an item on the server."""
        path = _at(KINDS[kind].plural, name, "runs")
        reply: dict[str, Any] = self._ask("POST", path, params=_version(version), json=request).json()
        return reply

    def add_batch(self, spec: dict[str, Any], file: Path) -> Batch:
        """Queue a file of items."""
        kind = PARQUET if file.suffix.lower() == ".parquet" else JSON_LINES_TYPES[0]
        with file.open("rb") as opened:
            files = {"spec": (None, orjson.dumps(spec)), "file": (file.name, opened, kind)}
            return self._model(Batch, "POST", "/v1/batches", files=files)

    def list_batches(self, most: int) -> list[Batch]:
        """List the latest batches."""
        items = self._ask("GET", "/v1/batches", params={"limit": most}).json()["items"]
        return [Batch.model_validate(item) for item in items]

    def get_batch(self, batch_id: str) -> Batch:
        """Return a batch."""
        return self._model(Batch, "GET", _at("batches", batch_id))

    def cancel_batch(self, batch_id: str) -> Batch:
        """Cancel a batch."""
        return self._model(Batch, "DELETE", _at("batches", batch_id))

    def batch_output(self, batch_id: str, *, as_parquet: bool) -> bytes:
        """Return the answers of a batch as JSON Lines or Parquet."""
        headers = {"Accept": PARQUET} if as_parquet else {}
        return self._ask("GET", f"{_at('batches', batch_id)}/output", headers=headers).content

    def _all(self, path: str, **given: str) -> Iterator[Any]:
        """Return the items of all pages of a list."""
        cursor: str | None = None
        while True:
            params = {**given, "limit": _PAGE} | ({} if cursor is None else {"cursor": cursor})
            page = self._ask("GET", path, params=params).json()
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def _model(self, kind: type[V], method: str, path: str, **how: Any) -> V:
        return kind.model_validate_json(self._ask(method, path, **how).content)

    def _ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        try:
            reply = self._client.request(method, path, **how)
        except httpx.HTTPError as error:
            reason = error or type(error).__name__
            raise ParsimonyError(f"cannot reach {self._client.base_url} (PARSIMONY_URL): {reason}") from error
        if reply.is_success:
            return reply
        raise ParsimonyError(_refusal(reply))


def _at(*parts: str) -> str:
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def _version(version: int | None) -> dict[str, Any]:
    return {} if version is None else {"version": version}


def _refusal(reply: httpx.Response) -> str:
    """Return the error in a server's reply."""
    if "json" in reply.headers.get("content-type", ""):
        body = reply.json()
        detail = body.get("detail") or (body.get("error") or {}).get("message")  # the latter in OpenAI's format
        if isinstance(detail, str) and reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return f"{detail}; commands take the key from PARSIMONY_KEY"
        if isinstance(detail, str):
            return detail
    return f"the reply with status {reply.status_code} is not from a Parsimony server; check PARSIMONY_URL"
