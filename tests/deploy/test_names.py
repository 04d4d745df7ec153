"""Every setting, command and metric that a deployment names is one that the service has."""

from pathlib import Path

import pytest

from tests.deploy.documents import image_environment, services


def _settings() -> set[str]:
    from app.settings import Settings

    return {f"PARSIMONY_{name.upper()}" for name in Settings.model_fields}


def test_the_composed_service_can_be_given_every_setting() -> None:
    given = {name for service in ("server", "worker") for name in services()[service]["environment"]}
    of_commands = {"PARSIMONY_URL", "PARSIMONY_KEY"}
    assert given | set(image_environment()) >= _settings() - of_commands


def test_the_composed_values_are_valid_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.settings import Settings

    values = {**image_environment(), **services()["server"]["environment"], **services()["worker"]["environment"]}
    for name, value in values.items():
        if name.startswith("PARSIMONY_") and value is not None:
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert (settings.host, settings.port, settings.data_dir) == ("0.0.0.0", 8000, Path("/data"))
    assert settings.redis_url == "redis://redis:6379/0"
