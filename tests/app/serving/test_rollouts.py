"""Rollouts on a server: observations reach the store, and those that do not are counted."""

import asyncio
from collections.abc import Callable

import pytest

from app.building.start_rollout import start_rollout
from app.observability.metrics import Metrics
from app.serving import rollouts
from app.serving.catalog import Catalog
from app.serving.rollouts import RolloutSplitter
from app.store.client import Store
from app.store.repositories import Repositories
from app.store.rollouts import VersionRollouts
from models.rollout import RolloutRequest
from tests.support import stored
from tests.support.servers import free_port

ARTIFACT = ("cascade", "plan")


@pytest.fixture
def catalog(repos: Repositories) -> Catalog:
    """Start a rollout of version 2, and load the artifact."""
    for seed in (0, 1):
        stored.publish(repos, "plan", seed=seed)
    repos.artifacts.activate(*ARTIFACT, 1)
    start_rollout(repos, ARTIFACT, RolloutRequest(version=2, share=0.5), "anonymous")
    catalog = Catalog(repos.artifacts)
    catalog.refresh_plans()
    return catalog


def costs_seen(repos: Repositories) -> int:
    reply = repos.rollouts.get(ARTIFACT).to_reply(ARTIFACT)
    return reply.cost.active.outcomes + reply.cost.candidate.outcomes


def lost(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("parsimony_rollout_observations_lost_total")


def record_runs(
    repos: Repositories, catalog: Catalog, runs: int, before_close: Callable[[RolloutSplitter], None] = lambda _: None
) -> float | None:
    """Record runs, end the server, and return how many observations were lost."""
    metrics = Metrics()
    traffic = RolloutSplitter(repos.rollouts, metrics)
    traffic.refresh_rollouts(catalog.load_version)

    async def serve() -> None:
        for number in range(runs):
            traffic.record_run(traffic.choose(catalog.plans[ARTIFACT], str(number)), 1.0, is_answered=True)
        before_close(traffic)
        await traffic.close()

    asyncio.run(serve())
    return lost(metrics)


def test_waiting_observations_are_added_when_a_server_ends(repos: Repositories, catalog: Catalog) -> None:
    assert record_runs(repos, catalog, 7) == 0
    assert costs_seen(repos) == 7


def test_observations_beyond_the_bound_are_counted_as_lost(
    repos: Repositories, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts, "MAX_WAITING", 4)
    assert record_runs(repos, catalog, 7) == 3
    assert costs_seen(repos) == 4


def test_observations_that_a_server_cannot_add_when_it_ends_are_counted_as_lost(
    repos: Repositories, catalog: Catalog
) -> None:
    def lose_store(traffic: RolloutSplitter) -> None:
        traffic.rollouts = VersionRollouts(Store(f"redis://127.0.0.1:{free_port()}/0"))

    assert record_runs(repos, catalog, 7, lose_store) == 7
    assert costs_seen(repos) == 0


def test_rollouts_are_counted_by_status(repos: Repositories, catalog: Catalog) -> None:
    metrics = Metrics()
    traffic = RolloutSplitter(repos.rollouts, metrics)

    def count(status: str) -> float | None:
        traffic.refresh_rollouts(catalog.load_version)
        return metrics.registry.get_sample_value("parsimony_rollouts", {"status": status})

    assert [count(status) for status in ("running", "promoted", "aborted", "stopped")] == [1, 0, 0, 0]
    repos.rollouts.stop_rollout(ARTIFACT, "anonymous")
    assert [count(status) for status in ("running", "stopped")] == [0, 1]
