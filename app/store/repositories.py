"""The parts that servers, workers and the command line share, joined over one store."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from app.settings import Settings
from app.store.artifacts import Artifacts
from app.store.batches import Batches
from app.store.builds import Builds
from app.store.client import TIMEOUT_S, Store
from app.store.confidence_reports import ConfidenceReports
from app.store.datasets import Datasets
from app.store.embedded import EmbeddedRedis
from app.store.endpoints import Endpoints
from app.store.feedback import Feedback


@dataclass(frozen=True, slots=True, kw_only=True)
class Repositories:
    """Everything that needs the store."""

    settings: Settings
    embedded: EmbeddedRedis | None
    store: Store
    artifacts: Artifacts
    datasets: Datasets
    builds: Builds
    feedback: Feedback
    endpoints: Endpoints
    batches: Batches
    confidence_reports: ConfidenceReports

    def lacking_room(self, more: int = 0) -> str | None:
        """Return a message if the embedded server has no room for so many bytes more; None if it has, or is not
        ours."""
        return None if self.embedded is None else self.embedded.lacking_room(more)

    def restart_store(self) -> None:
        """Start the embedded server again if it is ours and was killed."""
        if self.embedded is not None:
            self.embedded.restart_keeper()

    @contextmanager
    def with_short_timeouts(self, timeout_s: float) -> Iterator["Repositories"]:
        """Give the same parts over a connection that does not wait longer for a reply, until the block ends."""
        with _connected(self.settings, self.embedded, self.store.url, self.store.client_name, timeout_s) as repos:
            yield repos


@contextmanager
def open_repositories(settings: Settings, *, client_name: str) -> Iterator[Repositories]:
    """Join the parts over the configured store, or over the embedded one if none is."""
    with ExitStack() as stack:
        embedded = None
        if settings.redis_url is None:
            embedded = stack.enter_context(EmbeddedRedis(settings.data_dir))
        url = settings.redis_url or (embedded.url if embedded else "")
        yield stack.enter_context(_connected(settings, embedded, url, client_name, TIMEOUT_S))


@contextmanager
def _connected(
    settings: Settings, embedded: EmbeddedRedis | None, url: str, client_name: str, timeout_s: float
) -> Iterator[Repositories]:
    store = Store(url, client_name=client_name, timeout_s=timeout_s)
    try:
        yield Repositories(
            settings=settings,
            embedded=embedded,
            store=store,
            artifacts=Artifacts(store),
            datasets=Datasets(store),
            builds=Builds(store, queue_limit=settings.build_queue_limit, timeout_s=settings.build_timeout_s),
            feedback=Feedback(store),
            endpoints=Endpoints(store),
            batches=Batches(store, queue_limit=settings.build_queue_limit),
            confidence_reports=ConfidenceReports(store),
        )
    finally:
        store.close()
