"""The files of a deployment, read the way these tests look at them."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
PROVISIONING = DEPLOY / "grafana" / "provisioning"


def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return parsed


def services() -> dict[str, dict[str, Any]]:
    by_name: dict[str, dict[str, Any]] = compose()["services"]
    return by_name


def ours() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in services().items() if "build" in service}


def instructions() -> list[tuple[str, str]]:
    """Split the Dockerfile into (instruction, arguments), comments gone and continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def image_environment() -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, rest in instructions():
        if name == "FROM":
            variables = {}
        elif name == "ENV":
            variables |= dict(word.split("=", 1) for word in shlex.split(rest))
    return variables


def texts() -> dict[str, str]:
    """Give every file that a deployment consists of, by its path in the repository."""
    paths = [COMPOSE, DOCKERFILE, *sorted(path for path in DEPLOY.rglob("*") if path.is_file())]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def shell_blocks(chapter: str = "") -> list[str]:
    """Give the runbook's shell blocks, all of them or those of one chapter."""
    text = (DEPLOY / "README.md").read_text()
    if chapter:
        text = text.split(f"\n## {chapter}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)


def shell_lines() -> list[str]:
    """Give the lines of the runbook's shell blocks, continued lines joined."""
    return [line for block in shell_blocks() for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def dashboard() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((DASHBOARDS / "parsimony.json").read_text())
    return parsed
