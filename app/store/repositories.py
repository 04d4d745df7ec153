"""All repositories over one store, for servers, workers, and the command line."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from app.settings import Settings
from app.store.artifacts import Artifacts
from app.store.automations import Automations
from app.store.batches import Batches
from app.store.budgets import Budgets
from app.store.builds import Builds
from app.store.client import TIMEOUT_S, Store
from app.store.confidence_reports import ConfidenceReports
from app.store.dataset_upload import DatasetStore
from app.store.datasets import Datasets
from app.store.embedded import EmbeddedRedis
from app.store.endpoints import Endpoints
from app.store.feedback import Feedback
from app.store.name_quotas import NameQuotas
from app.store.recordings import Recordings
from app.store.rollouts import VersionRollouts
from app.store.spending import Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class Repositories:
    """The repositories over one store."""

    settings: Settings
    embedded: EmbeddedRedis | None
    store: Store
    quotas: NameQuotas
    artifacts: Artifacts
    datasets: Datasets
    builds: Builds
    feedback: Feedback
    endpoints: Endpoints
    batches: Batches
    budgets: Budgets
    rollouts: VersionRollouts
    automations: Automations
    spending: Spending
    recordings: Recordings
    confidence_reports: ConfidenceReports

    def make_dataset_store(self) -> DatasetStore:
        """Return where another process stores a dataset."""
        return DatasetStore(self.store.url, self.quotas)

    def describe_full_disk(self, more: int = 0) -> str | None:
        """Return a message if the embedded server's disk lacks room, else None."""
        return None if self.embedded is None else self.embedded.describe_full_disk(more)

    def restart_store(self) -> None:
        """Restart the embedded server if it was killed; no effect on other stores."""
        if self.embedded is not None:
            self.embedded.restart_keeper()

    @contextmanager
    def with_short_timeouts(self, timeout_s: float) -> Iterator["Repositories"]:
        """Yield the same repositories over a connection with a shorter timeout."""
        with _connected(self.settings, self.embedded, self.store.url, self.store.client_name, timeout_s) as repos:
            yield repos


@contextmanager
def open_repositories(settings: Settings, *, client_name: str) -> Iterator[Repositories]:
    """Open the repositories over the configured store, by default the embedded one."""
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
    quotas = NameQuotas(settings.team_quotas)
    try:
        yield Repositories(
            settings=settings,
            embedded=embedded,
            store=store,
            quotas=quotas,
            artifacts=Artifacts(store, quotas),
            datasets=Datasets(store, quotas),
            builds=Builds(
                store, queue_limit=settings.build_queue_limit, timeout_s=settings.build_timeout_s, quotas=quotas
            ),
            feedback=Feedback(store),
            endpoints=Endpoints(store),
            batches=Batches(store, queue_limit=settings.build_queue_limit),
            rollouts=VersionRollouts(store),
            automations=Automations(store),
            budgets=Budgets(store),
            spending=Spending(store),
            recordings=Recordings(store),
            confidence_reports=ConfidenceReports(store),
        )
    finally:
        store.close()
