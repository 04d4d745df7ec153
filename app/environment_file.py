"""File with keys and allowed hosts of endpoints, reloaded when it changes."""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from models.endpoint import SECRET_PREFIX

logger = logging.getLogger("parsimony.endpoints")
HOSTS = "PARSIMONY_ENDPOINT_HOSTS"
ENV_FILE_POLL_INTERVAL_S = 1.0
"""Seconds between two looks at the file."""


def parse_comma_list(text: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def validate_host_patterns(value: str) -> None:
    """Raise ValueError for a list of hosts with an invalid entry."""
    for pattern in parse_comma_list(value):
        host, colon, port = pattern.rpartition(":")
        has_odd_port = bool(colon) and (":" not in host or host.endswith("]")) and not port.isdecimal()
        if has_odd_port or "/" in pattern or " " in pattern or "@" in pattern:
            raise ValueError(f"must be hosts like models.example, *.models.example, or 127.0.0.1:9000, got {pattern!r}")


class EnvironmentFile:
    """Lines ``NAME=value`` with keys and additional allowed hosts of endpoints.

    Keys are ``PARSIMONY_SECRET_…``; hosts are ``PARSIMONY_ENDPOINT_HOSTS``.

    Attributes:
        values: the values of the last valid file.
    """

    def __init__(self, path: Path) -> None:
        """Read the file; raises ValueError or OSError if it is invalid."""
        self._path, self._due = path, time.monotonic() + ENV_FILE_POLL_INTERVAL_S
        self._state = self._look()
        self.values: dict[str, str] = _read(path)
        self._problem = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The patterns of hosts in the file."""
        return parse_comma_list(self.values.get(HOSTS, ""))

    def refresh_values(self) -> bool:
        """Read the file again if it has changed; return whether its values changed.

        The file is checked at most once per second. An invalid or missing file changes nothing, and is logged once.
        """
        if (now := time.monotonic()) < self._due:
            return False
        self._due = now + ENV_FILE_POLL_INTERVAL_S
        try:
            if (state := self._look()) == self._state:
                return False
            self._state = state
            found = _read(self._path)
        except (OSError, ValueError) as error:
            self._warn(str(error))
            return False
        changed, self._problem = found != self.values, ""
        self.values.clear()
        self.values.update(found)
        return changed

    def _warn(self, problem: str) -> None:
        if problem != self._problem:
            logger.warning("environment file not read, its last values are kept path=%s error=%s", self._path, problem)
        self._problem = problem

    def _look(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> dict[str, str]:
    """Return the values of a file; raises ValueError for unknown names and invalid hosts.

    The error message contains no value.
    """
    found: Mapping[str, str | None] = dotenv_values(path, interpolate=False)
    for name, value in found.items():
        if value is None or (name != HOSTS and not name.startswith(SECRET_PREFIX)):
            raise ValueError(f"must have lines {SECRET_PREFIX}…=value or {HOSTS}=value, got {name[:100]!r}")
    validate_host_patterns(found.get(HOSTS) or "")
    return {name: value for name, value in found.items() if value is not None}
