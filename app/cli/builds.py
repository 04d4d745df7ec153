"""``parsimony build``, ``rebuild``, and ``builds``: start and follow builds."""

import time
from typing import Annotated, Any

import typer
from pydantic_core import to_json
from typer.core import TyperCommand

from app import terminal
from app.cli.commands import command_group, single_command
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson, KindArgument, NameArgument, Params, find_kind
from app.cli.service import ServiceClient, open_service
from app.store.builds import check_dataset, validate_build_request
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest, Value
from models.errors import ParsimonyError
from models.rebuild import RebuildRequest
from solvers import KINDS
from solvers.kind import make_query

builds = command_group("List, show, and cancel builds.")
Local = Annotated[bool, typer.Option("--local", help="Build in this process, not in a worker.")]
Activate = Annotated[
    bool, typer.Option("--activate/--no-activate", help="Make the new version active, or keep it for a rollout.")
]
_POLL_INTERVAL_S = 0.2
BuildArgument = Annotated[str, typer.Argument(help="Id of the build.")]


class BuildCommand(TyperCommand):
    """The command ``build``; its help lists the parameters of the given kind."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Record the given kind before ``--help`` is handled."""
        ctx.meta["kind"] = next((word for word in args if word in KINDS), None)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the parameters of the given kind below the options."""
        kind = ctx.meta["kind"]
        if kind is None:
            formatter.write_paragraph()
            formatter.write_text(f"`parsimony build KIND --help` lists a kind's parameters ({', '.join(KINDS)}).")
            return
        with formatter.section(f"Parameters of {kind}, each as -p NAME=VALUE"):
            formatter.write_dl(_parameters(KINDS[kind].options))


def build(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="Name of the new artifact.")],
    dataset: Annotated[str, typer.Option(help="Dataset to learn from.")],
    param: Params = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    min_recall: Annotated[
        list[str] | None, typer.Option(help="Guaranteed recall of a class, as CLASS=SHARE: sick=0.95.")
    ] = None,
    max_false_positive_rate: Annotated[
        list[str] | None, typer.Option(help="Guaranteed false positive rate of a class, as CLASS=SHARE: sick=0.1.")
    ] = None,
    min_accuracy: Annotated[
        float | None, typer.Option(help="Guaranteed share of correct answers among answered items.")
    ] = None,
    min_coverage: Annotated[float | None, typer.Option(help="Guaranteed share of items that get an answer.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the guarantees.")] = 0.95,
    activate: Activate = True,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact and wait for it."""
    params = {key: parse_json_or_text(value) for key, value in parse_key_values(param or ()).items()}
    by_class = {"min_recall": min_recall, "max_false_positive_rate": max_false_positive_rate}
    bounds: dict[str, Any] = {limit: _read_shares(pairs) for limit, pairs in by_class.items() if pairs}
    overall = {"min_accuracy": min_accuracy, "min_coverage": min_coverage}
    bounds |= {limit: value for limit, value in overall.items() if value is not None}
    request = make_query(
        BuildRequest,
        kind=kind,
        name=name,
        dataset=dataset,
        params=params,
        seed=seed,
        guarantees={**bounds, "confidence": confidence} if bounds else None,
        activate=activate,
    )
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
        str | None, typer.Option(help="Use only feedback after this time (ISO 8601 with UTC offset).")
    ] = None,
    only_new: Annotated[
        bool | None,
        typer.Option("--only-new/--all-rows", help="Learn from feedback rows only, or also from the old dataset."),
    ] = None,
    half_life: Annotated[float | None, typer.Option(help="Half-life of row weights, in days.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the new dataset; default: the old name with a number.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Version to rebuild; default: the active one.")] = None,
    activate: Activate = True,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build the next version of an artifact from its dataset and the feedback on it.

    After a drift alarm, only rows since the change point are used, if there are enough.
    """
    find_kind(kind)
    chosen = {"since": since, "only_new": only_new, "half_life": half_life, "dataset": dataset, "activate": activate}
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
    most: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of builds.")] = 20, as_json: AsJson = False
) -> None:
    """List the latest builds."""
    with open_service() as service:
        latest = service.list_builds(most)
    if as_json:
        terminal.print_json({"items": [build.model_dump(mode="json") for build in latest]})
        return
    terminal.explain_empty_list(latest)
    rows = [(one.id, one.kind, one.name, one.status) for one in latest]
    terminal.print_table("builds", ["id", "kind", "name", "status"], rows, whole=("id",))


@builds.command("show")
def builds_show(build: BuildArgument, as_json: AsJson = False) -> None:
    """Show a build: progress and result."""
    with open_service() as service:
        terminal.print_build(service.build(build), as_json)


@builds.command("cancel")
def builds_cancel(build: BuildArgument, as_json: AsJson = False) -> None:
    """Cancel a build."""
    with open_service() as service:
        terminal.print_build(service.cancel(build), as_json)


def _build_here(repos: Repositories, request: BuildRequest) -> ArtifactRecord:
    from app.building.run_build import build_locally

    kind, options = validate_build_request(request)
    info = repos.datasets.get_info(request.dataset)
    check_dataset(kind, options, request, info.model_dump_json().encode())
    with terminal.progress_bar(f"{request.kind} {request.name}") as progress:
        return build_locally(repos, request, options, progress)


def _build_in_worker(service: ServiceClient, request: BuildRequest) -> ArtifactRecord:
    """Queue a build and follow it."""
    return _followed(service, service.enqueue_build(request))


def _followed(service: ServiceClient, queued: Build) -> ArtifactRecord:
    ended = follow_build(service, queued)
    assert ended.artifact is not None
    return service.get_artifact(ended.artifact.kind, ended.artifact.name, ended.artifact.version)


def follow_build(service: ServiceClient, queued: Build) -> Build:
    """Follow a build until it succeeds; cancel it if the command is interrupted.

    Raises ParsimonyError if the build fails or is canceled.
    """
    if not service.has_worker():
        terminal.get_console(stderr=True).print("no worker is running: start `parsimony serve` or `parsimony worker`")
    try:
        ended = _watched(service, queued)
    except KeyboardInterrupt:
        service.cancel(queued.id)
        raise
    if ended.status != "succeeded":
        raise ParsimonyError(f"build {ended.id} {ended.status}: {ended.error or 'cancelled'}")
    return ended


def _watched(service: ServiceClient, build: Build) -> Build:
    with terminal.progress_bar(f"{build.kind} {build.name}") as report:
        while not build.ended:
            report(build.progress.done, build.progress.total, build.progress.message)
            time.sleep(_POLL_INTERVAL_S)
            build = service.build(build.id)
    return build


def _read_shares(pairs: list[str]) -> dict[str, Any]:
    """Return shares by class, of CLASS=SHARE."""
    return {label: parse_json_or_text(share) for label, share in parse_key_values(pairs).items()}


def _parameters(options: type[Value]) -> list[tuple[str, str]]:
    """List a kind's parameters: name, description, and default."""
    rows = []
    for name, field in options.model_fields.items():
        default = "" if field.is_required() else f" [{to_json(field.get_default(call_default_factory=True)).decode()}]"
        rows.append((name, f"{field.description}{default}"))
    return rows
