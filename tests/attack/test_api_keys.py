"""Keys: compared in constant time, kept as hashes, told to nobody; and how often their holders may ask."""

import gc
import hmac
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from app.http.api_key_auth import ApiKeyAuth
from app.http.rate_limit import MAX_CLIENTS, RateLimiter
from app.settings import KeyGrant, Role, Settings
from tests.app.http.test_api_key_auth import accept, answer, scope_of
from tests.support.patience import patient
from tests.support.servers import Server, free_port, running_server, wait_for
from tests.support.wire import ask

ROLES: dict[bytes, Role] = {b"reader": "decide", b"builder": "build", b"third": "build"}
KEYS = {sha256(key).digest(): KeyGrant(role) for key, role in ROLES.items()}
SECRETS = ("5ecret-of-a-reader", "5ecret-of-a-builder", "5ecret-of-the-store")


@pytest.mark.parametrize("sent", [b"Bearer reader", b"Bearer third", b"Bearer unknown", b"Basic reader", b""])
def test_each_known_key_is_compared_in_constant_time_whatever_was_sent(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[Any, Any]] = []
    real = hmac.compare_digest

    def noting(a: Any, b: Any) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    answer(ApiKeyAuth(accept, KEYS), scope_of("GET", "/v1/datasets", authorization=sent))
    assert [known for known, _ in compared] == list(KEYS)
    assert {len(digest) for _, digest in compared} == {32}


def test_no_object_of_ours_holds_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "".join(["one-that-", "stands-in-no-", "source"])
    monkeypatch.setenv("PARSIMONY_API_KEYS", f"{key}:build")
    settings = Settings()
    access = ApiKeyAuth(accept, settings.api_keys)
    assert list(settings.api_keys.values()) == [KeyGrant("build")]
    pending, seen = [settings, access], set()
    while pending:
        each: Any = pending.pop()
        if id(each) in seen or isinstance(each, type) or getattr(each, "__name__", None):
            continue
        seen.add(id(each))
        assert key not in (each if isinstance(each, str) else ""), "a key is kept"
        assert key.encode() not in (each if isinstance(each, bytes) else b""), "a key is kept"
        pending.extend(gc.get_referents(each))
    assert len(seen) > 20


def test_the_keys_of_a_team_share_its_rate_and_other_teams_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_API_KEYS", "a:decide@red,b:build@red,c:decide@blue,d:decide@green,e:decide")
    monkeypatch.setenv(
        "PARSIMONY_TEAM_QUOTAS", '{"red": {"requests_per_second": 0.01}, "*": {"requests_per_second": 0.02}}'
    )
    settings = Settings()
    assert settings.team_rates() == {"red": 0.01, "blue": 0.02, "green": 0.02}
    access = ApiKeyAuth(accept, settings.api_keys, team_rates=settings.team_rates())

    def ask_as(key: str) -> int:
        return answer(access, scope_of("GET", "/v1/datasets", authorization=f"Bearer {key}".encode()))[0]

    assert [ask_as(key) for key in "aabb"] == [200, 429, 429, 429]
    assert [ask_as(key) for key in "ccdd"] == [200, 429] * 2
    assert [ask_as("e") for _ in range(9)] == [200] * 9


def test_a_request_beyond_the_rate_of_its_team_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    keys = {sha256(b"a").digest(): KeyGrant("decide", "red")}
    access = ApiKeyAuth(accept, keys, team_rates={"red": 5.0})
    access._teams["red"] = RateLimiter(5.0, clock=lambda: 0.0)
    monkeypatch.setattr("app.http.api_key_auth.asyncio.sleep", sleep)
    scopes = [scope_of("GET", "/v1/datasets", authorization=b"Bearer a") for _ in range(9)]
    assert [answer(access, scope)[0] for scope in scopes] == [200] * 7 + [429] * 2
    assert slept == pytest.approx([0.2, 0.4])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = f"{SECRETS[0]}:decide,{SECRETS[1]}:build"
    with running_server(tmp_path_factory.mktemp("guarded"), api_keys=keys, log_level="debug") as server:
        yield server


SPELLINGS = """/v1/datasets /v1//datasets //v1/datasets /v1/../v1/datasets /static-docs/../v1/datasets
    /static-docs/%2e%2e/v1/datasets /%76%31/datasets /v1%2fdatasets /v1;/datasets /V1/datasets /v1/datasets/
    /./v1/datasets http://127.0.0.1/v1/datasets /v1/datasets?x=/health/live /health/live/../../v1/datasets"""


@pytest.mark.parametrize("path", SPELLINGS.split())
def test_no_spelling_of_a_path_gets_around_the_keys(guarded: Server, path: str) -> None:
    for method in ("GET", "DELETE", "PUT", "POST", "OPTIONS", "HEAD", "PATCH", "TRACE"):
        reply = ask(guarded.port, f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert reply.split(b" ")[1] in (b"401", b"404", b"405", b"400", b"307"), (method, path, reply)


OPENAI = ANTHROPIC = {"message", "type", "param", "code"}
OPEN_INFERENCE = None
"""The fields of an error in each API's form; of the Open Inference Protocol it is a text."""


@pytest.mark.parametrize(
    ("method", "path", "send", "status", "form"),
    [
        ("POST", "/v1/chat/completions", {"headers": {"authorization": "Bearer x"}, "json": {}}, 401, OPENAI),
        ("GET", "/v1/models", {"headers": {"authorization": "Bearer x"}}, 401, OPENAI),
        ("GET", "/v2", {"headers": {"authorization": "Bearer x"}}, 401, OPEN_INFERENCE),
        ("POST", "/v1/chat/completions", {"content": b" " * (20 * 2**20 + 1)}, 413, OPENAI),
        ("POST", "/v2/models/x/infer", {"content": b" " * 2**21}, 413, OPEN_INFERENCE),
        ("POST", "/v1/chat/completions", {"content": b"{"}, 415, OPENAI),
        ("POST", "/v1/chat/completions", {"headers": {"content-encoding": "gzip"}, "content": b"x"}, 415, OPENAI),
        ("GET", "/v1/chat/completions", {}, 405, OPENAI),
        ("GET", "/v1/chat/nothing", {}, 404, OPENAI),
        ("POST", "/v1/messages", {"headers": {"authorization": "Bearer x"}, "json": {}}, 401, ANTHROPIC),
        ("POST", "/v1/messages", {"content": b" " * (20 * 2**20 + 1)}, 413, ANTHROPIC),
        ("GET", "/v1/messages", {}, 405, ANTHROPIC),
        ("DELETE", "/v2", {}, 403, OPEN_INFERENCE),
        ("PATCH", "/v2", {}, 405, OPEN_INFERENCE),
        ("GET", "/v2/nothing", {}, 404, OPEN_INFERENCE),
    ],
)
def test_what_any_layer_refuses_is_in_the_form_of_the_api_that_was_asked(
    guarded: Server, method: str, path: str, send: dict[str, Any], status: int, form: set[str] | None
) -> None:
    known = {"authorization": f"Bearer {SECRETS[0]}"}
    reply = guarded.client.request(method, path, **{**send, "headers": known | send.get("headers", {})})
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/json"
    error = reply.json()["error"]
    assert isinstance(error, str) if form is None else set(error) == form


def test_no_reply_and_no_log_tells_a_key(guarded: Server) -> None:
    reader, builder = SECRETS[:2]
    seen = b""
    for header in (f"Bearer {reader}", f"Bearer {builder}x", f"Basic {builder}", builder, f"Bearer\t{builder}"):
        for path in ("/v1/datasets", "/v1/builds/nosuch", "/nowhere", "/v1/builds"):
            for method in ("GET", "POST", "PATCH"):
                reply = guarded.client.request(method, path, headers={"authorization": header})
                seen += reply.content + repr(reply.headers).encode()
    seen += guarded.client.get("/v1/datasets", headers={"authorization": f"Bearer {reader}", "host": "x"}).content
    seen += ask(guarded.port, f"GET / HTTP/1.1\r\nAuthorization: Bearer {builder}\r\n\x01\r\n\r\n".encode())
    seen += guarded.client.get(f"/v1/datasets?key={builder}", headers={"authorization": f"Bearer {builder}"}).content
    seen += guarded.client.get("/metrics").content + guarded.client.get("/health/ready").content
    seen += guarded.client.get("/openapi.json").content
    wait_for(lambda: "/v1/datasets 200" in guarded.log.read_text() or "/v1/datasets 4" in guarded.log.read_text(), 5)
    seen += guarded.log.read_bytes()
    assert not [secret for secret in SECRETS if secret.encode() in seen]


def test_the_password_of_the_store_is_told_nowhere(tmp_path: Any) -> None:
    import subprocess

    from tests.support.servers import environment

    url = f"redis://:{SECRETS[2]}@127.0.0.1:{free_port()}/0"
    done = subprocess.run(
        [sys.executable, "-m", "app", "dataset", "list"],
        env=environment(tmp_path, redis_url=url, log_level="debug"),
        capture_output=True,
        timeout=patient(60),
    )
    assert done.returncode != 0
    assert b"store unavailable" in done.stdout + done.stderr
    assert SECRETS[2].encode() not in done.stdout + done.stderr


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_at_its_rate_and_no_further() -> None:
    clock = Clock()
    buckets = RateLimiter(4.0, clock)
    assert [buckets.take_token("a") for _ in range(5)] == [0, 0, 0, 0, 0.25]
    clock.now += 0.125
    assert buckets.take_token("a") == 0.125
    clock.now += 0.125
    assert [buckets.take_token("a"), buckets.take_token("a")] == [0, 0.25]
    clock.now += 1000
    assert [buckets.take_token("a") for _ in range(5)] == [0, 0, 0, 0, 0.25]
    slow = RateLimiter(0.1, clock)  # a rate below one still lets one through
    assert [slow.take_token("a"), slow.take_token("a")] == [0, 10]
    clock.now += 10
    assert slow.take_token("a") == 0


def test_callers_that_never_come_again_are_forgotten() -> None:
    clock = Clock()
    buckets = RateLimiter(1.0, clock)
    assert [buckets.take_token("busy"), buckets.take_token("busy")] == [0, 1]
    for number in range(3 * MAX_CLIENTS):
        buckets.take_token(number)
        assert buckets.take_token("busy") > 0
    assert len(buckets) == MAX_CLIENTS


def asked(app: ApiKeyAuth, address: str, **headers: bytes) -> int:
    return answer(app, {**scope_of("GET", "/v1/datasets", **headers), "client": (address, 1)})[0]


def test_each_key_has_a_limit_wherever_it_is_sent_from_and_each_address_without_one() -> None:
    app = ApiKeyAuth(accept, KEYS, rate=2.0)
    assert [asked(app, f"10.0.0.{n}", authorization=b"Bearer reader") for n in range(4)] == [200, 200, 429, 429]
    assert asked(app, "10.0.0.1", authorization=b"Bearer builder") == 200
    app = ApiKeyAuth(accept, KEYS, rate=2.0)
    assert [asked(app, "10.0.0.1", authorization=b"Bearer %d" % n) for n in range(4)] == [401, 401, 429, 429]
    assert asked(app, "10.0.0.1", authorization=b"Bearer reader") == 200
    assert asked(app, "10.0.0.2") == 401
    app = ApiKeyAuth(accept, {}, rate=2.0)
    assert [asked(app, "10.0.0.1") for _ in range(4)] == [200, 200, 429, 429]
    assert asked(app, "10.0.0.2") == 200
    assert [asked(app, f"2001:db8::{n}") for n in range(4)] == [200, 200, 429, 429]
    assert asked(app, "2001:db8:0:1::1") == 200


def limited_count(server: Server) -> float:
    """Read how many requests were refused for their rate; 0 where this one is, too."""
    name = 'parsimony_requests_total{method="GET",route="limited",status="429"} '
    lines = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith(name)]
    return float(lines[0].removeprefix(name)) if lines else 0.0


def test_a_limited_caller_is_told_when_to_come_again_and_then_is_answered(tmp_path: Any) -> None:
    with running_server(tmp_path, rate_limit=3) as server:
        replies = [server.client.get("/v1/cascades/x/decision") for _ in range(8)]
        limited = [reply for reply in replies if reply.status_code == 429]
        assert limited
        assert limited[0].json()["type"] == "urn:parsimony:too-many-requests"
        assert int(limited[0].headers["retry-after"]) == 1
        for path in ("/metrics", "/docs", "/openapi.json", "/"):
            wait_for(lambda path=path: server.client.get(path).status_code == 429, 5)
        assert {server.client.get("/health/live").status_code for _ in range(8)} == {200}
        wait_for(lambda: server.client.get("/metrics").status_code == 200, 5)
        wait_for(lambda: limited_count(server) >= len(limited), 5)
        wait_for(lambda: server.client.get("/v1/artifacts").status_code == 200, 5)
        chats = [server.client.post("/v1/chat/completions", json={}) for _ in range(8)]
        (said, *_) = [reply.json()["error"]["code"] for reply in chats if reply.status_code == 429]
        assert said == "too-many-requests"
