"""SSRF guard: checks that endpoints have allowed hosts.

The hosts in PARSIMONY_ENDPOINT_HOSTS are allowed. If it is not set, all public addresses are allowed. A host name is
resolved once, by the connection itself, and the resolved addresses are checked. So a name cannot change its address
between the check and the call (DNS rebinding).
"""

import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from models.errors import Fault, InvalidRequest

Address = IPv4Address | IPv6Address
_NEVER = tuple(
    ip_network(each)
    for each in (
        "169.254.0.0/16",  # link-local, and what clouds tell their machines
        "fe80::/10",
        "fd00:ec2::/32",  # the same of one cloud
        "100.100.100.200/32",  # and of another
        "192.0.0.192/32",  # and of a third
        "168.63.129.16/32",  # and of a fourth
        "0.0.0.0/8",
        "::/128",
        "224.0.0.0/4",
        "ff00::/8",
        "240.0.0.0/4",
        "64:ff9b::/96",  # IPv4 in other clothes
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
    )
)


class HostNotAllowed(OSError):
    """Raised for a host or address that must not be called."""


class SsrfGuard:
    """Server-side request forgery (SSRF) guard: the allowed hosts of endpoints.

    Patterns are host names or addresses. ``*`` matches any part; a port in a pattern allows only that port. Without
    patterns, all public addresses are allowed.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._named: set[str] = set()
        """Addresses that are not public and were resolved from, or are, hosts that are named."""
        self.update_patterns(patterns)

    def update_patterns(self, patterns: Sequence[str]) -> None:
        """Replace the patterns."""
        self._patterns = [_parted(pattern) for pattern in patterns]
        self._named.clear()

    def check_url(self, url: str) -> None:
        """Raise InvalidRequest if a URL's host is not allowed; does not resolve names."""
        host, port = _host_and_port(url)
        try:
            self.check(host, port, [host] if _literal(host) else [])
        except HostNotAllowed as error:
            raise InvalidRequest.from_faults(Fault(("url",), str(error))) from error

    def check_secret_host(self, url: str, secret: str | None) -> None:
        """Raise InvalidRequest if a key would be sent to a host that only ``*`` matches."""
        if secret is not None and not self._names(*_host_and_port(url), but="*"):
            fault = "keys are sent only to hosts that PARSIMONY_ENDPOINT_HOSTS lists by name; * does not suffice"
            raise InvalidRequest.from_faults(Fault(("secret",), fault))

    def check_address(self, text: str) -> None:
        """Raise HostNotAllowed if no allowed host has resolved to this address.

        This is the final check before a connection, whatever the origin of the address. Public addresses are always
        allowed.
        """
        address = _address(text)
        if _is_never_called(address) or not (address.is_global or str(address) in self._named):
            raise HostNotAllowed(f"address {address} is not allowed")

    def check(self, host: str, port: int, addresses: Sequence[str]) -> None:
        """Raise HostNotAllowed if a host, or one of its addresses, is not allowed."""
        is_named = self._names(host, port)
        if self._patterns and not is_named:
            raise HostNotAllowed(f"host {host}:{port} is not allowed: set PARSIMONY_ENDPOINT_HOSTS to allow it")
        is_named_closely = self._names(host, port, but="*")
        for text in addresses:
            address = _address(text)
            if _is_never_called(address):
                raise HostNotAllowed(f"host {host} is not allowed ({address})")
            if not address.is_global and not is_named_closely:
                raise HostNotAllowed(f"host {host} is not public ({address}): set PARSIMONY_ENDPOINT_HOSTS to allow it")
            if not address.is_global:
                self._named.add(str(address))

    def _names(self, host: str, port: int, but: str = "") -> bool:
        """Return whether a pattern, except ``but``, matches a host."""
        lower = host.lower().rstrip(".")
        return any(
            fnmatchcase(lower, name) and wanted in (None, port) for name, wanted in self._patterns if name != but
        )


class GuardedResolver(AbstractResolver):
    """DNS resolver that refuses hosts and addresses that are not allowed."""

    def __init__(self, hosts: SsrfGuard) -> None:
        self._hosts, self._inner = hosts, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raises HostNotAllowed if an address is not allowed."""
        resolved = await self._inner.resolve(host, port, family)
        self._hosts.check(host, port, [one["host"] for one in resolved])
        return resolved

    async def close(self) -> None:
        """Close the resolver."""
        await self._inner.close()


@lru_cache(maxsize=1000)
def _host_and_port(url: str) -> tuple[str, int]:
    """Return host and port in the connection's form; international names in DNS encoding."""
    parts = URL(url.replace("{", "%7B").replace("}", "%7D"), encoded=False)
    return parts.raw_host or "", parts.port or (443 if parts.scheme == "https" else 80)


def _parted(pattern: str) -> tuple[str, int | None]:
    """Split a pattern into name and port.

    >>> _parted("*.models.example"), _parted("127.0.0.1:9000"), _parted("[::1]:80"), _parted("::1")
    (('*.models.example', None), ('127.0.0.1', 9000), ('::1', 80), ('::1', None))
    """
    text = pattern.strip().lower()
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, int(rest[1:]) if rest else None
    host, colon, port = text.rpartition(":")
    if colon and ":" not in host and port.isdecimal():
        return host, int(port)
    return text, None


def _literal(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True


def _address(text: str) -> Address:
    """Parse an address without its zone; an embedded IPv4 address replaces the IPv6 one."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _is_never_called(address: Address) -> bool:
    return any(address in network for network in _NEVER)
