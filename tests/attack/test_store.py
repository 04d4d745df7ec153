"""What somebody who can write to the store can make of it, and what not."""

from pathlib import Path
from typing import Any

import redis
from rq import Callback, Queue
from rq.serializers import JSONSerializer

from app.store.client import make_store_key
from app.store.embedded_files import socket_path
from app.store.job_queue import QUEUE_NAME
from tests.conftest import upload
from tests.support.servers import Server, wait_for


def connected(server: Server) -> redis.Redis:
    return redis.Redis.from_url(f"unix://{socket_path(server.data_dir.resolve() / 'redis')}")


def test_a_job_that_somebody_put_into_the_queue_runs_no_code(server: Server, tmp_path: Path) -> None:
    client = connected(server)
    queue = Queue(QUEUE_NAME, connection=client, serializer=JSONSerializer)
    marks = [tmp_path / name for name in ("call", "good", "bad")]
    job = queue.enqueue_call("os.system", (f"touch {marks[0]}",), result_ttl=60, failure_ttl=60)
    touch = Callback("pathlib.Path.touch")
    kept: Any = {"result_ttl": 60, "failure_ttl": 60}
    queue.enqueue_call("builtins.open", (str(marks[1]), "w"), on_success=touch, **kept)
    queue.enqueue_call("builtins.int", (str(marks[2]),), on_failure=touch, **kept)
    wait_for(lambda: job.get_status() not in ("queued", "started", "deferred"), 30)
    wait_for(lambda: len(queue) == 0, 30)
    upload(server, "after")  # the worker takes them one by one, and goes on
    assert not [mark for mark in marks if mark.exists()]
    client.close()


def test_bytes_that_were_changed_in_the_store_are_not_served(server: Server) -> None:
    client = connected(server)
    before = server.client.get("/v1/cascades/trace/decision").content
    export = "/v1/artifacts/cascade/trace/versions/1/export"
    exported = server.client.get(export).content
    names = list(client.scan_iter(make_store_key("blob", "*")))
    assert names
    kept = {name: client.get(name) for name in names}
    try:
        for name, data in kept.items():
            assert isinstance(data, bytes)
            client.set(name, data[:-1] + bytes([data[-1] ^ 1]))
        assert server.client.get(export).content == exported  # from memory
        assert server.client.get("/v1/cascades/trace/decision").content == before
    finally:
        for name, data in kept.items():
            client.set(name, data if isinstance(data, bytes) else b"")
        client.close()
