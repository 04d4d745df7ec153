"""Every setting, command and metric that a deployment names is one that the service has."""

import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from tests.deploy.documents import DEPLOY, ROOT, dashboard, image_environment, services, shell_lines, texts

TEXTS = texts()


def _settings() -> set[str]:
    from app.settings import Settings

    return {f"PARSIMONY_{name.upper()}" for name in Settings.model_fields}


@pytest.mark.parametrize("path", TEXTS)
def test_every_setting_is_one_that_the_service_reads(path: str) -> None:
    assert set(re.findall(r"PARSIMONY_[A-Z][A-Z_]*[A-Z]", TEXTS[path])) <= _settings()


def test_no_variable_is_interpolated_that_could_be_misspelt() -> None:
    # Settings are passed through by name, which the test above checks; these numbers test_compose.py does.
    assert set(re.findall(r"\$\{(\w*)", TEXTS["docker-compose.yml"])) == {
        "BUILD_WORKERS",
        "MORE_SERVERS",
        "DASK_WORKERS",
    }


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


def _commands() -> list[list[str]]:
    """Give the words after ``parsimony`` of every call in the Dockerfile, the compose file and the runbook."""
    roles = [
        service["command"] for service in services().values() if "build" in service and "entrypoint" not in service
    ]
    lines = [line for line in shell_lines() if "docker b" not in line and not line.startswith("kubectl ")]
    calls = [re.search(r"(?:^|\s)parsimony\s+([a-z].*)", line) for line in lines]
    spoken = [re.split(r"\s[|<>&]|;|\)", call[1])[0] for call in calls if call]
    return [["serve"], *roles, *(shlex.split(text, comments=True) for text in spoken)]


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_every_command_is_one_of_the_command_line(arguments: list[str]) -> None:
    from app.cli.main import cli

    command: Any = typer.main.get_command(cli)
    rest = list(arguments)
    while hasattr(command, "commands"):
        name = rest.pop(0) if rest else ""
        assert name in command.commands, f"parsimony {' '.join(arguments)}"
        command = command.commands[name]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= options | {"--help"}


def test_every_metric_is_one_that_the_service_exports() -> None:
    exported = set(re.findall(r"\bparsimony_[a-z_]+", (ROOT / "app" / "observability" / "metrics.py").read_text()))
    queries = " ".join(target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])
    shown = set(re.findall(r"\bparsimony_[a-z_]+", queries))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} <= exported
    explained = set(re.findall(r"`(parsimony_[a-z_]+)", TEXTS["deploy/README.md"]))
    assert explained == exported, "the runbook explains each metric, and no others"


@pytest.mark.parametrize("name", ["dask-scheduler", "dask-worker"])
def test_every_dask_command_is_one_of_dask(name: str) -> None:
    program, subcommand = services()[name]["entrypoint"]
    assert program == "dask"
    (entry,) = entry_points(group="dask_cli", name=subcommand)
    options = {option for parameter in entry.load().params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in services()[name]["command"] if word.startswith("--")} <= options


def test_every_service_named_in_the_runbook_is_in_the_compose_file() -> None:
    pattern = r"docker compose (?:exec|run|stop|up|ps|logs)(?: --?[a-zA-Z]\S*)* ([a-z][a-z0-9-]*)"
    named = {name for line in shell_lines() for name in re.findall(pattern, line)}
    assert named
    added = yaml.safe_load((DEPLOY / "docker-compose.sentinel.yml").read_text())["services"]
    assert named <= {*services(), *added}


@pytest.mark.parametrize(
    "path", sorted({path for text in TEXTS.values() for path in re.findall(r"deploy/[\w./-]*\w", text)})
)
def test_every_file_of_deploy_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()
