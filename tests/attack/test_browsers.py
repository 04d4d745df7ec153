"""What a browser may be made to do: pages of other origins, frames, scripts, guessed types."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import upload
from tests.support.servers import Server, running_server
from tests.support.wire import ask

OURS, OTHER = "https://ours.example", "https://other.example"
PREFLIGHT = {"access-control-request-method": "PUT", "access-control-request-headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("crossed")
    with running_server(folder, api_keys="k:build", cors_origins=f"{OURS}, http://localhost:3000") as server:
        server.client.headers["authorization"] = "Bearer k"
        upload(server)
        del server.client.headers["authorization"]
        yield server


def crossing(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


def test_without_the_setting_no_origin_is_told_anything(server: Server) -> None:
    for method, path in (("GET", "/v1/cascades/trace/decision"), ("OPTIONS", "/v1/datasets/x"), ("GET", "/docs")):
        reply = server.client.request(method, path, headers={"origin": OURS, **PREFLIGHT})
        assert crossing(reply.headers) == {}
        assert "vary" not in reply.headers


@pytest.mark.parametrize("origin", [OTHER, "null", f"{OURS}.evil.example", "http://ours.example", f"{OURS}:8443"])
def test_no_other_origin_may(crossed: Server, origin: str) -> None:
    preflight = crossed.client.options("/v1/datasets/x", headers={"origin": origin, **PREFLIGHT})
    reply = crossed.client.get("/v1/datasets", headers={"origin": origin, "authorization": "Bearer k"})
    named = crossed.client.options("/v1/datasets/x", headers={"origin": OURS, **PREFLIGHT})  # without a key
    assert (named.status_code, named.headers["access-control-allow-origin"]) == (200, OURS)
    assert "access-control-allow-credentials" not in named.headers
    assert preflight.status_code == 400
    assert "access-control-allow-origin" not in {**preflight.headers, **reply.headers}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/datasets", {"authorization": "Bearer k"}, 200),
        ("/v1/datasets", {}, 401),
        ("/v1/cascades/trace/decision", {"authorization": "Bearer k"}, 200),
        ("/v1/cascades/nosuch/decision", {"authorization": "Bearer k"}, 404),
        ("/nowhere", {}, 404),
    ],
)
def test_a_named_origin_may_read_every_reply(crossed: Server, path: str, headers: dict[str, str], status: int) -> None:
    reply = crossed.client.get(path, headers={"origin": OURS, **headers})
    assert reply.status_code == status
    assert reply.headers["access-control-allow-origin"] == OURS


def test_nothing_is_changed_by_what_a_page_may_send_without_asking_first(server: Server) -> None:
    """A form may post these types anywhere: with no keys set, the type is what keeps other sites out."""
    document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        if "post" not in operations:
            continue
        address = path.replace("{name}", "trace").replace("{kind}", "cascade").replace("{version}", "1")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None):
            headers = {"origin": OTHER} | ({"content-type": kind} if kind else {})
            reply = server.client.post(address, content=b"{}", headers=headers)
            needs_own_header = 422 if path == "/v1/uploads" else 415  # Upload-Length, which a form cannot send
            assert reply.status_code in (404, needs_own_header), (address, kind)


@pytest.mark.parametrize("path", ["/", "/datasets/trace", "/builds/any", "/artifacts/cascade/trace", "/nowhere"])
def test_the_console_runs_our_files_only_and_stands_in_no_frame(server: Server, path: str) -> None:
    reply = server.client.get(path, headers={"accept": "text/html"})
    policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert "<script>" not in reply.text
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["x-frame-options"] == "DENY"


def test_a_name_in_an_address_is_no_markup(server: Server) -> None:
    reply = server.client.get('/builds/"><script>alert(1)</script>')
    assert reply.status_code == 404 or "<script>alert" not in reply.text
    for path in ("/builds/%22%3E%3Cscript%3Ealert(1)", "/%3Cscript%3Ealert(1)"):
        shown = server.client.get(path, headers={"accept": "text/html"}).text
        assert "Page not found" in shown
        assert "<script>alert" not in shown


@pytest.mark.parametrize("path", ["/console/../main.py", "/console/%2e%2e/main.py", "/console/pages/../../../main.py"])
def test_only_the_console_s_files_are_given(server: Server, path: str) -> None:
    assert ask(server.port, f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 404 "
    )


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_the_pages_run_their_own_scripts_only_and_stand_in_no_frame(server: Server, path: str) -> None:
    headers = server.client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in policy["script-src"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"


def test_no_type_is_to_be_guessed(server: Server) -> None:
    for path in ("/docs", "/openapi.json", "/metrics", "/health/live", "/v1/cascades/trace/decision", "/nowhere", "/"):
        assert server.client.get(path).headers.get_list("x-content-type-options") == ["nosniff"]
    reply = ask(server.port, b"nonsense\r\n\r\n")  # what is no HTTP
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"x-content-type-options: nosniff" in reply
