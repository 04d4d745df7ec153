"""A house of containers, as these tests handle it: through the engine's command line, and over HTTP."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

import httpx

from tests.deploy import documents
from tests.support.patience import patient
from tests.support.servers import wait_for

PORT = 8000
PROXIED = 8080
PROJECT = os.environ.get("COMPOSE_PROJECT_NAME", "")
"""What the names of all begin with that is made here: run.sh removes it."""
KILL = "import os, sys; os.kill(int(sys.argv[1]), 9)"


def docker(*arguments: str) -> str:
    """Run one command of the engine, which must succeed, and give what it prints."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=patient(60))
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


class House:
    """The composed house, and the harm that can be done to it."""

    def __init__(self, compose: Sequence[str], project: str, port: int = PORT) -> None:
        self.words, self.project = list(compose), project
        self.port = port
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=patient(10.0), trust_env=False)

    def compose(self, *arguments: str, **settings: str) -> None:
        """Run one command of compose, which must succeed; ``settings`` are added to the environment."""
        command, environment = [*self.words, *arguments], os.environ | settings
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(60))
        assert done.returncode == 0, f"compose {' '.join(arguments)}: {done.stderr}"

    def containers(self, service: str) -> list[str]:
        """Give the containers that compose keeps of a service, whatever their state."""
        labels = [f"project={self.project}", f"service={service}", "oneoff=False"]
        filters = [word for label in labels for word in ("--filter", f"label=com.docker.compose.{label}")]
        return docker("ps", "--all", "--quiet", "--no-trunc", *filters).split()

    def container(self, service: str) -> str:
        (only,) = self.containers(service)
        return only

    def services(self) -> dict[str, dict[str, Any]]:
        """Give what the compose file says of the services that have a container."""
        return {name: service for name, service in documents.services().items() if self.containers(name)}

    def inspect(self, service: str) -> dict[str, Any]:
        """Give all that the engine knows of the one container of a service."""
        (inspected,) = json.loads(docker("inspect", self.container(service)))
        return dict(inspected)

    def address(self, container: str, network: str = "default") -> str:
        (inspected,) = json.loads(docker("inspect", container))
        return str(inspected["NetworkSettings"]["Networks"][f"{self.project}_{network}"]["IPAddress"])

    def run_in(self, service: str, *arguments: str) -> str:
        return docker("exec", self.container(service), *arguments)

    def crash(self, service: str) -> None:
        """Kill the first process of a container from outside, as a lack of memory would.

        ``docker kill`` is another thing: the engine takes it for our wish, and does not start the container again.
        """
        container = self.inspect(service)
        before = container["State"]["Pid"]
        own = ["--rm", "--pid", "host", "--user", "0", "--entrypoint", "python", "parsimony", "-c", KILL, str(before)]
        docker("run", *own)
        wait_for(lambda: self.inspect(service)["State"]["Pid"] != before, 10, f"{service} was not killed")

    def restarts(self, service: str) -> int:
        return int(self.inspect(service)["RestartCount"])

    def is_well(self, service: str) -> bool:
        """Tell whether a service's container runs, and is healthy if it has a health check."""
        state = self.inspect(service)["State"]
        return bool(state["Running"]) and state.get("Health", {"Status": "healthy"})["Status"] == "healthy"

    def is_ready(self) -> bool:
        try:
            return self.client.get("/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def wait_until_ready(self) -> None:
        """Wait for the first load to have finished, and for all that is wrong to have ended."""
        wait_for(self.is_ready, 60, "the server is not ready")
        wait_for(
            lambda: not self.client.get("/health/ready").json()["problems"],
            60,
            lambda: self.client.get("/health/ready").text,
        )
