"""Access log: one line per request, written in batches because writes are slow.

Each line has the API key (first eight digits of its SHA-256) and the version of the artifact. Lines are sorted by the
end of their requests, whose time they have. They are written within ``DELAY_S`` and at shutdown. SIGKILL loses pending
lines.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

import orjson
from starlette.types import Scope

from app.observability.logs import UTC

DELAY_S = 0.1
MAX_LINES = 2000
"""So many lines are not held back any longer."""


@dataclass(slots=True)
class AccessLog:
    """Access log to a stream, in the format ``text`` or ``json``."""

    stream: TextIO
    style: str
    _lines: list[str] = field(default_factory=list)
    _second: int = -1
    _date: str = ""

    def log_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Log a request; its path stays escaped, so that it cannot forge a log line."""
        moment = time.time()
        if int(moment) != self._second:
            self._second = int(moment)
            self._date = time.strftime(UTC, time.gmtime(moment))
        stamp = f"{self._date}.{int(moment * 1000) % 1000:03d}Z"
        message = f"{scope['method']} {scope['raw_path'].decode('latin-1')} {status} {seconds * 1000:.3f} ms"
        self._lines.append(self._line(stamp, message, scope["state"], status, seconds))
        if len(self._lines) == 1:
            self._call_later()
        elif len(self._lines) >= MAX_LINES:
            self.write_pending()

    def _line(self, stamp: str, message: str, state: dict[str, Any], status: int, seconds: float) -> str:
        ref, key = state.get("artifact"), state.get("key")
        artifact = None if ref is None else ref.full_name
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
        """Write all pending lines."""
        lines, self._lines = self._lines, []
        if lines:
            self.stream.write("".join(lines))
            self.stream.flush()
