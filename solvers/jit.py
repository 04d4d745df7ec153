"""Just-in-time compilation of kernels: numba's ``njit``, typed, with a disk cache that tolerates faults.

A kernel is a module of functions decorated with ``@compile_kernel``. Its caller imports it at the first call, so
servers and the command line start without numba. Only entry points use ``compile_kernel(cache=True)``; their machine
code includes that of the other functions.

The cache contains code, so write access to it must be restricted. The cache is in ``NUMBA_CACHE_DIR`` if set, else next
to the module. Write access to that folder already permits changing the module. Numba's other choices, such as user
folders, are not used. If no cache folder is writable, every process compiles the kernels.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache as once
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_plain = ContextVar("_plain", default=False)
"""Whether this thread loads a kernel as plain Python."""


def compile_kernel(*, cache: bool = False, **options: Any) -> Callable[[F], F]:
    """Compile a function at its first call.

    cache: whether to keep machine code on disk. Other options are numba's.
    """

    def decorate(function: F) -> F:
        if _plain.get():
            return function
        import numba  # here, so that a kernel as plain Python does not load it

        compiled: Any = numba.njit(**options)(function)
        if cache:
            _enable_cache(compiled)
        return cast(F, compiled)

    return decorate


@once
def python_kernel(name: str) -> ModuleType:
    """Load a kernel's module as plain Python.

    Used for inputs so small that loading numba takes longer, and for tests of compilation.
    """
    spec = find_spec(name)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    token = _plain.set(True)
    try:
        spec.loader.exec_module(module)
    finally:
        _plain.reset(token)
    return module


def _enable_cache(compiled: Any) -> None:
    """Cache machine code on disk if a folder is writable."""
    folder = Path(compiled.py_func.__code__.co_filename).parent
    if not os.environ.get("NUMBA_CACHE_DIR") and not os.access(folder, os.W_OK):
        return
    with suppress(RuntimeError):  # "no locator available": no folder is writable
        compiled.enable_caching()
        compiled._cache = _FaultTolerantCache(compiled._cache)


class _FaultTolerantCache:
    """Numba's cache of one function; a full disk or a damaged file does not make the call fail."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def load_overload(self, *signature: Any) -> Any:
        try:
            return self._kept.load_overload(*signature)
        except Exception:  # a damaged cache: compile and store again
            with suppress(OSError):
                self._kept.flush()
            return None

    def save_overload(self, *compiled: Any) -> None:
        with suppress(OSError):
            self._kept.save_overload(*compiled)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)
