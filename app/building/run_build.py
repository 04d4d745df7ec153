"""Runs builds, each in a separate process."""

import json
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

from app.building.build_progress import make_progress_reporter
from app.building.upload_check import put_sampled_dataset, store_uploaded_table
from app.processes.clock import current_timestamp
from app.processes.parent_death import die_with_parent
from app.settings import Settings
from app.sources.read import read_source
from app.sources.scan import require_unchanged_file
from app.store import codec
from app.store.builds import ADVICE, SOURCE, Builds
from app.store.conversation_windows import fill_conversation_options
from app.store.repositories import Repositories, open_repositories
from app.store.training_cache import TrainingCache
from app.store.uploads import parse_spec
from models import ArtifactRecord, Build, BuildRequest, Dataset, DatasetFacts, Trace, TraceSpec, Value
from models.advice import Advice, AdviceRequest
from models.dataset_source import DatasetSource
from models.errors import Cancelled, ParsimonyError
from models.losses import LossPrices
from models.stored_dataset import DatasetInfo
from models.word_embedding import DIMENSIONS, WORDS
from solvers import KINDS, AnyKind, BuildContext, FitResult, Plan, Progress
from solvers.advice import advise
from solvers.base import make_generator
from solvers.confidence_profile import profile_confidences
from solvers.guarantees import fit_with_guarantees
from solvers.partial_traces import prepare_rows

logger = logging.getLogger("parsimony.worker")


def run_build(build_id: str) -> None:
    """Run one queued build to its end; RQ calls this function in a separate process."""
    with open_repositories(Settings(), client_name="parsimony-build") as repos:
        build = repos.builds.start_build(build_id)
        if build is None:
            return
        logger.info(
            "build started build=%s kind=%s name=%s dataset=%s", build_id, build.kind, build.name, build.dataset
        )
        try:
            {ADVICE: _advise_and_keep, SOURCE: _read_and_store}.get(build.kind, _build_and_publish)(repos, build)
            logger.info("build succeeded build=%s", build_id)
        except Cancelled as error:
            logger.info("%s", error)
        except BaseException as error:
            reason = _reason(error, repos.settings.build_timeout_s)
            internal = f"an internal error; see build {build_id} in the worker's log"
            logger.info("build failed build=%s error=%s", build_id, reason or internal)
            repos.builds.end_build(build_id, "failed", reason or internal)
            if reason is None:
                raise


def _reason(error: BaseException, limit: int) -> str | None:
    """Return the reason why a build failed; None for an internal error, only logged."""
    if isinstance(error, JobTimeoutException):
        return f"took longer than {limit} s (PARSIMONY_BUILD_TIMEOUT_S)"
    if any(isinstance(cause, MemoryError) for cause in _causes(error)):
        return "ran out of memory"
    return str(error) if isinstance(error, ParsimonyError) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all its causes.

    Libraries that run out of memory raise misleading errors afterward.
    """
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _build_and_publish(repos: Repositories, build: Build) -> None:
    request = BuildRequest(**build.model_dump(include=set(BuildRequest.model_fields)))
    options = KINDS[build.kind].options.model_validate(build.params)
    data = fit(repos, request, options, make_progress_reporter(repos, build.id))
    check, commit = repos.builds.commit_result(build.id)
    repos.artifacts.publish(
        data,
        created_at=current_timestamp(),
        activate=build.activate,
        check=check,
        commit=commit,
        watched=(Builds.watch_cancellation(build.id),),
    )


def _advise_and_keep(repos: Repositories, build: Build) -> None:
    request = AdviceRequest(dataset=build.dataset, seed=build.seed, **build.params)
    advice = build_advice(repos, request, make_progress_reporter(repos, build.id))
    repos.builds.end_successfully(build.id, lambda pipe: repos.datasets.store_advice(pipe, advice))


def _read_and_store(repos: Repositories, build: Build) -> None:
    """Check the rows of a source, and store a sample of them as a dataset."""
    spec = parse_spec(json.dumps(build.params["spec"]))
    source = DatasetSource.model_validate(build.params["source"])
    if source.upload is not None:
        store_uploaded_table(repos, build, spec, source)
        return
    with joblib_backend(repos.settings.dask_scheduler):
        progress = make_progress_reporter(repos, build.id)
        dataset, facts = read_source(source, spec, repos.settings.allowed_sources(), progress)
    put_sampled_dataset(repos, build, dataset, facts)
    repos.builds.end_build(build.id, "succeeded", None)


def fit(repos: Repositories, request: BuildRequest, options: Value, progress: Progress) -> bytes:
    """Fit a kind to a stored dataset and return the artifact's bytes.

    Equal requests and datasets result in equal bytes.
    """
    info = repos.datasets.get_info(request.dataset)
    for file in () if info.source is None else info.source.files:
        require_unchanged_file(file)
    kind = KINDS[request.kind]
    options = fill_conversation_options(kind, fill_embedder_option(kind, options, info), info)
    loaded, run = repos.datasets.load(info), _run(repos, progress)
    with joblib_backend(repos.settings.dask_scheduler):
        dataset = prepare_rows(loaded, request.seed, takes_partial=kind.takes_partial_traces)
        if request.guarantees is None:
            fitted = kind.fit(dataset, options, make_generator(request.seed), run)
        else:
            fitted, dataset = fit_with_guarantees(kind, dataset, options, request.guarantees, request.seed, run)
    return codec.encode(fitted.plan, _manifest(request, options, (info, dataset), fitted))


def fill_embedder_option(kind: AnyKind, options: Value, facts: DatasetFacts) -> Value:
    """Return the build's options with the dataset's embedder, if they name none.

    The options are unchanged if the dataset's embedder is unknown.
    """
    named: str | None = getattr(options, "embedder", WORDS)
    if named is not None or not (isinstance(facts.spec, TraceSpec) and kind.needs_embeddings):
        return options
    is_by_words = facts.spec.text is not None and facts.embedding_dimensions == DIMENSIONS
    made_by = facts.spec.embedder or (WORDS if is_by_words else None)
    return options if made_by is None else options.model_copy(update={"embedder": made_by})


def build_advice(repos: Repositories, request: AdviceRequest, progress: Progress) -> Advice:
    """Build every kind that a stored dataset allows, and recommend one."""
    info = repos.datasets.get_info(request.dataset)
    dataset, run = repos.datasets.load(info), _run(repos, progress)
    with joblib_backend(repos.settings.dask_scheduler):
        advised = advise(dataset, request, request.seed, request.time_limit_s, run)
    return Advice(**advised, dataset=info.name, dataset_sha256=info.sha256, warnings=info.warnings)


def _run(repos: Repositories, progress: Progress) -> BuildContext:
    """Return the dependencies of a fit: progress, clock, cache, and learner modules."""
    started = time.monotonic()
    memory = TrainingCache(repos.store)
    return BuildContext(progress, lambda: time.monotonic() - started, memory, repos.settings.allowed_modules())


def build_locally(repos: Repositories, request: BuildRequest, options: Value, progress: Progress) -> ArtifactRecord:
    """Fit in this process and publish, without a queue or worker."""
    data = fit(repos, request, options, progress)
    return repos.artifacts.publish(data, created_at=current_timestamp(), activate=request.activate)


def _manifest(
    request: BuildRequest, options: Value, learned: tuple[DatasetInfo, Dataset], fitted: FitResult[Plan]
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
        "summary": {
            **fitted.summary,
            **_warnings(info),
            **_confidences(dataset),
            **_losses(dataset),
            "savings": savings,
        },
    }


def _confidences(dataset: Dataset) -> dict[str, Any]:
    """Record the distribution of confidences, with which runs are compared."""
    profiles = profile_confidences(dataset) if isinstance(dataset, Trace) else {}
    return {"confidences": profiles} if profiles else {}


def _losses(dataset: Dataset) -> dict[str, Any]:
    """Record the losses of errors."""
    reject_loss = dataset.reject_loss if isinstance(dataset, Trace) else None
    prices = LossPrices.from_losses(dataset.losses, dataset.loss_scale, dataset.classes, reject_loss)
    return {} if prices is None else {"losses": prices.model_dump(mode="json", exclude_none=True)}


def _warnings(info: DatasetInfo) -> dict[str, Any]:
    return {"warnings": [one.model_dump(mode="json") for one in info.warnings]} if info.warnings else {}


@contextmanager
def joblib_backend(dask_scheduler: str | None) -> Iterator[None]:
    """Let joblib train in local processes, or on a Dask cluster if one is configured."""
    if dask_scheduler is None:
        dying = {"initializer": die_with_parent, "initargs": (signal.SIGKILL, os.getpid())}
        try:
            with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None, **dying):
                yield
        except TerminatedWorkerError as error:
            raise ParsimonyError("a training process was killed; it may be out of memory") from error
        finally:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
        return
    from app.building.dask_cluster import dask_backend  # imports Dask, an optional dependency

    with dask_backend(dask_scheduler):
        yield
