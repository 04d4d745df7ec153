"""Several servers behind the proxy of the compose file answer as one; they come and go while they are asked."""

import re

import httpx
import pytest

from tests.containers.house import PORT, House
from tests.containers.load import PROBLEM, unshaken
from tests.support.patience import patient
from tests.support.servers import wait_for
from tests.support.services import LOOK_UP, look_ups, upload_and_build

SERVERS = ("server", "more-servers")
ANSWERED = re.compile(r'parsimony_requests_total\{.*cascades/\{name\}/decision",status="200"\} (\S+)')


def of_each(house: House, path: str) -> dict[str, httpx.Response]:
    containers = [container for name in SERVERS for container in house.containers(name)]
    urls = {container: f"http://{house.address(container)}:{PORT}{path}" for container in containers}
    return {container: httpx.get(url, timeout=patient(5), trust_env=False) for container, url in urls.items()}


def answered(house: House) -> dict[str, float]:
    return {
        container: sum(map(float, ANSWERED.findall(reply.text)))
        for container, reply in of_each(house, "/metrics").items()
    }


def all_listen(house: House) -> bool:
    try:
        return bool(of_each(house, "/health/live"))
    except httpx.TransportError:
        return False


def all_answer(proxied: House, servers: int) -> None:
    """Look up through the proxy until each of so many servers has answered more than before."""
    wait_for(lambda: len(proxied.containers("more-servers")) == servers - 1, 20)
    wait_for(lambda: all_listen(proxied), 40, "a server does not listen")
    before = answered(proxied)

    def more() -> bool:
        look_ups(proxied, 4 * servers)
        return all(count > before[container] for container, count in answered(proxied).items())

    wait_for(more, 20, lambda: f"{before}, then {answered(proxied)}")


def test_look_ups_through_the_proxy_are_answered_by_both_servers_and_alike(proxied: House) -> None:
    all_answer(proxied, 2)
    _, (reply,) = look_ups(proxied)
    assert {each.content for each in of_each(proxied, LOOK_UP).values()} == {reply}
    assert proxied.client.post("/v1/cascades/solve", json=PROBLEM).status_code == 200


def test_what_is_published_through_the_proxy_reaches_every_server(proxied: House) -> None:
    upload_and_build(proxied, "for-all")
    path = "/v1/cascades/for-all/decision"
    wait_for(lambda: {reply.status_code for reply in of_each(proxied, path).values()} == {200}, 5)
    assert len({reply.content for reply in of_each(proxied, path).values()}) == 1
    assert proxied.client.delete("/v1/artifacts/cascade/for-all").status_code == 204
    wait_for(lambda: {reply.status_code for reply in of_each(proxied, path).values()} == {404}, 5)


def test_the_numbers_of_one_server_by_chance_are_not_shown(proxied: House) -> None:
    reply = proxied.client.get("/metrics")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert set(reply.json()) == {"type", "title", "status", "detail", "instance"}


def test_monitoring_collects_from_each_server(proxied: House, services: dict[str, object]) -> None:
    if "prometheus" not in services:
        pytest.skip("Prometheus is left out: its image cannot be had")
    question = {"query": 'up{job="parsimony"}'}
    with httpx.Client(base_url="http://127.0.0.1:9090/api/v1", timeout=patient(5), trust_env=False) as prometheus:

        def up() -> list[tuple[str, str]]:
            series = prometheus.get("/query", params=question).json()["data"]["result"]
            return sorted((one["metric"]["instance"], one["value"][1]) for one in series)

        hosts = ["server", *map(proxied.address, proxied.containers("more-servers"))]
        wanted = sorted((f"{host}:{PORT}", "1") for host in hosts)
        wait_for(lambda: up() == wanted, 60, up)


def test_servers_that_come_are_asked_and_servers_that_go_are_not_missed(proxied: House) -> None:
    with unshaken(proxied, callers=2):
        proxied.compose("up", "--detach", "--no-recreate", "more-servers", MORE_SERVERS="3")
        all_answer(proxied, 4)
        proxied.compose("up", "--detach", "--no-recreate", "more-servers", MORE_SERVERS="1")
        all_answer(proxied, 2)
