"""The log of a real server: request id, key and version of each look-up, on both of its ways."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import upload
from tests.support.servers import Server, running_server, wait_for

pytestmark = pytest.mark.smoke


def entries(server: Server) -> list[dict[str, object]]:
    lines = server.log.read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return [entry for entry in logged if entry["logger"] == "parsimony.access"]


def test_every_look_up_is_logged_with_its_key_and_the_version_that_answered(tmp_path: Path) -> None:
    """By the hot path and by the route; the key itself stands nowhere."""
    with running_server(tmp_path, api_keys="long-secret:build", log_format="json", max_bacth=5) as server:
        server.client.headers["authorization"] = "Bearer long-secret"
        upload(server)
        wait_for(lambda: server.client.get("/v1/cascades/trace/decision").status_code == 200, 10)
        for name, query in (("hot", "deadline=13"), ("routed", "deadline=13&version=1")):
            reply = server.client.get(f"/v1/cascades/trace/decision?{query}", headers={"x-request-id": name})
            assert reply.status_code == 200
        wait_for(lambda: "routed" in {entry["request_id"] for entry in entries(server)}, 5)
        logged = {entry["request_id"]: entry for entry in entries(server)}
        for name in ("hot", "routed"):
            assert logged[name]["artifact"] == "cascade/trace/1"
            assert logged[name]["key"] == sha256(b"long-secret").hexdigest()[:8]
        log = server.log.read_text()
        assert "long-secret" not in log
        assert log.count("did you mean PARSIMONY_MAX_BATCH") == 1
