"""Bytes in the store that are not what they were: refused with the reason; the version in service stays."""

import hashlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import redis

from app.store.embedded_files import socket_path
from tests.app.store.test_codec import canonical, opened, sealed
from tests.support.kinds import SAMPLES, build_all, upload_all
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import OCTETS


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("kinds")) as server:
        upload_all(server)
        build_all(server)
        yield server


@pytest.fixture(scope="module")
def store(kinds: Server) -> Iterator["redis.Redis"]:
    with redis.Redis(unix_socket_path=str(socket_path((kinds.data_dir / "redis").resolve()))) as store:
        yield store


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def with_array(content: bytes, compression: int = zipfile.ZIP_STORED) -> Callable[[bytes], bytes]:

    def forge(data: bytes) -> bytes:
        entries = opened(data)
        return sealed(entries | {next(name for name in entries if name.endswith(".npy")): content}, compression)

    return forge


def with_manifest(**changes: object) -> Callable[[bytes], bytes]:
    def forge(data: bytes) -> bytes:
        entries = opened(data)
        return sealed(entries | {"manifest.json": canonical(json.loads(entries["manifest.json"]) | changes)})

    return forge


np.save(OBJECTS := io.BytesIO(), np.array([Trap()]), allow_pickle=True)
FORGERIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "flipped": (lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:], "archive"),
    "cut": (cut, "not a valid artifact archive"),
    "newer": (with_manifest(format=2), "must be 1, got 2"),
    "pickled": (with_array(pickle.dumps(Trap())), "header"),
    "objects": (with_array(OBJECTS.getvalue()), "object"),
    "bomb": (with_array(bytes(50_000_000), zipfile.ZIP_DEFLATED), "compressed"),
    "another kind": (with_manifest(type="Sample"), "the type must be"),
}


def publish_by_hand(store: "redis.Redis", kind: str, data: bytes) -> None:
    """Write version 2 as a newer service, or a forger, might: everything is right but the bytes."""
    digest = hashlib.sha256(data).hexdigest()
    record = json.loads(store.get(f"parsimony:version:{kind}:plan:1"))  # type: ignore[arg-type]
    store.set(f"parsimony:blob:{digest}", data)
    store.set(f"parsimony:version:{kind}:plan:2", json.dumps(record | {"version": 2, "sha256": digest}))
    store.hset("parsimony:active", f"{kind}/plan", f"2 {digest}")


def roll_back(store: "redis.Redis", kind: str) -> None:
    record = json.loads(store.get(f"parsimony:version:{kind}:plan:1"))  # type: ignore[arg-type]
    store.delete(f"parsimony:version:{kind}:plan:2")
    store.hset("parsimony:active", f"{kind}/plan", f"1 {record['sha256']}")
    store.publish("parsimony:announcements", "")


def reasons(server: Server) -> dict[str, str]:
    return {text.partition(" ")[0]: text for text in server.client.get("/health/ready").json()["problems"]}


def answers(server: Server) -> Any:
    asked: dict[str, Any] = {"name": "plan", "size": 64, "budget": 4, "deadline": 13}
    return server.client.get("/v1/decisions", params=asked).json()


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_bytes_of_any_subject_are_refused_and_the_version_in_service_stays(
    kinds: Server, store: "redis.Redis", name: str
) -> None:
    (forge, reason), before = FORGERIES[name], answers(kinds)
    for kind in SAMPLES:
        good = kinds.client.get(f"/v1/artifacts/{kind}/plan/versions/1/export").content
        forged = forge(good)
        reply = kinds.client.post("/v1/artifacts/import", content=forged, headers=OCTETS)
        assert reply.status_code == 422
        assert reason in reply.json()["detail"]
        publish_by_hand(store, kind, forged)
    store.publish("parsimony:announcements", "")
    wait_for(lambda: reasons(kinds).keys() == SAMPLES.keys(), 10, lambda: reasons(kinds))
    assert all(reason in text for text in reasons(kinds).values()), reasons(kinds)
    assert answers(kinds) == before
    assert kinds.client.get("/v1/indexes/plan/skyline?size=64&version=2").status_code == 422
    for kind in SAMPLES:
        roll_back(store, kind)
    wait_for(lambda: not reasons(kinds), 10, lambda: reasons(kinds))
    assert answers(kinds) == before


def test_bytes_that_changed_in_the_store_are_refused_and_a_restart_says_so(kinds: Server, store: "redis.Redis") -> None:
    name = store.hget("parsimony:active", "cascade/plan").decode().split()[1]  # type: ignore[union-attr]
    good = store.get(f"parsimony:blob:{name}")
    assert isinstance(good, bytes)
    store.set(f"parsimony:blob:{name}", cut(good))
    try:
        assert kinds.client.get("/v1/artifacts/cascade/plan/versions/1/export").content == good  # kept in memory
        assert kinds.client.get("/v1/cascades/plan/decision").status_code == 200
        with running_server(kinds.data_dir) as second:
            assert "do not match their SHA-256" in reasons(second)["cascade"]
            assert second.client.get("/v1/cascades/plan/decision").status_code == 404
            assert second.client.get("/v1/pipelines/plan/decision").status_code == 200
    finally:
        store.set(f"parsimony:blob:{name}", good)
