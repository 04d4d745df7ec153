import socket

from starlette.types import Receive, Scope, Send

from tests.support.wire import rest, serving

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNK = 100_000


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in two messages, at /parts in a body of many parts, and at /close end the connection."""
    many = scope["path"] == "/parts"
    body = bytes(CHUNK) if many else b"whole"
    headers = [(b"content-length", b"%d" % (len(body) * (20 if many else 1)))]
    if scope["path"] == "/close":
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for part in range(20 if many else 1):
        await send({"type": "http.response.body", "body": body, "more_body": many and part < 19})


def test_the_head_and_the_body_of_a_reply_arrive_together() -> None:
    with serving(answer) as port, socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        for _ in range(300):
            raw.sendall(GET % b"/")
            assert raw.recv(65536).endswith(b"\r\n\r\nwhole")


def test_what_is_long_arrives_whole_and_in_order() -> None:
    with serving(answer) as port, socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(GET % b"/parts")
        raw.sendall(GET % b"/close")
        head, _, rest_of_replies = rest(raw).partition(b"\r\n\r\n")
        assert b"content-length: 2000000" in head
        assert rest_of_replies[:2_000_000] == bytes(2_000_000)
        assert rest_of_replies[2_000_000:].startswith(b"HTTP/1.1 200 OK\r\n")
        assert rest_of_replies.endswith(b"connection: close\r\n\r\nwhole")
