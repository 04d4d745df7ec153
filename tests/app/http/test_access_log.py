"""The log of requests tells who asked, by a part of the key's digest, and which version answered."""

import io
import json

import pytest

from app.http.access_log import AccessLog
from models import ArtifactRef

SCOPE = {
    "method": "GET",
    "raw_path": b"/v1/cascades/x/decision",
    "state": {"request_id": "r1", "key": "0a1b2c3d", "artifact": ArtifactRef(kind="cascade", name="x", version=3)},
}


def line(style: str, **state: object) -> str:
    out = io.StringIO()
    log = AccessLog(out, style)
    log.log_request({**SCOPE, "state": {**SCOPE["state"], **state}}, 200, 0.0005)  # type: ignore[dict-item]
    log.write_pending()
    return out.getvalue()


def test_a_json_line_has_request_key_and_version() -> None:
    """Each under a name of its own."""
    entry = json.loads(line("json"))
    assert (entry["request_id"], entry["key"], entry["artifact"]) == ("r1", "0a1b2c3d", "cascade/x/3")
    assert (entry["status"], entry["ms"], entry["level"]) == (200, 0.5, "info")


def test_a_text_line_has_them_at_its_end() -> None:
    """After the request's id."""
    assert line("text").endswith("GET /v1/cascades/x/decision 200 0.500 ms r1 cascade/x/3 key:0a1b2c3d\n")


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_is_not_known_is_left_out(style: str) -> None:
    """Without keys, or where no artifact answered."""
    logged = line(style, key=None, artifact=None)
    assert "key" not in logged
    assert "cascade/x/3" not in logged
