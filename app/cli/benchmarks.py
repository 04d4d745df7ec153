"""``parsimony bench``: runs the benchmarks of a repository checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands import single_command
from models import InvalidRequest


def bench(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the benchmark, for example http.")]
) -> None:
    """Run a benchmark of `tests/bench` in a checkout of the repository; it receives all further options."""
    if name == "--help":
        typer.echo(context.get_help())
        return
    root = Path(__file__).parents[2]
    known = sorted(path.stem for path in (root / "tests" / "bench").glob("[a-z]*.py"))
    if name not in known:
        raise InvalidRequest(
            f"benchmark {name!r} not found; available: {', '.join(known) or 'none outside of a checkout'}"
        )
    sys.exit(subprocess.call([sys.executable, "-m", f"tests.bench.{name}", *context.args], cwd=root))


bench_command = single_command(
    bench, context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
"""Options after a name, ``--help`` too, are those of that benchmark."""
