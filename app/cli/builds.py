"""``parsimony build`` and ``rebuild``: ask for an artifact and wait for it."""

import time
from typing import Annotated

import typer

from app import terminal
from app.cli.key_values import json_or_text, read_pairs
from app.cli.options import AsJson, NameArgument, Params, SolverArgument, open_store, solver_called
from app.store.builds import check_dataset, checked_request
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest
from models.errors import ParsimonyError

Local = Annotated[bool, typer.Option("--local", help="Build in this process instead of a worker.")]


def build(
    solver: SolverArgument,
    name: Annotated[str, typer.Argument(help="The name of the artifact to be.")],
    dataset: Annotated[str, typer.Option(help="The dataset to learn from.")],
    param: Params = None,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact and wait for it."""
    params = {key: json_or_text(value) for key, value in read_pairs(param or ()).items()}
    request = BuildRequest(solver=solver, name=name, dataset=dataset, params=params, seed=seed)
    with open_store() as repos:
        record = _build_here(repos, request) if local else _build_in_worker(repos, request)
    terminal.artifact(record, as_json)


def rebuild(
    solver: SolverArgument,
    name: NameArgument,
    dataset: Annotated[
        str | None, typer.Option(help="The name of the dataset to be; else the old one's, numbered.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Whose rows to take; else the active one's.")] = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build a new version from a version's dataset and the rows that came as feedback on it."""
    from app.building.rebuild import prepare

    solver_called(solver)
    with open_store() as repos:
        prepared = prepare(repos, repos.artifacts.record(solver, name, version), dataset)
        rows = f"dataset {prepared.request.dataset}: {prepared.old_rows} rows and {prepared.new_rows} of feedback"
        terminal.console(stderr=True).print(rows)
        record = _build_here(repos, prepared.request) if local else _build_in_worker(repos, prepared.request)
    terminal.artifact(record, as_json)


def _build_here(repos: Repositories, request: BuildRequest) -> ArtifactRecord:
    from app.building.worker import build_locally

    solver, options = checked_request(request)
    info = repos.datasets.info(request.dataset)
    check_dataset(solver, options, request.dataset, info.model_dump_json().encode())
    with terminal.progress_bar(f"{request.solver} {request.name}") as progress:
        return build_locally(repos, request, options, progress)


def _build_in_worker(repos: Repositories, request: BuildRequest) -> ArtifactRecord:
    """Queue a build and follow it; interrupting the command cancels it."""
    queued = repos.builds.enqueue(request)
    if not repos.builds.workers():
        terminal.console(stderr=True).print("no worker is running: start `parsimony serve` or `parsimony worker`")
    try:
        ended = _follow(repos, queued)
    except KeyboardInterrupt:
        repos.builds.cancel(queued.id)
        raise
    if ended.artifact is None:
        raise ParsimonyError(f"build {ended.id} {ended.status}: {ended.error or 'it was told to stop'}")
    return repos.artifacts.record(ended.artifact.solver, ended.artifact.name, ended.artifact.version)


def _follow(repos: Repositories, build: Build) -> Build:
    with terminal.progress_bar(f"{build.solver} {build.name}") as report:
        while not build.ended:
            report(build.progress.done, build.progress.total, build.progress.message)
            time.sleep(0.2)
            build = repos.builds.get(build.id)
    return build
