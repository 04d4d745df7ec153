"""The command line: ``parsimony``. It works on the store itself, so it needs no running server."""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError

from app import show
from app.catalog import Live
from app.clock import now
from app.decisions import decided, encode, told
from app.jobs import check_dataset, checked_request
from app.parts import Parts, open_parts
from app.queries import read_npy
from app.settings import Settings
from app.tables import parse_spec, read_dataset
from app.words import json_or_text, read_pairs, read_query
from models import ArtifactRecord, ArtifactRef, Build, BuildRequest, Fault, InvalidRequest
from models.errors import ParsimonyError
from solvers import SOLVERS

cli = typer.Typer(
    help="How little computation will do: optimal classifier cascades and budgets, as a service.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
dataset = typer.Typer(help="Datasets: what builds learn from.", no_args_is_help=True)
cli.add_typer(dataset, name="dataset")

index = typer.Typer(help="Indexes: what features cost.", no_args_is_help=True)
cli.add_typer(index, name="index")

portfolio = typer.Typer(help="Portfolios: batches of queries.", no_args_is_help=True)
cli.add_typer(portfolio, name="portfolio")

pipeline = typer.Typer(help="Pipelines: EMSCO's parameters.", no_args_is_help=True)
cli.add_typer(pipeline, name="pipeline")

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
SolverArgument = Annotated[str, typer.Argument(help=f"The solver: {', '.join(SOLVERS)}.")]


def main() -> None:
    """Run the command line; a refusal is one line on standard error and status 1."""
    try:
        cli()
    except ParsimonyError as error:
        _refuse(str(error))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        _refuse(
            f"{where}: {first['msg']}" if error.title != "Settings" else f"PARSIMONY_{where.upper()}: {first['msg']}"
        )
    except OSError as error:
        _refuse(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "))
    except KeyboardInterrupt:
        sys.exit(130)


def _refuse(text: str) -> None:
    print(f"parsimony: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201
    sys.exit(1)


@contextmanager
def _parts() -> Iterator[Parts]:
    with open_parts(Settings(), client_name="parsimony-cli") as parts:
        yield parts


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of server processes.")] = None,
) -> None:
    """Run the service; with the embedded store a build worker runs beside it."""
    from app.serve import serve

    flags = {"HOST": host, "PORT": port, "WORKERS": workers}
    os.environ |= {f"PARSIMONY_{name}": str(value) for name, value in flags.items() if value is not None}
    settings = Settings()  # read again by every process that this one starts
    serve(settings, with_worker=settings.redis_url is None)


@cli.command()
def worker() -> None:
    """Run a worker that takes builds from the queue."""
    from app.telemetry import configure_logging
    from app.worker import work

    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    work(settings)


@cli.command()
def demo(
    if_missing: Annotated[bool, typer.Option(help="Do nothing if the demo's artifacts are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact of every subject from real images and measurements, and really do what they decide."""
    from app.demo import run_demo

    with _parts() as parts:
        run_demo(parts, if_missing=if_missing, as_json=as_json)


@dataset.command("add")
def dataset_add(
    name: NameArgument,
    table: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV, gzipped CSV or Parquet.")],
    spec: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="How to read the table, a JSON file.")],
    embeddings: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file, float32.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a table and store it as a dataset."""
    settings = Settings()
    vectors = None if embeddings is None else embeddings.read_bytes()
    checked = read_dataset(parse_spec(spec.read_bytes()), table, "", vectors, max_bytes=settings.max_body_bytes)
    with _parts() as parts:
        info, _ = parts.datasets.put(name, checked, created_at=now())
    show.dataset(info, as_json)


@dataset.command("list")
def dataset_list(as_json: AsJson = False) -> None:
    """List the datasets."""
    with _parts() as parts:
        infos = parts.datasets.infos()
    if as_json:
        show.print_json({"items": [info.model_dump(mode="json") for info in infos]})
        return
    show.say_if_empty(infos)
    rows = [
        (info.name, info.spec.kind, info.rows, len(info.columns), len(info.classes), info.spec.unit) for info in infos
    ]
    show.print_table("datasets", ["name", "kind", "rows", "columns", "classes", "unit"], rows)


@dataset.command("show")
def dataset_show(name: NameArgument, as_json: AsJson = False) -> None:
    """Show a dataset."""
    with _parts() as parts:
        show.dataset(parts.datasets.info(name), as_json)


@dataset.command("delete")
def dataset_delete(name: NameArgument, as_json: AsJson = False) -> None:
    """Delete a dataset that no build needs."""
    with _parts() as parts:
        parts.datasets.delete(name)
    if as_json:
        show.print_json({"deleted": name})
    else:
        show.console().print(f"deleted dataset {name}")


@index.command("measure")
def index_measure(
    features: Annotated[list[str], typer.Argument(help="Feature functions, as module:function; each takes an item.")],
    item: Annotated[str, typer.Option(help="What makes an item of a size, as module:function.")],
    sizes: Annotated[str, typer.Option(help="Sizes, comma-separated: 64,128 or 640x480,1280x960.")],
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls for each function and size.")] = 20,
    degree: Annotated[int, typer.Option(min=0, max=15, help="Degree of the polynomial.")] = 2,
    quantile: Annotated[float, typer.Option(help="The quantile of the times to provision for; 1: the worst.")] = 0.95,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A JSON file of costs, by function.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time your own feature functions over item sizes; the costs go into a features spec as they are."""
    from app.measure import cost_of, measure, polynomial_text

    with show.progress_bar("measuring") as progress:
        timings = measure(features, item, sizes.split(","), repeats, degree, progress)
    found = {name: cost_of(rows, degree, quantile) for name, rows in timings.items()}
    costs = {name: spec for name, (spec, _, _) in found.items()}
    if output is not None:
        output.write_text(json.dumps(costs))
    if as_json:
        show.print_json(costs)
        return
    rows = [(name, polynomial_text(function), fit.rms, fit.largest_over) for name, (_, function, fit) in found.items()]
    show.print_table("cost in ms", ["feature", "cost", "rms", "most above"], rows)


@portfolio.command("assign")
def portfolio_assign(
    name: NameArgument,
    queries: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A .npy file: a row for each query.")],
    total: Annotated[float | None, typer.Option(help="The budget for all queries together.")] = None,
    per_query: Annotated[float | None, typer.Option(help="The budget for a query on average.")] = None,
    fraction: Annotated[float | None, typer.Option(help="The budget, as a share of the dearest classifier.")] = None,
    objective: Annotated[str, typer.Option(help="mean or min: which of the estimates is to be highest.")] = "mean",
    regularization: Annotated[
        float | None, typer.Option(help="Standard deviations of its error taken off an estimate; else as built.")
    ] = None,
    gap: Annotated[float, typer.Option(help="How far from the optimum the answer may be, as a share.")] = 1e-6,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which the best so far is taken.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A CSV of the assignments.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version to ask; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Assign a batch of queries to classifiers within a budget."""
    given = {"total": total, "per_query": per_query, "fraction": fraction}
    budget = {key: value for key, value in given.items() if value is not None}
    asked = {"objective": objective, "regularization": regularization, "gap": gap, "time_limit_s": time_limit}
    vectors, options = read_npy(queries.read_bytes(), {"budget": budget, **asked})
    live = _live("portfolio", name, version)
    assigned = live.plan.assign(live.plan.estimate(vectors), options)
    found: dict[str, Any] = orjson.loads(encode(assigned, live, decision=told(live, options, assigned)))
    if output is not None:
        with output.open("w", newline="") as file:
            csv.writer(file).writerows([("query", "classifier"), *enumerate(found["assignments"], start=1)])
    _show_decision(live, found, as_json)


@pipeline.command("sweep")
def pipeline_sweep(
    dataset: Annotated[str, typer.Argument(help="The dataset to try the parameters on.")],
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each combination.")] = 10,
    most: Annotated[int | None, typer.Option(min=1, help="Try so many combinations, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Try EMSCO's parameters on a dataset: all 540 combinations of the paper's grid, or some of them."""
    from app.sweep import sweep_dataset

    params = {key: json_or_text(value) for key, value in read_pairs(param or ()).items()}
    request = BuildRequest(solver="pipeline", name="sweep", dataset=dataset, params=params, seed=seed)
    with _parts() as parts, show.progress_bar(f"sweep {dataset}") as progress:
        found = sweep_dataset(parts, request, runs, most, progress)
    if as_json:
        show.print_json(found)
        return
    best = found["tried"][:10]
    show.print_table("the best of the sweep", list(best[0]), [list(row.values()) for row in best])
    print("\n".join(wrap(f"build with -p evolution='{json.dumps(found['best'])}'", 80)))  # noqa: T201 (JSON may break)


@cli.command()
def build(
    solver: SolverArgument,
    name: Annotated[str, typer.Argument(help="The name of the artifact to be.")],
    dataset: Annotated[str, typer.Option(help="The dataset to learn from.")],
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="A parameter, as key=value (JSON).")] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    local: Annotated[bool, typer.Option("--local", help="Build in this process instead of a worker.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact and wait for it."""
    params = {key: json_or_text(value) for key, value in read_pairs(param or ()).items()}
    request = BuildRequest(solver=solver, name=name, dataset=dataset, params=params, seed=seed)
    with _parts() as parts:
        record = _build_here(parts, request) if local else _build_in_worker(parts, request)
    show.artifact(record, as_json)


@cli.command()
def artifacts(
    solver: Annotated[str | None, typer.Argument(help="Of this solver only.")] = None,
    name: Annotated[str | None, typer.Argument(help="Show this one, with all its versions.")] = None,
    activate: Annotated[int | None, typer.Option(min=1, help="Let this version answer from now on.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the artifacts; show one; roll it back or forward."""
    if solver is not None:
        _refuse_unknown(solver)
    with _parts() as parts:
        if solver is not None and name is not None:
            if activate is not None:
                parts.artifacts.activate(solver, name, activate)
            show.versions(parts.feedback.told_of(parts.artifacts.versions(solver, name)), as_json)
            return
        if activate is not None:
            raise InvalidRequest.at(Fault(("activate",), "needs a solver and a name"))
        records = parts.feedback.told_of(parts.artifacts.active(solver, name))
    if as_json:
        show.print_json({"items": [record.model_dump(mode="json") for record in records]})
        return
    show.say_if_empty(records)
    rows = [(r.solver, r.name, r.version, r.dataset, r.created_at[:16], ", ".join(r.drift)) for r in records]
    show.print_table("artifacts", ["solver", "name", "version", "dataset", "created", "drift"], rows)


@cli.command()
def decide(
    solver: SolverArgument,
    name: NameArgument,
    query: Annotated[list[str] | None, typer.Argument(help="The query, as key=value, for example deadline=5.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version to ask; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an artifact for a decision."""
    _refuse_unknown(solver)
    asked = read_query(solver, query or ())
    live = _live(solver, name, version)
    _show_decision(live, orjson.loads(decided(live, asked)), as_json)


@cli.command()
def feedback(
    solver: SolverArgument,
    name: NameArgument,
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was estimated of an artifact's decisions against what was told of them."""
    _refuse_unknown(solver)
    with _parts() as parts:
        report = parts.feedback.report(parts.artifacts.record(solver, name, version))
    show.feedback(report, as_json)


@cli.command()
def rebuild(
    solver: SolverArgument,
    name: NameArgument,
    dataset: Annotated[
        str | None, typer.Option(help="The name of the dataset to be; else the old one's, numbered.")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Build in this process instead of a worker.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a new version from the active one's dataset and the rows that came as feedback on it."""
    from app.rebuild import prepare

    _refuse_unknown(solver)
    with _parts() as parts:
        prepared = prepare(parts, parts.artifacts.record(solver, name), dataset)
        told = f"dataset {prepared.request.dataset}: {prepared.old_rows} rows and {prepared.new_rows} of feedback"
        show.console(stderr=True).print(told)
        record = _build_here(parts, prepared.request) if local else _build_in_worker(parts, prepared.request)
    show.artifact(record, as_json)


@cli.command("export")
def export(
    solver: SolverArgument,
    name: NameArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write an artifact's bytes to a file; they carry their own checksum."""
    with _parts() as parts:
        record = parts.artifacts.record(solver, name, version)
        output.write_bytes(parts.artifacts.data(record))
    if as_json:
        show.print_json(record.model_dump(mode="json"))
    else:
        show.console().print(f"wrote {output}: {solver} {name} version {record.version}, SHA-256 {record.sha256}")


@cli.command("import")
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file that export wrote.")],
    as_json: AsJson = False,
) -> None:
    """Publish an exported artifact as the next version of its name."""
    with _parts() as parts:
        record = parts.artifacts.publish(file.read_bytes(), created_at=now())
    show.artifact(record, as_json)


@cli.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Which benchmark, for example http.")]
) -> None:
    """Run a benchmark of the repository (from a checkout: they live in tests/bench); it is given further options."""
    root = Path(__file__).parent.parent
    known = sorted(path.stem for path in (root / "tests" / "bench").glob("[a-z]*.py"))
    if name not in known:
        raise InvalidRequest(
            f"there is no benchmark {name!r}; there are: {', '.join(known) or 'none, this is no checkout'}"
        )
    sys.exit(subprocess.call([sys.executable, "-m", f"tests.bench.{name}", *context.args], cwd=root))


def _live(solver: str, name: str, version: int | None) -> Live:
    """Load a plan from the store."""
    with _parts() as parts:
        record = parts.artifacts.record(solver, name, version)
        return Live(record, ArtifactRef(solver=solver, name=name, version=record.version), parts.artifacts.plan(record))


def _show_decision(live: Live, found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show.print_json(found)
    else:
        show.print_facts(f"{live.ref.solver} {live.ref.name}, version {live.ref.version}, in {live.record.unit}", found)


def _refuse_unknown(solver: str) -> None:
    if solver not in SOLVERS:
        raise InvalidRequest.at(Fault(("solver",), f"is {solver!r}, must be one of {', '.join(SOLVERS)}"))


def _build_here(parts: Parts, request: BuildRequest) -> ArtifactRecord:
    from app.worker import build_locally

    solver, options = checked_request(request)
    info = parts.datasets.info(request.dataset)
    check_dataset(solver, options, request.dataset, info.model_dump_json().encode())
    with show.progress_bar(f"{request.solver} {request.name}") as progress:
        return build_locally(parts, request, options, progress)


def _build_in_worker(parts: Parts, request: BuildRequest) -> ArtifactRecord:
    """Queue a build and follow it; interrupting the command cancels it."""
    queued = parts.builds.enqueue(request)
    if not parts.builds.workers():
        show.console(stderr=True).print("no worker is running: start `parsimony serve` or `parsimony worker`")
    try:
        ended = _follow(parts, queued)
    except KeyboardInterrupt:
        parts.builds.cancel(queued.id)
        raise
    if ended.artifact is None:
        raise ParsimonyError(f"build {ended.id} {ended.status}: {ended.error or 'it was told to stop'}")
    return parts.artifacts.record(ended.artifact.solver, ended.artifact.name, ended.artifact.version)


def _follow(parts: Parts, build: Build) -> Build:
    with show.progress_bar(f"{build.solver} {build.name}") as report:
        while not build.ended:
            report(build.progress.done, build.progress.total, build.progress.message)
            time.sleep(0.2)
            build = parts.builds.get(build.id)
    return build
