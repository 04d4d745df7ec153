"""Keys and hosts in a file that changes while the service runs; an invalid file changes nothing."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app import environment_file
from app.environment_file import EnvironmentFile
from app.observability.metrics import Metrics
from app.observability.tracing import Tracing
from app.running.endpoint_caller import EndpointCaller
from app.settings import Settings
from models import InvalidRequest
from models.endpoint import ENDPOINT
from tests.app.running.test_endpoint_caller import KEY, SECRET
from tests.support.model_process import running_models


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_file, "ENV_FILE_POLL_INTERVAL_S", 0.0)


def write(path: Path, text: str) -> None:
    """Replace a file, as mounted secrets are replaced."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_changed_file_is_read_again_and_an_invalid_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "keys.env"
    write(path, "# keys\nPARSIMONY_SECRET_A='one'\nexport PARSIMONY_ENDPOINT_HOSTS=a.example, b.example:80\n")
    file = EnvironmentFile(path)
    assert (file.values["PARSIMONY_SECRET_A"], file.hosts) == ("one", ("a.example", "b.example:80"))
    assert not file.refresh_values()
    write(path, "PARSIMONY_SECRET_A=two$HOME\n")
    assert file.refresh_values()
    assert (file.values, file.hosts) == ({"PARSIMONY_SECRET_A": "two$HOME"}, ())
    for wrong in ("PATH=/bin", "PARSIMONY_SECRET_A", "PARSIMONY_ENDPOINT_HOSTS=http://a.example"):
        write(path, wrong)
        assert not file.refresh_values()
        assert file.values == {"PARSIMONY_SECRET_A": "two$HOME"}
        with pytest.raises(ValidationError):
            Settings(endpoint_env_file=path)
    path.unlink()
    assert not file.refresh_values()
    write(path, "PARSIMONY_SECRET_A=three")
    assert file.refresh_values()
    assert file.values == {"PARSIMONY_SECRET_A": "three"}


def test_a_caller_uses_new_keys_and_hosts_and_no_removed_host(tmp_path: Path) -> None:
    path, image = tmp_path / "keys.env", [0.0] * 64
    write(path, "")

    async def work(url: str, endpoint: Any) -> list[str | None]:
        caller = EndpointCaller.from_settings(Settings(endpoint_env_file=path), Metrics(), Tracing())
        caller.update_endpoints({"few-pixels": ENDPOINT.validate_python(endpoint)})
        errors = []
        try:
            for text in (
                "",
                f"PARSIMONY_SECRET_TEST={KEY}",
                f"PARSIMONY_SECRET_TEST={KEY}\n{hosts}",
                f"PARSIMONY_SECRET_TEST={KEY}",
            ):
                write(path, text)
                caller.reset_circuit("few-pixels")
                errors.append((await caller.call_endpoint("few-pixels", image, 20.0)).error)
                is_known = caller.secret_known(ENDPOINT.validate_python(endpoint))
                assert is_known is bool(text)
            with pytest.raises(InvalidRequest):
                caller.require_callable_endpoint(ENDPOINT.validate_python(endpoint))
            write(path, hosts)
            caller.require_callable_endpoint(ENDPOINT.validate_python(endpoint))
        finally:
            await caller.close()
        return errors

    hosts = "PARSIMONY_ENDPOINT_HOSTS=127.0.0.1"
    with running_models() as models:
        unset, elsewhere, good, removed = asyncio.run(work(models.url, models.json_endpoint("few-pixels", **SECRET)))
    assert "is not set" in str(unset)
    assert "PARSIMONY_ENDPOINT_HOSTS" in str(elsewhere)
    assert good is None
    assert removed == elsewhere
