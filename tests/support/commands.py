"""Commands in the test's own process."""

import pytest

from app.cli.main import main


def ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Run a command: its status, and what it wrote to standard output and standard error."""
    monkeypatch.setattr("sys.argv", ["parsimony", *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err
