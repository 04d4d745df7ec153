"""Bytes in paths, headers and names that mean something elsewhere: in replies, in the log, in files, in the store."""

import json

import pytest

from tests.support.samples import trace_upload
from tests.support.servers import Server, wait_for
from tests.support.wire import ask

LINES = ["%0d%0aX-Injected:%201", "%0aX-Injected:%201", "%0d%0a%0d%0a<script>", "%e2%80%a8", "%00", "%1b[2J"]
NAMES = """.. ../x %2e%2e%2fx ..%2f..%2fetc%2fpasswd %2fetc%2fpasswd x%2fy x%5cy x%00y x%0a x:y * X .x -x _x %C3%A9 %20
    x%20"""


@pytest.mark.parametrize("text", LINES)
def test_no_path_or_query_begins_a_line_of_a_reply_or_of_the_log(server: Server, text: str) -> None:
    for target in (f"/v1/datasets/{text}", f"/{text}", f"/v1/cascades/trace/decision?deadline={text}"):
        reply = ask(server.port, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = reply.partition(b"\r\n\r\n")
        assert head.split(b" ")[1] in (b"404", b"422"), reply
        assert b"injected" not in head.lower()
        assert json.loads(body)["instance"]
    server.client.get("/health/live", headers={"x-request-id": "after"})
    wait_for(lambda: "after" in server.log.read_text(), 5)
    log = server.log.read_bytes()
    assert b"\nX-Injected" not in log
    assert b"\x1b[2J" not in log
    assert b"\xe2\x80\xa8" not in log


@pytest.mark.parametrize("value", [b"a\r b", b"a\nX-Injected: 1", b"a\x00b", b"\xff", b"a" * 129, b"a b", b""])
def test_a_request_id_that_is_no_plain_word_is_not_repeated(server: Server, value: bytes) -> None:
    reply = ask(server.port, b"GET /health/live HTTP/1.1\r\nConnection: close\r\nX-Request-ID: " + value + b"\r\n\r\n")
    if reply.startswith(b"HTTP/1.1 200 "):
        identity = next(line for line in reply.split(b"\r\n") if line.startswith(b"x-request-id: "))
        assert identity != b"x-request-id: " + value
        assert b"\r\nX-Injected" not in reply
    else:
        assert reply.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: 2, 2\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Host: x\r\n folded: y\r\n",
        b"No colon\r\n",
    ],
)
def test_a_body_whose_end_can_be_read_in_two_ways_is_refused(server: Server, framing: bytes) -> None:
    """Else a proxy and this server could disagree where the next request begins."""
    smuggled = b"0\r\n\r\nGET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v1/cascades/solve HTTP/1.1\r\nContent-Type: application/json\r\n"
    reply = ask(server.port, head + framing + b"\r\n" + smuggled)
    assert reply.startswith(b"HTTP/1.1 400 "), reply
    assert reply.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("line", [b"CONNECT x:80", b"GET *", b"OPTIONS *", b"GET http://[", b"PRI *", b"GET /\xff"])
def test_an_odd_request_line_is_refused(server: Server, line: bytes) -> None:
    reply = ask(server.port, line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert reply.split(b" ")[1] in (b"400", b"404", b"405"), reply


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c", b"TLS/1.0"])
def test_no_other_protocol_is_spoken(server: Server, upgrade: bytes) -> None:
    head = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: " + upgrade
    reply = ask(server.port, head + b"\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", [*NAMES.split(), "x" * 64])
def test_a_name_is_of_its_letters_only_wherever_it_stands(server: Server, name: str) -> None:
    paths = [
        ("PUT", f"/v1/datasets/{name}"),
        ("GET", f"/v1/artifacts/cascade/{name}"),
        ("GET", f"/v1/artifacts/cascade/{name}/versions/1/export"),
        ("GET", f"/v1/cascades/{name}/decision"),
        ("GET", f"/v1/pipelines/{name}/curve"),
        ("GET", f"/static-docs/{name}"),
    ]
    before = server.client.get("/v1/datasets").json()["items"]
    for method, path in paths:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        reply = ask(server.port, head.encode())
        assert reply.split(b" ")[1] in (b"404", b"405", b"415", b"422"), (path, reply)
        assert b"root:" not in reply
    assert server.client.get("/v1/datasets").json()["items"] == before


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "x\r\ny", 'x"; filename="y', "\x00"])
def test_a_files_own_name_is_of_no_meaning(server: Server, name: str) -> None:
    files = trace_upload()
    files["table"] = (name, files["table"][1], "text/csv")
    try:
        reply = server.client.put("/v1/datasets/named", files=files)
        assert reply.status_code in (200, 201)
        assert "passwd" not in reply.text
    finally:
        server.client.delete("/v1/datasets/named")
