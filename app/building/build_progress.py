"""Progress of builds in the store."""

import time

from app.store.repositories import Repositories
from models import BuildProgress
from solvers import Progress

_REPORT_S = 0.2


def make_progress_reporter(repos: Repositories, build_id: str) -> Progress:
    """Return a callback that records a build's progress at a limited rate; it raises Cancelled."""
    last = 0.0

    def progress(done: int, total: int, message: str) -> None:
        nonlocal last
        moment = time.monotonic()
        if moment - last >= _REPORT_S or done == total:
            last = moment
            repos.builds.report_progress(build_id, BuildProgress(done=done, total=total, message=message))

    return progress
