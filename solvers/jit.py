"""Compiled kernels: numba's ``njit``, typed, with a safe cache on disk.

A kernel is a flat module of functions under ``@compile_kernel``, imported when it is called: servers and commands
start without numba. ``compile_kernel(cache=True)`` marks the entry points; their machine code contains that of the
others. The cache is in ``NUMBA_CACHE_DIR`` if that is set, else next to the module, where anyone who can write could
change the module itself. It is never in a folder of data or of the user, where numba would look next. If neither is
writable, every process compiles for itself.
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
    """Compile a function when it is first called. cache: keep its machine code on disk; other options are numba's."""

    def decorate(function: F) -> F:
        if _plain.get():
            return function
        import numba  # here, so that a kernel as plain Python does not load it

        compiled: Any = numba.njit(**options)(function)
        if cache:
            _keep(compiled)
        return cast(F, compiled)

    return decorate


@once
def python_kernel(name: str) -> ModuleType:
    """Load a kernel's module once more, as plain Python: for inputs so small that loading numba costs more than it
    saves, and for tests of what compiling may have changed."""
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


def _keep(compiled: Any) -> None:
    """Give a compiled function a cache on disk, if there is a place for one."""
    folder = Path(compiled.py_func.__code__.co_filename).parent
    if not os.environ.get("NUMBA_CACHE_DIR") and not os.access(folder, os.W_OK):
        return
    with suppress(RuntimeError):  # "no locator available": nothing can be written anywhere
        compiled.enable_caching()
        compiled._cache = _HarmlessCache(compiled._cache)


class _HarmlessCache:
    """Numba's cache of one function, of which a full disk or a damaged file would end the call that compiles."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def load_overload(self, *signature: Any) -> Any:
        try:
            return self._kept.load_overload(*signature)
        except Exception:  # whatever is wrong with what was kept: it is compiled anew, and kept again
            with suppress(OSError):
                self._kept.flush()
            return None

    def save_overload(self, *compiled: Any) -> None:
        with suppress(OSError):
            self._kept.save_overload(*compiled)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)
