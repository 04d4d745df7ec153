"""Calls of the caller's functions: plain, asynchronous, or fitted classifiers of scikit-learn."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parsimony.errors import InvalidRequest
from parsimony.runs import Answer, CallOutcome

Function = Any
"""A function of the item, or a fitted classifier with ``predict_proba``."""


def check_functions(functions: Mapping[str, Function]) -> None:
    """Raise InvalidRequest for objects that are neither callable nor fitted classifiers."""
    for name, function in functions.items():
        if not (callable(function) or hasattr(function, "predict_proba")):
            raise InvalidRequest(
                f"functions[{name!r}] must be a function or have predict_proba, got {type(function).__name__}",
                code="invalid-request",
            )


def call_function(name: str, functions: Mapping[str, Function], item: Any) -> CallOutcome:
    """Call a function; an exception becomes the outcome's error."""
    started = time.perf_counter()
    try:
        value, error = apply_function(name, functions, item), None
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            value, error = None, "is asynchronous: use AsyncParsimony"
    except Exception as failure:  # whatever a caller's function raises
        value, error = None, f"{type(failure).__name__}: {failure}"
    return CallOutcome(name, value, error, time.perf_counter() - started)


async def call_function_async(
    name: str, functions: Mapping[str, Function], item: Any, timeout_s: float | None
) -> CallOutcome:
    """Call a function, and wait for it at most ``timeout_s`` seconds if it is asynchronous."""
    started = time.perf_counter()
    try:
        value, error = apply_function(name, functions, item), None
        if inspect.isawaitable(value):
            value = await asyncio.wait_for(value, timeout_s)
    except TimeoutError:
        value, error = None, f"took longer than {timeout_s:.3g} s"
    except Exception as failure:  # whatever a caller's function raises
        value, error = None, f"{type(failure).__name__}: {failure}"
    return CallOutcome(name, value, error, time.perf_counter() - started)


async def call_functions_async(
    names: Sequence[str], functions: Mapping[str, Function], item: Any, timeout_s: float | None
) -> list[CallOutcome]:
    """Call functions concurrently; return their outcomes in the order of the names."""
    return list(await asyncio.gather(*(call_function_async(name, functions, item, timeout_s) for name in names)))


def _find(name: str, functions: Mapping[str, Function]) -> Function:
    try:
        return functions[name]
    except KeyError:
        known = ", ".join(map(repr, functions))
        raise LookupError(f"functions must have {name!r}; it has {known}") from None


def apply_function(name: str, functions: Mapping[str, Function], item: Any) -> Any:
    """Return what a function returns for an item; the most likely class of a classifier with ``predict_proba``."""
    function = _find(name, functions)
    if not hasattr(function, "predict_proba"):
        return function(item)
    shares = np.asarray(function.predict_proba([item]))[0]
    best = int(shares.argmax())
    return Answer(str(function.classes_[best]), float(shares[best]))
