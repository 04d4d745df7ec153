"""Which hosts may be called, and every way that is known of saying another one."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver

from app.running.ssrf_guard import GuardedResolver, HostNotAllowed, SsrfGuard
from models import InvalidRequest

SOMEWHERE = "93.184.216.34"


NOT_PUBLIC = """127.0.0.1 127.0.0.1:8080 [::1] [::ffff:127.0.0.1] 10.0.0.1 192.168.1.1 172.16.0.1 100.64.0.1 [fc00::1]
    0.0.0.0 169.254.169.254 [fe80::1] [fe80::1%25eth0] [fd00:ec2::254] 100.100.100.200 168.63.129.16 224.0.0.1
    255.255.255.255 [64:ff9b::7f00:1] [2002:7f00:1::] [::] \uff11\uff12\uff17.0.0.1 127\u30020\u30020\u30021
    \u2460\u2461\u2466.0.0.1 \uff11\uff16\uff19.\uff12\uff15\uff14.\uff11\uff16\uff19.\uff12\uff15\uff14"""


@pytest.mark.parametrize("url", [f"http://{host}/x" for host in NOT_PUBLIC.split()])
def test_addresses_that_are_not_public_are_refused_unless_they_are_named(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"not public|not allowed"):
        SsrfGuard(()).check_url(url)


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "localhost", "0x7f000001"])
def test_other_ways_of_writing_loopback_are_refused_when_they_are_resolved(host: str) -> None:
    async def resolve() -> Any:
        return await GuardedResolver(SsrfGuard(())).resolve(host, 80)

    with pytest.raises((HostNotAllowed, socket.gaierror)):
        asyncio.run(resolve())


def test_a_name_that_changes_its_address_has_only_the_one_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([SOMEWHERE, "127.0.0.1"])

    async def changing(self: Any, host: str, port: int = 0, family: Any = 0) -> Any:
        address = {"hostname": host, "host": next(answers), "port": port, "family": family, "proto": 0, "flags": 0}
        return [address]

    monkeypatch.setattr(ThreadedResolver, "resolve", changing)

    async def resolve() -> str:
        resolved = await GuardedResolver(SsrfGuard(())).resolve("changing.example", 80)
        return str(resolved[0]["host"])

    assert asyncio.run(resolve()) == SOMEWHERE
    with pytest.raises(HostNotAllowed, match="not public"):
        asyncio.run(resolve())


def test_what_is_named_may_be_called_and_nothing_else() -> None:
    hosts = SsrfGuard(("127.0.0.1:9000", "*.models.example", "[::1]:80"))
    hosts.check_url("http://127.0.0.1:9000/x")
    hosts.check_url("https://a.models.example/")
    hosts.check_url("http://[::1]:80/")
    for url in ("http://127.0.0.1:9001/", "https://models.example.org/", "https://example.org/", "http://[::1]:81/"):
        with pytest.raises(InvalidRequest, match="PARSIMONY_ENDPOINT_HOSTS"):
            hosts.check_url(url)
    SsrfGuard(("*",)).check_url(f"https://{SOMEWHERE}/")
    with pytest.raises(InvalidRequest, match="not public"):
        SsrfGuard(("*",)).check_url("http://127.0.0.1/")
    with pytest.raises(HostNotAllowed):
        SsrfGuard(()).check("mixed.example", 443, [SOMEWHERE, "10.0.0.1"])


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "64:ff9b::a00:1"])
def test_some_addresses_are_never_called_even_if_they_are_named(address: str) -> None:
    with pytest.raises(HostNotAllowed, match="is not allowed"):
        SsrfGuard((address, "metadata")).check("metadata", 80, [address])


def test_the_last_look_before_a_connection_admits_only_what_a_name_led_to() -> None:
    hosts = SsrfGuard(("localhost",))
    with pytest.raises(HostNotAllowed):
        hosts.check_address("127.0.0.1")
    hosts.check("localhost", 80, ["127.0.0.1"])
    hosts.check_address("127.0.0.1")
    hosts.check_address(SOMEWHERE)
    for address in ("127.0.0.2", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1%eth0"):
        with pytest.raises(HostNotAllowed):
            hosts.check_address(address)


def test_a_key_for_a_host_that_is_not_named_is_refused() -> None:
    hosts = SsrfGuard(("*", "api.models.example"))
    hosts.check_secret_host("https://api.models.example/v1", "PARSIMONY_SECRET_X")
    hosts.check_secret_host("https://other.example/v1", None)
    with pytest.raises(InvalidRequest, match="secret"):
        hosts.check_secret_host("https://other.example/v1", "PARSIMONY_SECRET_X")
