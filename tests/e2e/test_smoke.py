"""The smoke test of deploy/, against a running server."""

import os
import subprocess
from pathlib import Path

from tests.support.patience import patient
from tests.support.servers import running_server

SMOKE = Path(__file__).parents[2] / "deploy" / "smoke.sh"


def test_the_smoke_test_passes_twice_and_fails_without_a_key(tmp_path: Path) -> None:
    with running_server(tmp_path, api_keys="secret:build") as server:
        for _ in range(2):
            done = _smoke(server.url, "secret")
            assert done.returncode == 0, done.stdout + done.stderr
        refused = _smoke(server.url, "")
        assert refused.returncode != 0
        assert "401" in refused.stdout + refused.stderr


def _smoke(url: str, key: str) -> subprocess.CompletedProcess[str]:
    command = [str(SMOKE), url, key] if key else [str(SMOKE), url]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(120), check=False)
