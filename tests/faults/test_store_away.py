"""Whatever happens to the store: look-ups go on, writes are refused whole and soon, and everything comes back."""

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.routes.artifacts import MEDIA_TYPE
from tests.support.patience import patient
from tests.support.raw_endpoint import running_endpoint
from tests.support.samples import trace_upload
from tests.support.servers import Server, free_port, running_server, start_server, wait_for
from tests.support.services import look_ups, problems, running_worker, upload_and_build, writes
from tests.support.stores import Proxy, StoreProcess

NOTICED_S = patient(15.0)
"""How long a fault may take to show in readiness; some seconds, generously."""
SLOW_S = 0.2


@dataclass(frozen=True)
class Service:
    """A server and a worker, and the store that they reach through a proxy."""

    server: Server
    store: StoreProcess
    proxy: Proxy


@pytest.fixture(scope="module")
def service(doomed: StoreProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder, proxy = tmp_path_factory.mktemp("service"), Proxy(doomed.port)
    with (
        running_server(folder / "server", redis_url=proxy.url, endpoint_hosts="127.0.0.1") as server,
        running_worker(folder / "worker", proxy.url),
    ):
        upload_and_build(server, "trace")
        wait_for(lambda: server.client.get("/v1/cascades/trace/decision").status_code == 200, 5)
        yield Service(server, doomed, proxy)
    proxy.close()


@pytest.mark.parametrize(
    ("setting", "harmful", "usual"), [("maxmemory-policy", "allkeys-lru", "noeviction"), ("appendonly", "no", "yes")]
)
def test_a_store_that_forgets_is_a_problem_while_it_does(
    service: Service, setting: str, harmful: str, usual: str
) -> None:
    wait_for(lambda: not problems(service.server), 30, lambda: problems(service.server))
    service.store.client.config_set(setting, harmful)
    try:
        wait_for(lambda: setting in problems(service.server), 5, lambda: problems(service.server))
    finally:
        service.store.client.config_set(setting, usual)
    wait_for(lambda: not problems(service.server), 5, lambda: problems(service.server))


Harm = Callable[[StoreProcess], object]
HARMS: dict[str, tuple[Harm, Harm, str]] = {
    "killed": (StoreProcess.kill, StoreProcess.start, "store unavailable: "),
    "full": (
        lambda store: store.client.config_set("maxmemory", "1mb"),
        lambda store: store.client.config_set("maxmemory", "0"),
        "'maxmemory'",
    ),
    "follower": (  # of a store that is not there: read-only, with its data
        lambda store: store.client.replicaof("127.0.0.1", free_port()),
        lambda store: store.client.replicaof("NO", "ONE"),
        "read only replica",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_without_the_store_look_ups_go_on_writes_are_refused_and_all_resumes(service: Service, name: str) -> None:
    harm, heal, reason = HARMS[name]
    server, store = service.server, service.store
    _, before = look_ups(server, 1)
    harm(store)
    try:
        wait_for(lambda: reason in problems(server), NOTICED_S, lambda: problems(server))
        refused = [(reply.status_code, reply.headers.get("retry-after"), reply.text) for reply, _ in writes(server)]
        assert {refusal[:2] for refusal in refused} == {(503, "5")}, refused
        ready = server.client.get("/health/ready").json()
        assert (ready["store"] == "unreachable") == (name == "killed")
        assert look_ups(server)[1] == before
        assert "parsimony_store_up" in server.client.get("/metrics", timeout=patient(2.0)).text
        assert problems(server)
    finally:
        heal(store)
    wait_for(lambda: not problems(server), 30, lambda: problems(server))
    names = [info["name"] for info in server.client.get("/v1/datasets").json()["items"]]
    assert "late" not in names
    assert "trace" in names
    assert server.client.get("/v1/artifacts/cascade/late").status_code == 404
    upload_and_build(server, name)
    assert look_ups(server)[1] == before


def test_who_asks_a_store_that_hangs_is_refused_in_seconds_and_once_it_is_known_at_once(service: Service) -> None:
    server, store = service.server, service.store
    _, before = look_ups(server, 1)
    first: list[tuple[int, float]] = []

    def upload() -> None:
        reply = httpx.put(f"{server.url}/v1/datasets/late", files=trace_upload(), timeout=patient(40), trust_env=False)
        first.append((reply.status_code, reply.elapsed.total_seconds()))

    store.signal(signal.SIGSTOP)
    try:
        uploading = threading.Thread(target=upload)
        uploading.start()
        assert look_ups(server)[1] == before
        assert not first, "the look-ups waited for the store"
        wait_for(lambda: "store unavailable: Timeout" in problems(server), NOTICED_S)
        later = [(reply.status_code, seconds, reply.text) for reply, seconds in writes(server)]
        assert all(status == 503 and seconds < 2 for status, seconds, _ in later), later
        assert look_ups(server)[1] == before
        assert "parsimony_store_up 0.0" in server.client.get("/metrics", timeout=patient(2.0)).text
        uploading.join()
    finally:
        store.signal(signal.SIGCONT)
    ((status, seconds),) = first
    assert status == 503
    assert seconds < 16, "a reply is waited for ten seconds, and not twice"
    wait_for(lambda: not problems(server), 30)
    upload_and_build(server, "after-the-hang")


def test_a_slow_store_slows_no_look_up_and_breaks_nothing(service: Service) -> None:
    server, proxy = service.server, service.proxy
    _, before = look_ups(server, 1)
    proxy.delay_s = SLOW_S
    try:
        assert [reply.status_code for reply, _ in writes(server)] == [201, 202, 201, 200]
        meanwhile, during = look_ups(server)
        assert during == before
        assert meanwhile < SLOW_S, "the look-ups wait for the store"
        wait_for(lambda: server.client.get("/v1/cascades/late/decision").status_code == 200, 15)
        assert problems(server) == ""
    finally:
        proxy.delay_s = 0.0


def run_through(server: Server) -> list[str]:
    reply = server.client.post("/v1/cascades/trace/runs", json={"item": "x"})
    assert reply.status_code == 200, reply.text
    return [step["label"] for step in reply.json()["steps"] if step["accepted"]]


def test_runs_and_exports_go_on_while_the_store_is_away_or_empty(service: Service) -> None:
    server, store = service.server, service.store
    version = server.client.get("/v1/artifacts/cascade/trace").json()["version"]
    path = f"/v1/artifacts/cascade/trace/versions/{version}/export"
    exported = server.client.get(path).content
    answer = b'{"label": "cat", "confidence": 1.0}'
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer
    with running_endpoint(lambda head: [reply]) as url:
        for name in ("fast", "middle", "strong"):
            endpoint = {"protocol": "json", "url": url, "label": "/label", "confidence": "/confidence"}
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        for harm in (store.kill, store.lose):
            harm()
            if harm == store.lose:
                store.start()
                wait_for(lambda: "the store is empty" in problems(server), NOTICED_S, lambda: problems(server))
            else:
                wait_for(lambda: "store unavailable" in problems(server), NOTICED_S, lambda: problems(server))
            assert run_through(server) == ["cat"]
            assert server.client.get(path).content == exported
            assert server.client.get(path.replace("trace", "other")).status_code in (404, 503)
    again = server.client.post("/v1/artifacts/import", content=exported, headers={"content-type": MEDIA_TYPE})
    assert (again.status_code, again.json()["version"]) == (201, version + 1)
    wait_for(lambda: "cascade 'trace'" not in problems(server), 5, lambda: problems(server))


def test_a_store_that_comes_back_empty_wipes_no_plan_and_is_told_of_and_filled_again(service: Service) -> None:
    server, store = service.server, service.store
    _, before = look_ups(server, 1)
    version = server.client.get("/v1/artifacts/cascade/trace").json()["version"]
    store.kill()
    store.lose()
    store.start()
    wait_for(lambda: "cascade 'trace': is in memory only" in problems(server), NOTICED_S, lambda: problems(server))
    assert server.client.get("/v1/datasets").json()["items"] == []
    assert look_ups(server, 1)[1] == before
    wait_for(lambda: store.client.scard("rq:workers"), 30, "the worker makes itself known no more")
    upload_and_build(server, "trace")
    wait_for(lambda: "cascade 'trace'" not in problems(server), 5, lambda: problems(server))
    assert server.client.get("/v1/artifacts/cascade/trace").json()["version"] == version + 1
    assert len(look_ups(server, 1)[1] | before) == 2  # the same plan, another version


def test_a_server_that_begins_without_its_store_claims_no_memory_and_is_ready_once_it_can(
    fresh: StoreProcess, proxy: Proxy, tmp_path: Path
) -> None:
    fresh.kill()
    server = start_server(tmp_path / "server", port=None, redis_url=proxy.url)
    try:
        wait_for(lambda: is_listening(server), 60)
        wait_for(lambda: "store unavailable" in server.client.get("/health/ready").text, NOTICED_S)
        ready = server.client.get("/health/ready")
        assert ready.status_code == 503
        assert "no artifact can be loaded until then" in ready.text
        assert "from memory" not in ready.text
        refused = server.client.get("/v1/cascades/trace/decision")
        assert refused.status_code == 503
        assert "artifacts are not loaded yet: store unavailable" in refused.json()["detail"]
        fresh.start()
        server.wait_until_ready()
    finally:
        server.stop()


def is_listening(server: Server) -> bool:
    try:
        return server.client.get("/health/live").status_code == 200
    except httpx.TransportError:
        return False
