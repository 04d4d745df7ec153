"""Runs builds: one process a build, forked by RQ's worker, ended with it."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError
from rq.timeouts import JobTimeoutException

from app.processes.clock import current_time
from app.processes.parent_death import die_with_parent
from app.settings import Settings
from app.store import codec
from app.store.builds import ADVICE, Builds
from app.store.repositories import Repositories, open_repositories
from app.store.training_cache import TrainingCache
from models import ArtifactRecord, Build, BuildProgress, BuildRequest, Dataset, Trace, Value
from models.advice import Advice, AdviceRequest
from models.errors import Cancelled, ParsimonyError
from models.stored_dataset import DatasetInfo
from solvers import KINDS, BuildContext, Fitted, Plan, Progress
from solvers.advice import advise
from solvers.base import make_generator
from solvers.confidence_profile import profile_confidences

logger = logging.getLogger("parsimony.worker")
_REPORT_S = 0.2


def run_build(build_id: str) -> None:
    """Run one queued build to its end (the function that RQ calls, in a process of its own)."""
    with open_repositories(Settings(), client_name="parsimony-build") as repos:
        build = repos.builds.start_build(build_id)
        if build is None:
            return
        logger.info("build %s begins: %s %s from the dataset %s", build_id, build.kind, build.name, build.dataset)
        try:
            (_advise_and_keep if build.kind == ADVICE else _build_and_publish)(repos, build)
            logger.info("build %s succeeded", build_id)
        except Cancelled as error:
            logger.info("%s", error)
        except BaseException as error:
            reason = _reason(error, repos.settings.build_timeout_s)
            internal = f"an internal error; see build {build_id} in the worker's log"
            logger.info("build %s failed: %s", build_id, reason or internal)
            repos.builds.end_build(build_id, "failed", reason or internal)
            if reason is None:
                raise


def _reason(error: BaseException, limit: int) -> str | None:
    """Return why a build failed; None for an internal error, which only the log has."""
    if isinstance(error, JobTimeoutException):
        return f"took longer than {limit} s (PARSIMONY_BUILD_TIMEOUT_S)"
    if any(isinstance(cause, MemoryError) for cause in _causes(error)):
        return "ran out of memory"
    return str(error) if isinstance(error, ParsimonyError) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and all that it came from: libraries that run out of memory stumble over the pieces."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _build_and_publish(repos: Repositories, build: Build) -> None:
    request = BuildRequest(**build.model_dump(include=set(BuildRequest.model_fields)))
    options = KINDS[build.kind].options.model_validate(build.params)
    data = fit(repos, request, options, _reporting(repos, build.id))
    check, commit = repos.builds.commit_result(build.id)
    repos.artifacts.publish(
        data, created_at=current_time(), check=check, commit=commit, watched=(Builds.watch_cancellation(build.id),)
    )


def _advise_and_keep(repos: Repositories, build: Build) -> None:
    request = AdviceRequest(dataset=build.dataset, seed=build.seed, **build.params)
    advice = advise_on(repos, request, _reporting(repos, build.id))
    repos.builds.end_successfully(build.id, lambda pipe: repos.datasets.keep_advice(pipe, advice))


def _reporting(repos: Repositories, build_id: str) -> Progress:
    """Note a build's progress, not more often than anybody could read it."""
    last = 0.0

    def progress(done: int, total: int, message: str) -> None:
        nonlocal last
        moment = time.monotonic()
        if moment - last >= _REPORT_S or done == total:
            last = moment
            repos.builds.report_progress(build_id, BuildProgress(done=done, total=total, message=message))

    return progress


def fit(repos: Repositories, request: BuildRequest, options: Value, progress: Progress) -> bytes:
    """Fit a kind to a stored dataset and give the artifact's bytes; same request and dataset, same bytes."""
    info = repos.datasets.get_info(request.dataset)
    kind, rng = KINDS[request.kind], make_generator(request.seed)
    dataset, run = repos.datasets.load(info), _run(repos, progress)
    with training_on(repos.settings.dask_scheduler):
        fitted = kind.fit(dataset, options, rng, run)
    return codec.encode(fitted.plan, _manifest(request, options, (info, dataset), fitted))


def advise_on(repos: Repositories, request: AdviceRequest, progress: Progress) -> Advice:
    """Build every artifact kind that a stored dataset allows, and recommend one."""
    info = repos.datasets.get_info(request.dataset)
    dataset, run = repos.datasets.load(info), _run(repos, progress)
    with training_on(repos.settings.dask_scheduler):
        advised = advise(dataset, request, request.seed, request.time_limit_s, run)
    return Advice(**advised, dataset=info.name, dataset_sha256=info.sha256, warnings=info.warnings)


def _run(repos: Repositories, progress: Progress) -> BuildContext:
    """Give a fit what it may use of the world."""
    started = time.monotonic()
    memory = TrainingCache(repos.store)
    return BuildContext(progress, lambda: time.monotonic() - started, memory, repos.settings.allowed_modules())


def build_locally(repos: Repositories, request: BuildRequest, options: Value, progress: Progress) -> ArtifactRecord:
    """Fit in this process and publish, with no queue or worker."""
    data = fit(repos, request, options, progress)
    return repos.artifacts.publish(data, created_at=current_time())


def _manifest(
    request: BuildRequest, options: Value, learned: tuple[DatasetInfo, Dataset], fitted: Fitted[Plan]
) -> dict[str, Any]:
    info, dataset = learned
    savings = None if fitted.savings is None else fitted.savings.model_dump(mode="json")
    return {
        "kind": request.kind,
        "name": request.name,
        "dataset": info.name,
        "dataset_sha256": info.sha256,
        "params": options.model_dump(mode="json"),
        "seed": request.seed,
        "unit": info.spec.unit,
        "summary": {**fitted.summary, **_warnings(info), **_confidences(dataset), "savings": savings},
    }


def _confidences(dataset: Dataset) -> dict[str, Any]:
    """Record the distribution of confidences that runs are compared with."""
    profiles = profile_confidences(dataset) if isinstance(dataset, Trace) else {}
    return {"confidences": profiles} if profiles else {}


def _warnings(info: DatasetInfo) -> dict[str, Any]:
    return {"warnings": [one.model_dump(mode="json") for one in info.warnings]} if info.warnings else {}


@contextmanager
def training_on(dask_scheduler: str | None) -> Iterator[None]:
    """Let joblib train in local processes, one for each processor, or on a Dask cluster if there is one."""
    if dask_scheduler is None:
        dying = {"initializer": die_with_parent, "initargs": (signal.SIGKILL, os.getpid())}
        try:
            with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None, **dying):
                yield
        except TerminatedWorkerError as error:
            raise ParsimonyError("a process that trained was killed; it may have run out of memory") from error
        finally:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
        return
    from app.building.dask_cluster import training_on_cluster  # imports Dask, an optional dependency

    with training_on_cluster(dask_scheduler):
        yield
