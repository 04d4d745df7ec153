"""The log of requests: a line for each, written many at once, for one write takes as long as a look-up.

Each has the API key (first eight digits of its SHA-256) and the artifact version that answered.

Lines are at most ``DELAY_S`` behind, and are written in the order in which requests ended, each with the time at which
it did. What was not written yet is lost if the process is killed with -9; a shutdown writes it.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

import orjson
from starlette.types import Scope

from app.observability.logs import UTC

DELAY_S = 0.1
MOST_LINES = 2000
"""So many lines are not held back any longer."""


@dataclass(slots=True)
class AccessLog:
    """Writes to a stream, in the style ``text`` or ``json``."""

    stream: TextIO
    style: str
    _lines: list[str] = field(default_factory=list)
    _second: int = -1
    _date: str = ""

    def log_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Note a request; the path is still escaped, so that none can begin a line of its own."""
        moment = time.time()
        if int(moment) != self._second:
            self._second = int(moment)
            self._date = time.strftime(UTC, time.gmtime(moment))
        stamp = f"{self._date}.{int(moment * 1000) % 1000:03d}Z"
        message = f"{scope['method']} {scope['raw_path'].decode('latin-1')} {status} {seconds * 1000:.3f} ms"
        self._lines.append(self._line(stamp, message, scope["state"], status, seconds))
        if len(self._lines) == 1:
            self._call_later()
        elif len(self._lines) >= MOST_LINES:
            self.write_pending()

    def _line(self, stamp: str, message: str, state: dict[str, Any], status: int, seconds: float) -> str:
        ref, key = state.get("artifact"), state.get("key")
        artifact = None if ref is None else ref.spelt
        if self.style != "json":
            who = "".join(f" {each}" for each in (artifact, key and f"key:{key}") if each)
            return f"{stamp} INFO    parsimony.access {message} {state['request_id']}{who}\n"
        entry = {
            "time": stamp,
            "level": "info",
            "logger": "parsimony.access",
            "message": message,
            "request_id": state["request_id"],
            "status": status,
            "ms": round(seconds * 1000, 3),
        }
        if key is not None:
            entry["key"] = key
        if artifact is not None:
            entry["artifact"] = artifact
        return orjson.dumps(entry).decode() + "\n"

    def _call_later(self) -> None:
        try:
            asyncio.get_running_loop().call_later(DELAY_S, self.write_pending)
        except RuntimeError:  # no loop runs: nothing would flush later
            self.write_pending()

    def write_pending(self) -> None:
        """Write what is held back."""
        lines, self._lines = self._lines, []
        if lines:
            self.stream.write("".join(lines))
            self.stream.flush()
