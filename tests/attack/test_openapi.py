"""The whole OpenAPI document, held against a real server by schemathesis: what it allows, and what it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

ROOT = Path(__file__).parents[2]
EXAMPLES = 40
"""Generated requests for each operation, beside those that cover its schema systematically."""


@pytest.mark.slow
def test_every_operation_keeps_its_schema(all_subjects: Server, tmp_path: Path) -> None:
    config = ["--config-file", str(ROOT / "tests" / "attack" / "schemathesis.toml")]
    options = ["--header", "Authorization: Bearer k", "--max-examples", str(EXAMPLES)]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *config, "run", f"{all_subjects.url}/openapi.json", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    paths = all_subjects.client.get("/openapi.json").json()["paths"].values()
    assert f"{sum(map(len, paths))} selected" in done.stdout
    assert "Traceback" not in all_subjects.log.read_text()
