"""Every operation of the API as a method, shared by both clients.

The operations of other clients' APIs (chat completions, messages, responses, embeddings, and the Open Inference
Protocol), health, and metrics are left to these clients, or to ``call``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from parsimony.artifact_requests import drop_none_values, plural_of, to_json_values
from parsimony.resumable_upload import request_deletion, request_part, request_upload
from parsimony.transport import Request
from parsimony.uploads import make_path, make_source_part, make_spec_part, read_table


class Routes:
    """Methods that send one request. ``Parsimony`` returns the reply, ``AsyncParsimony`` an awaitable of it.

    Replies are JSON values; ``bytes`` if the API replies with a file; and None without content. Keyword arguments are
    the fields, or query parameters, of the operation in the API's reference.

    All raise ParsimonyError, and its subclasses by the reply's status.
    """

    def _send(self, request: Request) -> Any:
        raise NotImplementedError

    def _get(self, *parts: str, **params: Any) -> Any:
        return self._send(Request("GET", make_path(*parts), True, {"params": drop_none_values(params)}))

    def _put(self, *parts: str, body: Mapping[str, Any]) -> Any:
        return self._send(Request("PUT", make_path(*parts), True, {"json": to_json_values(body)}))

    def _post(
        self, *parts: str, body: Mapping[str, Any], is_repeatable: bool = False, params: Mapping[str, Any] | None = None
    ) -> Any:
        content = {"json": to_json_values(body), "params": drop_none_values(params or {})}
        return self._send(Request("POST", make_path(*parts), is_repeatable, content))

    def _delete(self, *parts: str, **params: Any) -> Any:
        return self._send(Request("DELETE", make_path(*parts), False, {"params": drop_none_values(params)}))

    def call(self, method: str, path: str, **content: Any) -> Any:
        """Call an operation by its path, such as ``call("GET", "/metrics")``; content: as for httpx."""
        return self._send(Request(method.upper(), path, method.upper() == "GET", content))

    # Artifacts: decisions and figures

    def evaluate(
        self,
        kind: str,
        name: str,
        items: Sequence[Mapping[str, Any]],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        **limits: Any,
    ) -> Any:
        """Evaluate complete items: the outcome of each, and a summary.

        Args:
            timeout_s: time limit in seconds, without retries; None: the client's, with retries.
        """
        path = make_path(plural_of(kind), name, "evaluate")
        body = to_json_values({**limits, "items": [to_json_values(item) for item in items]})
        content: dict[str, Any] = {"json": body, "params": drop_none_values({"version": version})}
        if timeout_s is not None:
            content["timeout"] = timeout_s
        return self._send(Request("POST", path, timeout_s is None, content))

    def curve(self, kind: str, name: str, *, version: int | None = None, **query: Any) -> Any:
        """Return the trade-off curve: operating points with intervals, and baselines."""
        return self._get(plural_of(kind), name, "curve", version=version, **query)

    def run_on_server(self, kind: str, name: str, *, version: int | None = None, **body: Any) -> Any:
        """Run an item with endpoints that the server calls: ``item``, ``text``, and limits. It is not repeated."""
        return self._post(plural_of(kind), name, "runs", body=body, params={"version": version})

    def compare_decisions(self, name: str, **limits: Any) -> Any:
        """Return the decision of each kind's artifact of this name."""
        return self._get("decisions", name=name, **limits)

    def assign_batch(self, name: str, *, version: int | None = None, **body: Any) -> Any:
        """Assign a batch of queries to classifiers of a portfolio within a total budget."""
        return self._post("portfolios", name, "assignments", body=body, is_repeatable=True, params={"version": version})

    def solve_cascade(self, **body: Any) -> Any:
        """Order classifiers into a cascade, without an artifact."""
        return self._post("cascades", "solve", body=body, is_repeatable=True)

    def list_deadlines(self, name: str, *, version: int | None = None) -> Any:
        """Return the deadlines at which a cascade changes."""
        return self._get("cascades", name, "deadlines", version=version)

    def show_inference_graph(self, name: str, **query: Any) -> Any:
        """Return a cascade's deadline-aware graph as an inference graph of KServe."""
        return self._get("cascades", name, "inference-graph", **query)

    def show_skyline(self, name: str, size: int, *, version: int | None = None) -> Any:
        """Return the feature sets of an index that no other one dominates at a size."""
        return self._get("indexes", name, "skyline", size=size, version=version)

    def show_winners(self, name: str, **query: Any) -> Any:
        """Return the best feature sets of an index by size and budget."""
        return self._get("indexes", name, "winners", **query)

    def show_traffic(self, name: str, **query: Any) -> Any:
        """Return how many items take which path through a policy."""
        return self._get("policies", name, "traffic", **query)

    # Artifacts: versions

    def list_artifacts(self, **filters: Any) -> Any:
        """List the active versions, in pages: ``kind``, ``name``, ``prefix``, ``dataset``, ``limit``, ``cursor``."""
        return self._get("artifacts", **filters)

    def show_artifact(self, kind: str, name: str) -> Any:
        """Return the record of the active version."""
        return self._get("artifacts", kind, name)

    def list_versions(self, kind: str, name: str, **page: Any) -> Any:
        """List the versions of an artifact, newest first, in pages: ``limit``, ``cursor``."""
        return self._get("artifacts", kind, name, "versions", **page)

    def activate_version(self, kind: str, name: str, version: int) -> Any:
        """Make a version the one that decides."""
        return self._put("artifacts", kind, name, "active", body={"version": version})

    def delete_artifact(self, kind: str, name: str) -> Any:
        """Delete an artifact with all versions."""
        return self._delete("artifacts", kind, name)

    def delete_version(self, kind: str, name: str, version: int, *, even_active: bool | None = None) -> Any:
        """Delete a version; the active one only if asked for."""
        return self._delete("artifacts", kind, name, "versions", str(version), even_active=even_active)

    def export_version(self, kind: str, name: str, version: int) -> Any:
        """Return a version's bytes, for ``load`` and ``import_artifact``."""
        return self._get("artifacts", kind, name, "versions", str(version), "export")

    def import_artifact(self, data: bytes) -> Any:
        """Publish an exported version."""
        content = {"content": data, "headers": {"content-type": "application/octet-stream"}}
        return self._send(Request("POST", make_path("artifacts", "import"), False, content))

    def rebuild(self, kind: str, name: str, *, version: int | None = None, **options: Any) -> Any:
        """Start the build of the next version from rows of feedback."""
        return self._post("artifacts", kind, name, "rebuild", body=options, params={"version": version})

    def evaluate_version(self, kind: str, name: str, version: int, *, on: str, **query: Any) -> Any:
        """Estimate cost and accuracy of a version on logged rows, compared with the active version.

        Args:
            on: dataset or recording whose rows were logged, and from which no compared version was built.
            query: limits of the decisions, such as ``budget=5``; of a recording, also ``since`` and ``until``, in ISO
                8601 with offset.
        Raises:
            Conflict: too few rows support the version.
        """
        return self._get(
            "artifacts", kind, name, "versions", str(version), "evaluation", on=on, **to_json_values(query)
        )

    def diff_versions(
        self,
        kind: str,
        name: str,
        before: int,
        after: int,
        *,
        on: str | None = None,
        since: str | None = None,
        until: str | None = None,
        **limits: Any,
    ) -> Any:
        """Return what changes from one version to another one.

        Args:
            on: dataset or recording whose rows both versions decide; None: compare their records only.
            since, until: of a recording, the range of its rows, in ISO 8601 with offset.
            limits: limits of both versions' decisions, such as ``budget=5``; default: those of each version.
        """
        params = {"from": before, "to": after, "on": on, "since": since, "until": until, **to_json_values(limits)}
        return self._get("artifacts", kind, name, "diff", **params)

    # Rollouts

    def put_rollout(self, kind: str, name: str, version: int, **rules: Any) -> Any:
        """Start the rollout of a version: ``mode``, ``share``, ``promote``, and ``abort``."""
        return self._put("artifacts", kind, name, "rollout", body={"version": version, **rules})

    def show_rollout(self, kind: str, name: str) -> Any:
        """Return the last rollout of an artifact: outcomes of both versions, evidence, and events."""
        return self._get("artifacts", kind, name, "rollout")

    def stop_rollout(self, kind: str, name: str) -> Any:
        """Stop a rollout: the active version decides for all items again."""
        return self._delete("artifacts", kind, name, "rollout")

    def list_rollouts(self, **filters: Any) -> Any:
        """List the last rollout of each artifact: ``kind``, ``name``."""
        return self._get("rollouts", **filters)

    def put_automation(self, kind: str, name: str, **flags: Any) -> Any:
        """Set what follows from drift: ``rebuild_on_drift``, ``recording``, and ``rollout``."""
        return self._put("artifacts", kind, name, "automation", body=flags)

    def list_automations(self, **filters: Any) -> Any:
        """List the automation of each artifact: ``kind``, ``name``."""
        return self._get("automations", **filters)

    def show_automation(self, kind: str, name: str) -> Any:
        """Return what follows from drift, and what has followed."""
        return self._get("artifacts", kind, name, "automation")

    # Datasets, builds, and advice

    def put_dataset(self, name: str, table: Any, spec: Mapping[str, Any], embeddings: Any = None) -> Any:
        """Upload a dataset.

        Args:
            table: path of a CSV, Parquet, or JSON Lines file, or a frame of pandas or polars.
            spec: the columns.
            embeddings: (n, d) numbers; None without.
        """
        files = make_spec_part(spec) | read_table(table, embeddings)
        return self._send(Request("PUT", make_path("datasets", name), True, {"files": files}))

    def put_dataset_source(
        self, name: str, url: str, spec: Mapping[str, Any], *, sample_rows: int | None = None
    ) -> Any:
        """Refer to Parquet files that stay where they are (`s3://logs/calls`); return the build that checks them.

        Args:
            spec: the columns.
            sample_rows: rows to sample for builds; None: the server's default.
        """
        files = make_spec_part(spec) | make_source_part("url", url, sample_rows)
        return self._send(Request("PUT", make_path("datasets", name), True, {"files": files}))

    def put_dataset_upload(
        self, name: str, upload_id: str, spec: Mapping[str, Any], *, sample_rows: int | None = None
    ) -> Any:
        """Store the table of a complete upload (``upload_table``); return the build that checks its rows.

        Args:
            spec: the columns.
            sample_rows: rows to sample for builds; None: the server's default.
        """
        files = make_spec_part(spec) | make_source_part("upload", upload_id, sample_rows)
        return self._send(Request("PUT", make_path("datasets", name), True, {"files": files}))

    def create_upload(self, length: int) -> Any:
        """Create a resumable upload of a number of bytes; ``upload_table`` does all steps."""
        return self._send(request_upload(length))

    def append_upload(self, upload_id: str, offset: int, data: bytes) -> Any:
        """Append bytes to an upload that has received ``offset`` bytes."""
        return self._send(request_part(upload_id, offset, data))

    def delete_upload(self, upload_id: str) -> Any:
        """Delete an upload."""
        return self._send(request_deletion(upload_id))

    def put_calls(self, name: str, log: bytes, **parts: Any) -> Any:
        """Store a dataset from a log of model calls; parts: ``feedback``, ``prices``, and ``options``, as for httpx."""
        files = {"log": ("log", log), **parts}
        return self._send(Request("PUT", make_path("datasets", name, "calls"), True, {"files": files}))

    def draft_spec(self, table: Any) -> Any:
        """Return a draft of the spec of a table, and what it cannot know."""
        return self._send(Request("POST", make_path("drafts"), True, {"files": read_table(table)}))

    def show_dataset(self, name: str) -> Any:
        """Return a dataset's rows, columns, and warnings."""
        return self._get("datasets", name)

    def show_profile(self, name: str) -> Any:
        """Return the profile of a dataset: accuracy and calibration of classifiers, or costs of features."""
        return self._get("datasets", name, "profile")

    def list_datasets(self, **page: Any) -> Any:
        """List the datasets, in pages: ``limit``, ``cursor``."""
        return self._get("datasets", **page)

    def delete_dataset(self, name: str) -> Any:
        """Delete a dataset; artifacts built from it stay."""
        return self._delete("datasets", name)

    def start_build(self, kind: str, name: str, dataset: str, **options: Any) -> Any:
        """Queue a build; ``build`` also waits for it."""
        return self._post("builds", body={"kind": kind, "name": name, "dataset": dataset, **options})

    def show_build(self, build: str) -> Any:
        """Return a build's status and progress."""
        return self._get("builds", build)

    def list_builds(self, **page: Any) -> Any:
        """List the builds, newest first, in pages: ``limit``, ``cursor``."""
        return self._get("builds", **page)

    def cancel_build(self, build: str) -> Any:
        """Cancel a build."""
        return self._delete("builds", build)

    def start_advice(self, dataset: str, **options: Any) -> Any:
        """Start a comparison of all kinds and baselines on a dataset."""
        return self._post("advice", body={"dataset": dataset, **options})

    def show_advice(self, dataset: str) -> Any:
        """Return the advice on a dataset."""
        return self._get("advice", dataset)

    # Endpoints, batches, budgets

    def put_endpoint(self, name: str, **endpoint: Any) -> Any:
        """Register the endpoint of a classifier."""
        return self._put("endpoints", name, body=endpoint)

    def show_endpoint(self, name: str) -> Any:
        """Return an endpoint and its state."""
        return self._get("endpoints", name)

    def list_endpoints(self, **page: Any) -> Any:
        """List the endpoints, in pages: ``limit``, ``cursor``."""
        return self._get("endpoints", **page)

    def delete_endpoint(self, name: str) -> Any:
        """Delete an endpoint."""
        return self._delete("endpoints", name)

    def probe_endpoint(self, name: str, **probe: Any) -> Any:
        """Call an endpoint once, which may be paid, and return what was read from its reply."""
        return self._post("endpoints", name, "probe", body=probe)

    def start_batch(self, **batch: Any) -> Any:
        """Start a batch: ``artifact``, ``items``, and limits."""
        return self._post("batches", body=batch)

    def show_batch(self, batch: str) -> Any:
        """Return a batch's status and progress."""
        return self._get("batches", batch)

    def list_batches(self, **page: Any) -> Any:
        """List the batches, newest first, in pages: ``limit``, ``cursor``."""
        return self._get("batches", **page)

    def cancel_batch(self, batch: str) -> Any:
        """Cancel a batch; finished items keep their outcomes."""
        return self._delete("batches", batch)

    def read_batch_output(self, batch: str) -> Any:
        """Return the outcomes of a batch, one JSON object per line, as bytes."""
        return self._get("batches", batch, "output")

    def put_budget(self, name: str, **budget: Any) -> Any:
        """Set a budget: ``scope``, ``target``, ``amount``, ``unit``, and ``period``."""
        return self._put("budgets", name, body=budget)

    def show_budget(self, name: str) -> Any:
        """Return a budget, and what is left of it."""
        return self._get("budgets", name)

    def list_budgets(self) -> Any:
        """List the budgets."""
        return self._get("budgets")

    def delete_budget(self, name: str) -> Any:
        """Delete a budget."""
        return self._delete("budgets", name)

    def report_spend(self, **query: Any) -> Any:
        """Return what was spent: ``start``, ``end``, and ``by``."""
        return self._get("spend", **query)

    # Feedback and recordings

    def send_feedback(self, *outcomes: Mapping[str, Any]) -> Any:
        """Report actual outcomes of decisions, and return drift alarms. It is not repeated: no outcome counts twice."""
        return self._post("feedback", body={"items": list(map(to_json_values, outcomes))})

    def show_feedback(self, kind: str, name: str, *, version: int | None = None) -> Any:
        """Return actual and expected outcomes of an artifact, and drift."""
        return self._get("feedback", kind, name, version=version)

    def delete_feedback(self, kind: str, name: str, *, version: int | None = None) -> Any:
        """Delete the outcomes of a version, for example after a test."""
        return self._delete("feedback", kind, name, version=version)

    def put_recording(self, name: str, spec: Mapping[str, Any]) -> Any:
        """Record the runs of an artifact, or rows that you add: ``artifact`` or ``unit``, ``sample``, ``explore``."""
        return self._put("recordings", name, body=spec)

    def show_recording(self, name: str, *, coverage_by: str | None = None) -> Any:
        """Return a recording with counts of its rows; ``coverage_by`` is ``label``, ``length``, or ``hour``."""
        return self._get("recordings", name, coverage_by=coverage_by)

    def list_recordings(self, **page: Any) -> Any:
        """List the recordings, in pages: ``limit``, ``cursor``."""
        return self._get("recordings", **page)

    def delete_recording(self, name: str) -> Any:
        """Delete a recording and its rows."""
        return self._delete("recordings", name)

    def add_rows(self, recording: str, *rows: Mapping[str, Any]) -> Any:
        """Add rows of runs that you made; they are on disk once this returns. Rows without a ``key`` are sent once."""
        has_keys = all(row.get("key") for row in rows)
        return self._post(
            "recordings", recording, "rows", body={"items": list(map(to_json_values, rows))}, is_repeatable=has_keys
        )

    def add_truths(self, recording: str, *truths: Mapping[str, Any]) -> Any:
        """Add truths of items: ``id``, and ``truth``, ``correct``, or ``quality``."""
        return self._post("recordings", recording, "truths", body={"items": list(truths)}, is_repeatable=True)

    def freeze_recording(self, name: str, dataset: str, *, since: str | None = None, until: str | None = None) -> Any:
        """Make a dataset of the rows in a range of time; return its info, and what was not used."""
        body = {"dataset": dataset, "since": since, "until": until}
        return self._post("recordings", name, "dataset", body=body, is_repeatable=True)
