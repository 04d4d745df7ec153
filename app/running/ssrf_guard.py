"""Which hosts may be called: what PARSIMONY_ENDPOINT_HOSTS names, public addresses where it names none.

A name is resolved once, by the connection itself, and what it resolves to is checked: a name that changes its address
between a check and a call has only the one.
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
    """A host that must not be called."""


class SsrfGuard:
    """Which hosts may be called. patterns: names or addresses, with ``*`` for any part, each with a port if only that
    one may be; none: every public address."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_parted(pattern) for pattern in patterns]
        self._named: set[str] = set()
        """Addresses that are not public and were resolved from, or are, hosts that are named."""

    def refuse_url(self, url: str) -> None:
        """Raise InvalidRequest for an address that must not be called, as far as is known without resolving."""
        host, port = _host_and_port(url)
        try:
            self.check(host, port, [host] if _literal(host) else [])
        except HostNotAllowed as error:
            raise InvalidRequest.from_faults(Fault(("url",), str(error))) from error

    def refuse_key(self, url: str, secret: str | None) -> None:
        """Raise InvalidRequest where a key would go to a host that no pattern but ``*`` names."""
        if secret is not None and not self._names(*_host_and_port(url), but="*"):
            fault = "keys go only to hosts that PARSIMONY_ENDPOINT_HOSTS names otherwise than by *: name this one there"
            raise InvalidRequest.from_faults(Fault(("secret",), fault))

    def check_address(self, text: str) -> None:
        """Raise HostRefused for an address that no host led to which may be called: the last look before a connection,
        however its address was come by."""
        address = _address(text)
        if _is_never_called(address) or not (address.is_global or str(address) in self._named):
            raise HostNotAllowed(f"{address} must not be called")

    def check(self, host: str, port: int, addresses: Sequence[str]) -> None:
        """Raise HostNotAllowed unless a host, of these addresses, may be called."""
        is_named = self._names(host, port)
        if self._patterns and not is_named:
            raise HostNotAllowed(f"host {host}:{port} is not allowed: set PARSIMONY_ENDPOINT_HOSTS to allow it")
        is_named_closely = self._names(host, port, but="*")
        for text in addresses:
            address = _address(text)
            if _is_never_called(address):
                raise HostNotAllowed(f"{host} is {address}, which is never called")
            if not address.is_global and not is_named_closely:
                raise HostNotAllowed(
                    f"{host} is {address}, which is not public: PARSIMONY_ENDPOINT_HOSTS must name the host"
                )
            if not address.is_global:
                self._named.add(str(address))

    def _names(self, host: str, port: int, but: str = "") -> bool:
        """Return whether a pattern, other than ``but``, matches a host."""
        lower = host.lower().rstrip(".")
        return any(
            fnmatchcase(lower, name) and wanted in (None, port) for name, wanted in self._patterns if name != but
        )


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead where nothing may be called."""

    def __init__(self, hosts: SsrfGuard) -> None:
        self._hosts, self._inner = hosts, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Give a name's addresses; raises HostRefused if one of them must not be called."""
        resolved = await self._inner.resolve(host, port, family)
        self._hosts.check(host, port, [one["host"] for one in resolved])
        return resolved

    async def close(self) -> None:
        """Close what resolves."""
        await self._inner.close()


@lru_cache(maxsize=1000)
def _host_and_port(url: str) -> tuple[str, int]:
    """Give host and port as the connection takes them: a host in other letters is written as it is resolved."""
    parts = URL(url.replace("{", "%7B").replace("}", "%7D"), encoded=False)
    return parts.raw_host or "", parts.port or (443 if parts.scheme == "https" else 80)


def _parted(pattern: str) -> tuple[str, int | None]:
    """Part a pattern into name and port.

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
    """Read an address, without its zone; of IPv6 the embedded IPv4 address, if there is one."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _is_never_called(address: Address) -> bool:
    return any(address in network for network in _NEVER)
