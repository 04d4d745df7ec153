"""The store itself, that commands speak to where no server is named."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson

from app import terminal
from app.cli.key_values import read_query
from app.processes.clock import now
from app.serving.answers import decided, encode, facts_of, with_default_limits
from app.serving.catalog import Live
from app.settings import Settings
from app.store.repositories import Repositories, open_repositories
from models import ArtifactRecord, Build, BuildRequest, Fault, InvalidRequest
from models.advice import Advice, AdviceRequest
from models.batch import Batch
from models.feedback import FeedbackReport
from models.rebuild import Rebuild, RebuildRequest
from models.stored_dataset import DatasetInfo, DeletedDataset, StoredDataset
from solvers import SOLVERS


@contextmanager
def open_store() -> Iterator[Repositories]:
    """Open the store that the settings name; where that makes a new one, say so, for it may be the wrong folder.

    Raises InvalidRequest where commands speak to a server.
    """
    settings = Settings()
    if settings.url is not None:
        fault = f"is {settings.url}: this command needs the store itself; unset it"
        raise InvalidRequest.at(Fault(("PARSIMONY_URL",), fault))
    here = (settings.data_dir / "redis").resolve()
    if settings.redis_url is None and not here.exists():
        said = f"a new store is made in {here}; to reach a server that runs elsewhere, set PARSIMONY_URL"
        terminal.console(stderr=True).print(said, soft_wrap=True)
    with open_repositories(settings, client_name="parsimony-cli") as repos:
        yield repos


@contextmanager
def open_store_service() -> Iterator["StoreService"]:
    """Open the store that the settings name, to be asked as a server is."""
    with open_store() as repos:
        yield StoreService(repos)


class StoreService:
    """The store itself."""

    def __init__(self, repos: Repositories) -> None:
        self._repos = repos

    def put_dataset(self, name: str, table: Path, spec: Path, embeddings: Path | None) -> StoredDataset:
        """Check a table and keep it."""
        from app.store.uploads import parse_spec, read_dataset  # readers of tables, which only this needs

        vectors = None if embeddings is None else embeddings.read_bytes()
        most = self._repos.settings.max_body_bytes
        checked = read_dataset(parse_spec(spec.read_bytes()), table, "", vectors, max_bytes=most)
        info, replaced = self._repos.datasets.put(name, checked, created_at=now())
        return StoredDataset(**dict(info), replaced=replaced)

    def datasets(self) -> list[DatasetInfo]:
        """List the datasets."""
        return self._repos.datasets.infos()

    def dataset(self, name: str) -> DatasetInfo:
        """Tell of one dataset."""
        return self._repos.datasets.info(name)

    def delete_dataset(self, name: str) -> DeletedDataset:
        """Delete a dataset, and say what was built from it."""
        built = tuple(record.ref for record in self._repos.artifacts.active() if record.dataset == name)
        self._repos.datasets.delete(name)
        return DeletedDataset(name=name, artifacts=built)

    def enqueue(self, request: BuildRequest) -> Build:
        """Queue a build."""
        return self._repos.builds.enqueue(request)

    def rebuild(self, solver: str, name: str, options: RebuildRequest, version: int | None) -> Rebuild:
        """Queue the build of the next version from feedback."""
        from app.building.rebuild import start_rebuild

        return start_rebuild(self._repos, self._repos.artifacts.record(solver, name, version), options)

    def enqueue_advice(self, request: AdviceRequest) -> Build:
        """Queue the builds of advice."""
        return self._repos.builds.enqueue_advice(request)

    def advice(self, dataset: str) -> Advice:
        """Give the latest advice on a dataset."""
        return self._repos.datasets.advice(dataset)

    def has_worker(self) -> bool:
        """Tell whether anybody takes builds."""
        return self._repos.builds.workers() > 0

    def build(self, build_id: str) -> Build:
        """Tell of a build."""
        return self._repos.builds.get(build_id)

    def builds(self, most: int) -> list[Build]:
        """List the latest builds."""
        return self._repos.builds.page(limit=most).items

    def cancel(self, build_id: str) -> Build:
        """Stop a build."""
        return self._repos.builds.cancel(build_id)

    def artifacts(self, solver: str | None) -> list[ArtifactRecord]:
        """List the active versions."""
        return self._repos.feedback.with_drift(self._repos.artifacts.active(solver))

    def artifact(self, solver: str, name: str, version: int | None) -> ArtifactRecord:
        """Give a version's record."""
        return self._repos.artifacts.record(solver, name, version)

    def versions(self, solver: str, name: str) -> list[ArtifactRecord]:
        """List every version of an artifact."""
        return self._repos.feedback.with_drift(self._repos.artifacts.versions(solver, name))

    def activate(self, solver: str, name: str, version: int) -> None:
        """Let a version answer from now on."""
        self._repos.artifacts.activate(solver, name, version)

    def delete_artifact(self, solver: str, name: str) -> None:
        """Delete an artifact with all its versions."""
        self._repos.artifacts.delete_all(solver, name)

    def delete_version(self, solver: str, name: str, version: int, *, even_active: bool) -> None:
        """Delete a version."""
        self._repos.artifacts.delete(solver, name, version, even_active=even_active)

    def export(self, record: ArtifactRecord) -> bytes:
        """Give a version's bytes."""
        return self._repos.artifacts.data(record)

    def import_(self, data: bytes) -> ArtifactRecord:
        """Publish exported bytes."""
        return self._repos.artifacts.publish(data, created_at=now())

    def feedback(self, solver: str, name: str, version: int | None) -> FeedbackReport:
        """Hold estimates against outcomes."""
        return self._repos.feedback.report(self._repos.artifacts.record(solver, name, version))

    def decide(self, solver: str, name: str, query: list[str], version: int | None) -> dict[str, Any]:
        """Ask an artifact."""
        asked, live = read_query(solver, query), self._live(solver, name, version)
        text = getattr(asked, "text", None)
        if text is not None:
            from app.running.embedding import refuse_unless_affordable

            asked = with_default_limits(live, asked)
            refuse_unless_affordable(live.plan, cast(Any, asked))
            asked = asked.model_copy(update={"query": self._embedded(live, [text])[0]})
        answered: dict[str, Any] = orjson.loads(decided(live, asked))
        return answered

    def assign(
        self, name: str, parts: dict[str, bytes], options: dict[str, Any], version: int | None
    ) -> dict[str, Any]:
        """Assign a batch, given as the parts of ``batch_bodies.read_parts``."""
        from app.http.batch_bodies import read_parts
        from app.store.query_tables import in_this_process, read_query_table

        most = self._repos.settings.max_body_bytes
        vectors, read = read_parts(parts, options, partial(read_query_table, max_bytes=most, run_in=in_this_process))
        live = self._live("portfolio", name, version)
        if isinstance(vectors, tuple):
            live.plan.refuse_infeasible(len(vectors), read, self._repos.settings.solve_timeout_s)
            vectors = self._embedded(live, vectors)
        estimates, costs = live.plan.estimate(vectors), live.plan.expected_costs(vectors)
        assigned = live.plan.assign(estimates, read, self._repos.settings.solve_timeout_s, None, costs)
        answered: dict[str, Any] = orjson.loads(
            encode(assigned, live, **facts_of(live, read, assigned), novel_share=live.plan.novel_share(vectors))
        )
        return answered

    def _embedded(self, live: Live[Any], texts: Sequence[str]) -> Any:
        from app.cli import direct_runs

        return direct_runs.embedded(self._repos, live, texts)

    def endpoints(self) -> list[dict[str, Any]]:
        """List the endpoints by name."""
        from app.cli import direct_runs

        return direct_runs.endpoints(self._repos)

    def put_endpoint(self, name: str, spec: Any) -> dict[str, Any]:
        """Register an endpoint."""
        from app.cli import direct_runs

        return direct_runs.put_endpoint(self._repos, name, spec)

    def delete_endpoint(self, name: str) -> None:
        """Forget an endpoint."""
        self._repos.endpoints.delete(name)

    def probe(self, name: str, item: Any) -> dict[str, Any]:
        """Call an endpoint once, from here."""
        from app.cli import direct_runs

        return direct_runs.probe(self._repos, name, item)

    def run(self, solver: str, name: str, request: dict[str, Any], version: int | None) -> dict[str, Any]:
        """Run an item, from here."""
        from app.cli import direct_runs

        return direct_runs.run(self._repos, self._live(solver, name, version), request)

    def add_batch(self, spec: dict[str, Any], file: Path) -> Batch:
        """Queue a file of items."""
        from app.cli import direct_runs

        return direct_runs.add_batch(self._repos, self._live, spec, file)

    def batches(self, most: int) -> list[Batch]:
        """List the latest batches."""
        return self._repos.batches.page(limit=most).items

    def batch(self, batch_id: str) -> Batch:
        """Tell of a batch."""
        return self._repos.batches.get(batch_id)

    def cancel_batch(self, batch_id: str) -> Batch:
        """Stop a batch."""
        return self._repos.batches.cancel(batch_id)

    def batch_output(self, batch_id: str, *, as_parquet: bool) -> bytes:
        """Give the answers of a batch, JSON Lines or Parquet."""
        from app.routes.batches import lines_of, table_of  # which imports FastAPI

        batch = self._repos.batches.get(batch_id)
        return b"".join(table_of(self._repos, batch)) if as_parquet else "".join(lines_of(self._repos, batch)).encode()

    def _live(self, solver: str, name: str, version: int | None) -> Live[Any]:
        record = self._repos.artifacts.record(SOLVERS[solver].name, name, version)
        return Live(record, record.ref, self._repos.artifacts.plan(record))
