"""The command line: ``parsimony``. It works on the store itself, so it needs no running server."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer
from pydantic import ValidationError

from app import terminal
from app.cli import artifacts, builds, datasets, plot, subjects
from app.cli.key_values import read_query
from app.cli.options import AsJson, NameArgument, SolverArgument, load, open_store, show_decision, solver_called
from app.clock import now
from app.serving.answers import decided
from app.settings import Settings
from models import InvalidRequest
from models.errors import ParsimonyError

cli = typer.Typer(
    help="How little computation will do: optimal classifier cascades and budgets, as a service.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cli.add_typer(datasets.dataset, name="dataset")
cli.add_typer(subjects.index, name="index")
cli.add_typer(subjects.portfolio, name="portfolio")
cli.add_typer(subjects.pipeline, name="pipeline")
cli.command()(artifacts.artifacts)
cli.command()(builds.build)
cli.command()(builds.rebuild)
cli.command()(plot.plot)


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


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of server processes.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Make what is missing of the demo, behind it.")] = False,
) -> None:
    """Run the service; with the embedded store a build worker runs beside it."""
    from app.http.server import serve

    flags = {"HOST": host, "PORT": port, "WORKERS": workers}
    os.environ |= {f"PARSIMONY_{name}": str(value) for name, value in flags.items() if value is not None}
    settings = Settings()  # read again by every process that this one starts
    serve(settings, with_worker=settings.redis_url is None, with_demo=demo)


@cli.command()
def worker() -> None:
    """Run a worker that takes builds from the queue; another one follows if it dies or hangs."""
    from app.building.supervisor import watch_worker
    from app.logs import configure_logging, warn_of_misspelt

    settings = Settings()  # read again by the worker, which is a process of its own
    configure_logging(settings.log_level, settings.log_format)
    warn_of_misspelt()
    watch_worker(settings)


@cli.command()
def demo(
    if_missing: Annotated[bool, typer.Option(help="Do nothing if the demo's artifacts are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build an artifact of every subject from real images and measurements, and really do what they decide."""
    from app.demo.run import run_demo

    with open_store() as repos:
        run_demo(repos, if_missing=if_missing, as_json=as_json)


@cli.command()
def decide(
    solver: SolverArgument,
    name: NameArgument,
    query: Annotated[list[str] | None, typer.Argument(help="The query, as key=value, for example deadline=5.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version to ask; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an artifact for a decision."""
    solver_called(solver)
    asked = read_query(solver, query or ())
    live = load(solver_called(solver), name, version)
    show_decision(live, orjson.loads(decided(live, asked)), as_json)


@cli.command()
def feedback(
    solver: SolverArgument,
    name: NameArgument,
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was estimated of an artifact's decisions against what was told of them."""
    solver_called(solver)
    with open_store() as repos:
        report = repos.feedback.report(repos.artifacts.record(solver, name, version))
    terminal.feedback(report, as_json)


@cli.command("export")
def export(
    solver: SolverArgument,
    name: NameArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write an artifact's bytes to a file; they carry their own checksum."""
    with open_store() as repos:
        record = repos.artifacts.record(solver, name, version)
        output.write_bytes(repos.artifacts.data(record))
    if as_json:
        terminal.print_json(record.model_dump(mode="json"))
    else:
        terminal.console().print(f"wrote {output}: {solver} {name} version {record.version}, SHA-256 {record.sha256}")


@cli.command("import")
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file that export wrote.")],
    as_json: AsJson = False,
) -> None:
    """Publish an exported artifact as the next version of its name."""
    with open_store() as repos:
        record = repos.artifacts.publish(file.read_bytes(), created_at=now())
    terminal.artifact(record, as_json)


@cli.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)  # --help behind a name is for that benchmark
def bench(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Which benchmark, for example http.")]
) -> None:
    """Run a benchmark of the repository (from a checkout: they live in tests/bench); it is given further options."""
    if name == "--help":
        typer.echo(context.get_help())
        return
    root = Path(__file__).parents[2]
    known = sorted(path.stem for path in (root / "tests" / "bench").glob("[a-z]*.py"))
    if name not in known:
        raise InvalidRequest(
            f"there is no benchmark {name!r}; there are: {', '.join(known) or 'none, this is no checkout'}"
        )
    sys.exit(subprocess.call([sys.executable, "-m", f"tests.bench.{name}", *context.args], cwd=root))
