"""From the image before to this one and back, one server after the other: callers behind the proxy notice nothing."""

import subprocess
from pathlib import Path

import pytest

from tests.containers.house import House, docker
from tests.containers.load import decision, unshaken
from tests.containers.runbook import run_block
from tests.deploy.documents import shell_blocks
from tests.support.servers import wait_for
from tests.support.services import upload_and_build

SERVERS = ("more-servers", "server")
BEFORE, THIS = "parsimony-compose-test:before", "parsimony-compose-test:this"


def image(name: str) -> str:
    return docker("image", "inspect", "--format", "{{.Id}}", name)


def replace_servers(house: House, tag: str, folder: Path) -> None:
    """Let ``parsimony`` stand for another image, and replace servers and worker by the runbook's own lines."""
    docker("image", "tag", tag, "parsimony")
    block = next(block for block in shell_blocks("Upgrade") if "--profile proxy" in block)
    build, *replace, worker = block.splitlines(keepends=True)
    assert (build.split()[2], worker.split()[-1], len(replace)) == ("build", "worker", len(SERVERS))
    for line, service in zip(replace, SERVERS, strict=True):
        run_block(house, folder, line)
        wait_for(lambda service=service: house.is_well(service), 60)
        assert house.inspect(service)["Image"] == image(tag)
    run_block(house, folder, worker)
    assert house.inspect("worker")["Image"] == image(tag)


def test_an_upgrade_and_the_way_back_are_noticed_by_nobody(proxied: House, tmp_path: Path) -> None:
    if subprocess.run(["docker", "image", "inspect", BEFORE], capture_output=True).returncode != 0:
        pytest.skip("there is no commit before this one here")
    assert image(BEFORE) != image("parsimony"), "nothing is replaced by another image"
    docker("image", "tag", "parsimony", THIS)
    try:
        replace_servers(proxied, BEFORE, tmp_path)
        upload_and_build(proxied, "with-the-one-before")  # the one before may not read artifacts of this one
        look_up = "/v1/cascades/with-the-one-before/decision"
        with unshaken(proxied, callers=2, read=decision, posting=True, look_up=look_up):
            replace_servers(proxied, THIS, tmp_path)
            upload_and_build(proxied, "with-this-one")
            replace_servers(proxied, BEFORE, tmp_path)
            replace_servers(proxied, THIS, tmp_path)
        assert proxied.client.get("/v1/cascades/with-this-one/decision").status_code == 200
    finally:
        docker("image", "tag", THIS, "parsimony")
        proxied.compose("up", "--detach", "--no-deps", *SERVERS, "worker")
        docker("image", "rm", THIS)
