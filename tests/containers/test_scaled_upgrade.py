"""From the image before to this one and back, one server after the other: callers behind the proxy notice nothing."""

import subprocess

import pytest

from tests.containers.house import House, docker
from tests.containers.load import decision, unshaken
from tests.deploy.documents import shell_lines
from tests.support.servers import wait_for
from tests.support.services import upload_and_build

SERVERS = ("more-servers", "server")
BEFORE, THIS = "parsimony-compose-test:before", "parsimony-compose-test:this"


def image(name: str) -> str:
    """Give the image that a name stands for."""
    return docker("image", "inspect", "--format", "{{.Id}}", name)


def replace_servers(house: House, tag: str) -> None:
    """Let ``parsimony`` stand for another image, and replace the servers one after the other, as the runbook says."""
    docker("image", "tag", tag, "parsimony")
    for service in SERVERS:
        house.compose("up", "--detach", "--no-deps", service)
        wait_for(lambda service=service: house.is_well(service), 60)
        assert house.inspect(service)["Image"] == image(tag)


def test_an_upgrade_and_the_way_back_are_noticed_by_nobody(proxied: House) -> None:
    if subprocess.run(["docker", "image", "inspect", BEFORE], capture_output=True).returncode != 0:
        pytest.skip("there is no commit before this one here")
    assert image(BEFORE) != image("parsimony"), "nothing is replaced by another image"
    for service in SERVERS:
        (told,) = [line for line in shell_lines() if line.endswith(f"--no-deps --wait {service}")]
        assert " --profile proxy up --detach " in told, "the runbook says something else"
    docker("image", "tag", "parsimony", THIS)
    try:
        with unshaken(proxied, callers=2, told=decision, posting=True):
            replace_servers(proxied, BEFORE)
            upload_and_build(proxied, "with-the-one-before")
            replace_servers(proxied, THIS)
            upload_and_build(proxied, "with-this-one")
        assert proxied.client.get("/v1/cascades/with-the-one-before/decision").status_code == 200
    finally:
        docker("image", "tag", THIS, "parsimony")
        proxied.compose("up", "--detach", "--no-deps", *SERVERS)
        docker("image", "rm", THIS)
