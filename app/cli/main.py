"""Main command ``parsimony``; it imports a command's module when it is called.

Importing all modules would take most of the time of a short command.
"""

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
    "serve": ("serving:serve", "Run the server, and with the embedded store also a worker."),
    "worker": ("serving:worker", "Run a worker for builds and batches."),
    "demo": ("serving:demo", "Build artifacts of every kind, and measure their savings."),
    "try": ("try_table:try_table", "Show what a table would have saved, without a server."),
    "import-logs": ("log_imports:import_logs", "Turn logs of model calls into a dataset."),
    "dataset": ("datasets:dataset", "Add, list, show, and delete datasets."),
    "build": ("builds:build_command", "Build an artifact and wait for it."),
    "builds": ("builds:builds", "List, show, and cancel builds."),
    "rebuild": ("builds:rebuild", "Build the next version of an artifact from feedback."),
    "advise": ("advice:advise", "Recommend an artifact kind for a dataset."),
    "artifacts": ("artifacts:show_artifacts", "List, show, roll back, and delete artifacts."),
    "decide": ("decisions:decide", "Get a decision of an artifact."),
    "evaluate": ("evaluation:evaluate", "Evaluate an artifact on complete items."),
    "evaluate-version": ("comparison:evaluate_version", "Evaluate a version on logged rows."),
    "diff": ("comparison:show_diff", "Show what changes between two versions."),
    "curve": ("evaluation:curve", "Show an artifact's accuracy against cost."),
    "run": ("endpoints:run", "Run an item: call classifiers and return the answer."),
    "endpoint": ("endpoints:endpoint", "Register, list, probe, and delete endpoints."),
    "budgets": ("budgets:budgets", "Set, list, and delete budgets."),
    "rollouts": ("rollouts:rollouts", "Start, list, show, and stop rollouts of versions."),
    "automation": ("automation:automation", "Show, set, and delete automatic steps after drift."),
    "trace": ("trace:fill_trace", "Call models for prompts, grade their answers, and write a trace."),
    "spend": ("budgets:show_spend", "Show what calls have cost."),
    "recordings": ("recordings:recordings", "Record runs, and make datasets of them."),
    "batch": ("batches:batch", "Run files of items in the background."),
    "feedback": ("decisions:feedback", "Compare expected with actual outcomes."),
    "plot": ("plot:plot", "Draw an artifact's accuracy against cost."),
    "export": ("files:export", "Export an artifact to a file."),
    "import": ("files:import_", "Import an exported artifact as its next version."),
    "index": ("kind_commands:index", "Measure the costs of features, for indexes."),
    "portfolio": ("kind_commands:portfolio", "Assign batches of queries, with portfolios."),
    "bench": ("benchmarks:bench_command", "Run a benchmark (requires a checkout of the repository)."),
}
"""The module of each command, and its line in the list of commands."""


class Commands(Mapping[str, Any]):
    """Mapping of commands, each imported at its first use."""

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
    """The command ``parsimony``; it lists commands without importing them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": None})
        self.commands = Commands()  # type: ignore[assignment]  # read only

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of commands in the order of use."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
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
        typer.echo(f"parsimony {version('parsimony-server')}")
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
    """Run the command line; an error is one line on standard error, with status 1."""
    if os.getpid() == 1:
        # The first process of a container is not ended by a signal that it has no handler for: told to stop while it
        # imports, before a service sets its own, it would go on until it is killed.
        signal.signal(signal.SIGTERM, _end)
    try:
        cli()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from app.cli.error_lines import format_error_line

        text = format_error_line(error)
        if text is None:
            raise
        print(f"parsimony: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
