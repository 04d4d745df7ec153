"""``parsimony build``, ``rebuild`` and ``builds``: ask for an artifact, wait for it, see what became of builds."""

import time
from typing import Annotated, Any

import typer
from pydantic_core import to_json
from typer.core import TyperCommand

from app import terminal
from app.cli.commands import command_group, single_command
from app.cli.key_values import json_or_text, read_pairs
from app.cli.options import AsJson, KindArgument, NameArgument, Params, kind_named
from app.cli.service import Service, open_service
from app.store.builds import check_dataset, checked_request
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest, Value
from models.errors import ParsimonyError
from models.rebuild import RebuildRequest
from solvers import KINDS

builds = command_group("Builds: list them, show one, cancel one.")
Local = Annotated[bool, typer.Option("--local", help="Build in this process instead of a worker.")]
_LOOK_S = 0.2
BuildArgument = Annotated[str, typer.Argument(help="The build's id.")]


class BuildCommand(TyperCommand):
    """``build``, whose help for a kind lists the parameters of that one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note which kind is named before anything is read: ``--help`` comes before arguments."""
        ctx.meta["kind"] = next((word for word in args if word in KINDS), None)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the artifact kind's parameters below the options."""
        kind = ctx.meta["kind"]
        if kind is None:
            formatter.write_paragraph()
            formatter.write_text(f"`parsimony build KIND --help` lists a kind's parameters ({', '.join(KINDS)}).")
            return
        with formatter.section(f"Parameters of {kind}, each as -p NAME=VALUE"):
            formatter.write_dl(_parameters(KINDS[kind].options))


def build(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="The name of the artifact to be.")],
    dataset: Annotated[str, typer.Option(help="The dataset to learn from.")],
    param: Params = None,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact and wait for it."""
    params = {key: json_or_text(value) for key, value in read_pairs(param or ()).items()}
    request = BuildRequest(kind=kind, name=name, dataset=dataset, params=params, seed=seed)
    if local:
        from app.cli.in_process import open_store

        with open_store() as repos:
            record = _build_here(repos, request)
    else:
        with open_service() as service:
            record = _build_in_worker(service, request)
    terminal.print_artifact(record, as_json)


build_command = single_command(build, cls=BuildCommand)


def rebuild(
    kind: KindArgument,
    name: NameArgument,
    since: Annotated[
        str | None, typer.Option(help="Leave out rows before this time, ISO 8601 with its UTC offset.")
    ] = None,
    only_new: Annotated[
        bool | None, typer.Option("--only-new/--all-rows", help="Only rows of the feedback, or the old dataset's too.")
    ] = None,
    half_life: Annotated[
        float | None, typer.Option(help="In days: a row that is older by this time counts half.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The name of the dataset to be; else the old one's, numbered.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Whose rows to take; else the active one's.")] = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build a new version from a version's dataset and the rows that came as feedback on it.

    After a drift alarm it learns from the rows since the change point alone, if there are enough.
    """
    kind_named(kind)
    chosen = {"since": since, "only_new": only_new, "half_life": half_life, "dataset": dataset}
    options = RebuildRequest.model_validate_json(to_json(chosen))
    if local:
        from app.building.rebuild import prepare_rebuild
        from app.cli.in_process import open_store

        with open_store() as repos:
            prepared = prepare_rebuild(repos, repos.artifacts.get_record(kind, name, version), options)
            _print_rows(prepared.request.dataset, prepared.old_rows, prepared.new_rows)
            record = _build_here(repos, prepared.request)
    else:
        with open_service() as service:
            started = service.rebuild(kind, name, options, version)
            _print_rows(started.dataset, started.old_rows, started.new_rows)
            record = _followed(service, started)
    terminal.print_artifact(record, as_json)


def _print_rows(dataset: str, old_rows: int, new_rows: int) -> None:
    terminal.get_console(stderr=True).print(f"dataset {dataset}: {old_rows} rows and {new_rows} of feedback")


@builds.command("list")
def builds_list(
    most: Annotated[int, typer.Option(min=1, max=1000, help="How many of the latest.")] = 20, as_json: AsJson = False
) -> None:
    """List the latest builds."""
    with open_service() as service:
        latest = service.list_builds(most)
    if as_json:
        terminal.print_json({"items": [build.model_dump(mode="json") for build in latest]})
        return
    terminal.say_if_empty(latest)
    rows = [(one.id, one.kind, one.name, one.status) for one in latest]
    terminal.print_table("builds", ["id", "kind", "name", "status"], rows, whole=("id",))


@builds.command("show")
def builds_show(build: BuildArgument, as_json: AsJson = False) -> None:
    """Show what became of a build."""
    with open_service() as service:
        terminal.build(service.build(build), as_json)


@builds.command("cancel")
def builds_cancel(build: BuildArgument, as_json: AsJson = False) -> None:
    """Cancel a build."""
    with open_service() as service:
        terminal.build(service.cancel(build), as_json)


def _build_here(repos: Repositories, request: BuildRequest) -> ArtifactRecord:
    from app.building.worker import build_locally

    kind, options = checked_request(request)
    info = repos.datasets.get_info(request.dataset)
    check_dataset(kind, options, request.dataset, info.model_dump_json().encode())
    with terminal.progress_bar(f"{request.kind} {request.name}") as progress:
        return build_locally(repos, request, options, progress)


def _build_in_worker(service: Service, request: BuildRequest) -> ArtifactRecord:
    """Queue a build and follow it."""
    return _followed(service, service.enqueue_build(request))


def _followed(service: Service, queued: Build) -> ArtifactRecord:
    ended = follow_build(service, queued)
    assert ended.artifact is not None
    return service.get_artifact(ended.artifact.kind, ended.artifact.name, ended.artifact.version)


def follow_build(service: Service, queued: Build) -> Build:
    """Follow a build to its good end; interrupting the command cancels it. Raises ParsimonyError if it ends badly."""
    if not service.has_worker():
        terminal.get_console(stderr=True).print("no worker is running: start `parsimony serve` or `parsimony worker`")
    try:
        ended = _watched(service, queued)
    except KeyboardInterrupt:
        service.cancel(queued.id)
        raise
    if ended.status != "succeeded":
        raise ParsimonyError(f"build {ended.id} {ended.status}: {ended.error or 'it was cancelled'}")
    return ended


def _watched(service: Service, build: Build) -> Build:
    with terminal.progress_bar(f"{build.kind} {build.name}") as report:
        while not build.ended:
            report(build.progress.done, build.progress.total, build.progress.message)
            time.sleep(_LOOK_S)
            build = service.build(build.id)
    return build


def _parameters(options: type[Value]) -> list[tuple[str, str]]:
    """List a kind's parameters: of each its name, and what it is for with its default."""
    rows = []
    for name, field in options.model_fields.items():
        default = "" if field.is_required() else f" [{to_json(field.get_default(call_default_factory=True)).decode()}]"
        rows.append((name, f"{field.description}{default}"))
    return rows
