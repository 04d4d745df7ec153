"""The command line: ``parsimony``. A command's module is imported when the command is called, for most of the time of
a short one would go into what the others need."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.commands import PLAIN, single_command

COMMANDS = {
    "serve": ("serving:serve", "Run the service; with the embedded store, a build worker too."),
    "worker": ("serving:worker", "Run a worker that takes builds from the queue."),
    "demo": ("serving:demo", "Build every kind from real images, and do what it decides."),
    "dataset": ("datasets:dataset", "Datasets: what builds learn from."),
    "build": ("builds:build_command", "Build an artifact and wait for it."),
    "builds": ("builds:builds", "Builds: list them, show one, cancel one."),
    "rebuild": ("builds:rebuild", "Build a new version with the rows that came as feedback."),
    "advise": ("advice:advise", "Recommend an artifact kind for a dataset."),
    "artifacts": ("artifacts:show_artifacts", "List the artifacts; show, roll back or delete one."),
    "decide": ("decisions:decide", "Ask an artifact for a decision."),
    "evaluate": ("evaluation:evaluate", "Send complete items through an artifact."),
    "curve": ("evaluation:curve", "Show what an artifact reaches at which cost."),
    "run": ("endpoints:run", "Run an item: the classifiers are called."),
    "endpoint": ("endpoints:endpoint", "Endpoints: where classifiers are, for runs."),
    "batch": ("batches:batch", "Batches: files of items, run behind the service."),
    "feedback": ("decisions:feedback", "Compare expected with actual outcomes."),
    "plot": ("plot:plot", "Draw an artifact's picture, as the console shows it."),
    "export": ("files:export", "Write an artifact's bytes to a file."),
    "import": ("files:import_", "Publish an exported artifact as the next version of its name."),
    "index": ("kind_commands:index", "Indexes: what features cost."),
    "portfolio": ("kind_commands:portfolio", "Portfolios: batches of queries."),
    "bench": ("benchmarks:bench_command", "Run a benchmark of the repository (from a checkout)."),
}
"""The module of each command, and its line in the list of commands."""


class Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = COMMANDS[name][0].partition(":")
        defined = getattr(import_module(f"app.cli.{module}"), attribute)
        group = defined if isinstance(defined, typer.Typer) else single_command(defined)
        command = typer.main.get_command(group)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """The command ``parsimony``, whose list of commands imports none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": None})
        self.commands = Commands()  # type: ignore[assignment]  # nobody adds to it

    def list_commands(self, ctx: Any) -> list[str]:
        """List them in the order of use."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


cli = typer.Typer(
    cls=LazyGroup,
    help="How little computation will do: optimal classifier cascades and budgets, as a service.",
    no_args_is_help=True,
    **PLAIN,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"parsimony {version('parsimony')}")
        raise typer.Exit


@cli.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Parse the options before a command."""


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line; a refusal is one line on standard error and status 1."""
    if os.getpid() == 1:
        # The first process of a container is not ended by a signal that it has no handler for: told to stop while it
        # imports, before a service sets its own, it would go on until it is killed.
        signal.signal(signal.SIGTERM, _end)
    try:
        cli()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from app.cli.refusals import refusal_of

        text = refusal_of(error)
        if text is None:
            raise
        print(f"parsimony: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
