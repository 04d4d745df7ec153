"""Blocks of the runbook, run word for word on the house of these tests."""

import os
import re
import subprocess
from pathlib import Path

from tests.containers.house import House
from tests.deploy.documents import ROOT
from tests.support.patience import patient

COMPOSE = """
docker() {
    [ "$1" = compose ] || { command docker "$@"; return; }
    shift
    for setting in $(grep -s '^PARSIMONY_' .env); do export "$setting"; done
    waits=no
    for word in "$@"; do
        shift
        if [ "$word" = --wait ]; then waits=yes; else set -- "$@" "$word"; fi
    done
    files="--file $ROOT/docker-compose.yml"
    ! grep -qs '^COMPOSE_FILE=.*sentinel' .env || files="$files --file $ROOT/deploy/docker-compose.sentinel.yml"
    $WORDS $files "$@"
    [ "$waits" = no ] || wait_until_ready
}
wait_until_ready() {
    ours="label=com.docker.compose.project=$PROJECT"
    until [ -z "$(command docker ps --quiet --filter "$ours" --filter health=starting)" ] &&
        curl --silent --fail --output "$SCRATCH" http://127.0.0.1:8000/health/ready; do sleep 1; done
}
set -e
"""
"""``docker compose`` as a block means it: this house, by the files that .env names, also where it has no ``--wait``."""


def run_block(house: House, folder: Path, block: str, **variables: str) -> str:
    """Run a block as if the folder were that of the compose file, and give what it prints; it must succeed.

    ``variables`` are those that the runbook takes for set, ``KEY`` for instance.
    """
    compose_words = re.sub(r"--(profile|file) \S+", "", " ".join(house.words))
    settings = f"ROOT='{ROOT}' WORDS='{compose_words}' PROJECT='{house.project}' SCRATCH='{folder / 'ready'}'"
    done = subprocess.run(
        ["bash", "-c", settings + COMPOSE + block],
        cwd=folder,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patient(180),
        check=False,
    )
    assert done.returncode == 0, (block, done.stdout, done.stderr)
    return done.stdout
