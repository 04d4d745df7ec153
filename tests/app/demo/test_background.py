"""What the service says of the demo behind it: being made, failed until the next start, done."""

from pathlib import Path
from typing import Literal

import pytest

from app.demo import run
from app.demo.background import build_demo
from app.demo.demo_datasets import DigitExperiment
from app.store.client import make_store_key
from app.store.demo_progress import DemoProgress, get_demo_progress, set_demo_progress
from app.store.embedded import EmbeddedRedis
from app.store.repositories import Repositories
from models import Build
from models.errors import ParsimonyError
from tests.support.servers import running_server, wait_for

pytestmark = pytest.mark.server

STATES: tuple[Literal["making", "failed", "done"], ...] = ("making", "failed", "done")


def test_a_demo_that_failed_is_said_to_have_failed_and_one_that_is_done_is_not_spoken_of(
    redis: EmbeddedRedis, repos: Repositories, tmp_path: Path
) -> None:
    message = "cascade digits: out of memory"
    with running_server(tmp_path / "server", redis_url=redis.url) as server:
        for state in STATES:
            progress = DemoProgress(state=state, message=message)
            set_demo_progress(repos.store, progress)
            wait_for(lambda: server.client.get("/health/ready").json()["demo"] == progress.model_dump(), 10)  # noqa: B023
            problems = server.client.get("/health/ready").json()["problems"]
            detail = server.client.get("/v1/cascades/digits/decision").json()["detail"]
            assert (any(message in each for each in problems), message in detail) == (
                state == "failed",
                state != "done",
            )


def test_a_failure_stays_where_progress_does_not(repos: Repositories) -> None:
    """Whoever makes the demo may be killed in the middle of it: that, too, is a failure."""
    for state, left in zip(STATES, ("failed", "failed", "done"), strict=True):
        set_demo_progress(repos.store, DemoProgress(state=state, message="timing"))
        repos.store.execute("delete", make_store_key("demo", "beat"))
        progress = get_demo_progress(repos.store)
        assert progress is not None
        assert progress.state == left
        assert "timing" in progress.message


@pytest.mark.parametrize(
    ("error", "left"), [(None, "done"), (ParsimonyError("no room"), "failed"), (SystemExit(0), None)]
)
def test_what_becomes_of_the_demo_is_noted(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, left: str | None
) -> None:
    """Without parts nothing is missing, unless the search fails or the service stops meanwhile."""

    def prepare(*_: object) -> list[Build]:
        progress = get_demo_progress(repos.store)
        assert progress is not None
        assert progress.state == "making"
        if error is not None:
            raise error
        return []

    monkeypatch.setattr(run, "prepare_demo", prepare)
    if isinstance(error, SystemExit):
        with pytest.raises(SystemExit):
            build_demo(repos, DigitExperiment())
    else:
        build_demo(repos, DigitExperiment())
    progress = get_demo_progress(repos.store)
    assert (None if progress is None else progress.state) == left
