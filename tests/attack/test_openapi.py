"""The whole OpenAPI document, held against a real server by schemathesis: what it allows, and what it does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LIMIT
from tests.support.kinds import server_with_all_kinds
from tests.support.patience import patient
from tests.support.servers import Server

ROOT = Path(__file__).parents[2]
EXAMPLES = 5
"""Generated requests for each operation, beside those that cover its schema systematically."""


@pytest.fixture(scope="module")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_with_all_kinds(tmp_path_factory.mktemp("openapi"), max_body_bytes=LIMIT) as server:
        yield server


@pytest.mark.slow
def test_every_operation_keeps_its_schema(deleted: Server, tmp_path: Path) -> None:
    config = ["--config-file", str(ROOT / "tests" / "attack" / "schemathesis.toml")]
    options = ["--header", "Authorization: Bearer k", "--max-examples", str(EXAMPLES)]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *config, "run", f"{deleted.url}/openapi.json", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=patient(300),
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    paths = deleted.client.get("/openapi.json").json()["paths"].values()
    assert f"{sum(map(len, paths))} selected" in done.stdout
    assert "Traceback" not in deleted.log.read_text()
