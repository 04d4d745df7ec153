"""The metrics' size, and who waits for them."""

import asyncio
import threading
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.http.fast_router import FastRouter, FastRoutes
from app.observability.metrics import DECISION_OUTCOMES, Metrics
from models import ArtifactRef
from models.feedback import QUANTITIES
from tests.support.patience import patient

ARTIFACTS = 500


def lines(metrics: Metrics) -> list[str]:
    return [line for line in metrics.render_text().decode().splitlines() if not line.startswith("#")]


def test_an_artifact_that_is_asked_and_told_of_adds_a_counter_for_each_and_nothing_more() -> None:
    metrics = Metrics()
    hot = FastRouter(lambda *_: None, FastRoutes(), metrics)  # type: ignore[arg-type]
    counts = []
    for number in range(ARTIFACTS):
        ref = ArtifactRef(kind="portfolio", name=f"plan-{number}", version=1)
        answered, seconds = hot._series_of(ref)
        answered.inc()
        seconds.observe(1e-5)
        metrics.gap.observe(0.0)
        metrics.spent.observe(1.0)
        metrics.feedback.labels(ref.kind, ref.name).inc()
        metrics.set_drift_gauges(ref.kind, ref.name, ())
        counts += [len(lines(metrics))] if number in (0, ARTIFACTS - 1) else []
    assert counts[1] - counts[0] == 2 * (ARTIFACTS - 1)
    assert not [line for line in lines(metrics) if line.startswith("parsimony_drift")]
    for drifted in (QUANTITIES[:1], ()):
        metrics.set_drift_gauges("index", "plan", drifted)
    (line,) = [line for line in lines(metrics) if line.startswith("parsimony_drift")]
    assert f'quantity="{QUANTITIES[0]}"' in line
    assert line.endswith(" 0.0")


def test_requests_that_wait_share_a_rendering_and_see_what_was_before_them() -> None:
    renderings = 0

    class Counts(Collector):
        def collect(self) -> Iterable[Metric]:
            nonlocal renderings
            renderings += 1
            return ()

    async def ask() -> None:
        metrics = Metrics()
        metrics.registry.register(Counts())
        before = renderings
        for count in range(1, 4):
            metrics.decisions.labels("index", "plan", DECISION_OUTCOMES[0]).inc()
            bodies = await asyncio.gather(*(metrics.render_async() for _ in range(50)))
            assert all(f"{count}.0" in body.decode() for body in bodies)
        assert renderings - before == 3

    asyncio.run(ask())


def test_the_event_loop_goes_on_while_metrics_are_written() -> None:
    """A collector holds the writing up until something else has been done."""
    began, done = threading.Event(), threading.Event()

    class Waits(Collector):
        def collect(self) -> Iterable[Metric]:
            began.set()
            assert done.wait(patient(5)), "nothing else was done meanwhile"
            return ()

    async def ask() -> bytes:
        metrics = Metrics()
        metrics.decisions.labels("index", "plan", DECISION_OUTCOMES[0]).inc()
        metrics.registry.register(Waits())
        writing = asyncio.create_task(metrics.render_async())
        while not began.is_set():
            await asyncio.sleep(0.001)
        done.set()
        return await writing

    assert b"parsimony_decisions_total{" in asyncio.run(ask())
