"""Commands in the test's own process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.cli.main import main
from tests.support.patience import patient


def ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Run a command: its status, and what it wrote to standard output and standard error."""
    monkeypatch.setattr("sys.argv", ["parsimony", *map(str, arguments)])
    monkeypatch.setenv("PARSIMONY_SOLVE_TIMEOUT_S", str(patient(10)))  # for commands that are their own server
    capsys.readouterr()
    with _kept_logging(), pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@contextmanager
def _kept_logging() -> Iterator[None]:
    """Undo what the application inside a command does to the log of the process."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
