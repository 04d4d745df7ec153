"""Lets the clock of a process jump by the seconds in a file; on the path of processes that ``test_clock`` starts."""

import datetime
import os
import sys
import time
from datetime import datetime as _datetime
from pathlib import Path

_FILE = Path(os.environ["JUMPING_CLOCK"])
_time, _time_ns = time.time, time.time_ns


def _jump() -> float:
    try:
        return float(_FILE.read_text())
    except (OSError, ValueError):  # being written
        return 0.0


class _AnyDatetime(type(_datetime)):  # type: ignore[misc]
    """Lets what the C code made count as one of ours."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _datetime)


class _Jumping(_datetime, metaclass=_AnyDatetime):
    """A date and time whose ``now`` is the jumping clock's."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _datetime:  # type: ignore[override]
        return _datetime.fromtimestamp(_time() + _jump(), tz)

    @classmethod
    def utcnow(cls) -> _datetime:  # type: ignore[override]
        return _datetime.fromtimestamp(_time() + _jump(), datetime.UTC).replace(tzinfo=None)


os.setpriority = lambda *_: None  # on a busy machine, a build of low priority would wait for minutes
time.time = lambda: _time() + _jump()
time.time_ns = lambda: _time_ns() + int(_jump() * 1e9)
datetime.datetime = _Jumping  # type: ignore[misc]


class _WithoutPandas:
    """Hides pandas, whose C code crashes where ``datetime.datetime`` is another class."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


sys.meta_path.insert(0, _WithoutPandas)
