"""Calls of the caller's functions: plain, asynchronous, or fitted classifiers of scikit-learn."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from parsimony.errors import InvalidRequest
from parsimony.runs.steps import CallResult

Function = Any
"""A function of the item, or a fitted classifier with ``predict_proba``."""


@dataclass(frozen=True)
class Answer:
    """What a function returns if a label alone is not enough.

    Attributes:
        label: the class, or the text of a language model.
        confidence: from 0 to 1, on the scale of the artifact's dataset; None: unknown.
        cost: actual cost, in the artifact's unit; None: its mean cost.
    Raises:
        ValueError: a confidence or a cost that is out of range.
    """

    label: str | None
    confidence: float | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must be from 0 to 1, got {self.confidence}")
        if self.cost is not None and not 0 <= self.cost < inf:
            raise ValueError(f"cost must be a finite number of at least 0, got {self.cost}")


@dataclass(frozen=True)
class CallOutcome:
    """Outcome of calling one function.

    Attributes:
        name: name of the classifier or feature.
        value: what the function returned.
        answer: the value as a label with its confidence; None for feature values and failed calls.
        raised: what it raised; None: nothing.
        seconds: how long it took.
    """

    name: str
    value: Any = None
    answer: Answer | None = None
    raised: Exception | None = None
    seconds: float = 0.0

    @property
    def error(self) -> str | None:
        """What the function raised, as text; None: nothing."""
        if self.raised is None:
            return None
        return (
            str(self.raised) if isinstance(self.raised, NotCalled) else f"{type(self.raised).__name__}: {self.raised}"
        )

    def to_label(self) -> "CallOutcome":
        """Return the outcome of a classifier, failed if its value has no label."""
        if self.raised is not None or self.answer is not None:
            return self
        try:
            return replace(self, answer=require_answer(self.value))
        except (TypeError, ValueError) as error:
            return replace(self, raised=error)

    def to_result(self) -> CallResult:
        """Return the outcome as runs receive it: a label, or the cells of a feature."""
        if self.raised is not None:
            is_called = not isinstance(self.raised, NotCalled)
            return CallResult(
                self.name, error=self.error, seconds=self.seconds, attempts=int(is_called), is_paid=is_called
            )
        answer = self.answer
        if answer is not None:
            label, confidence, cost = answer.label, answer.confidence, answer.cost
            return CallResult(self.name, label, confidence, cost=cost, seconds=self.seconds, is_paid=True)
        plain = to_plain(self.value)
        cells = tuple(map(to_plain, plain)) if isinstance(plain, list | tuple) else (plain,)
        error = None if cells and all(map(_is_cell, cells)) else f"must return numbers or texts, got {plain!r:.100}"
        return CallResult(self.name, values=None if error else cells, error=error, seconds=self.seconds, is_paid=True)


class NotCalled(InvalidRequest):
    """A function that cannot be called."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid-request")


def check_functions(functions: Mapping[str, Function]) -> None:
    """Raise InvalidRequest for objects that are neither callable nor fitted classifiers."""
    for name, function in functions.items():
        if not (callable(function) or hasattr(function, "predict_proba")):
            raise InvalidRequest(
                f"functions[{name!r}] must be a function or have predict_proba, got {type(function).__name__}",
                code="invalid-request",
            )


def is_async(function: Function) -> bool:
    """Return whether calls of a function must be awaited."""
    return inspect.iscoroutinefunction(function) or (
        callable(function) and inspect.iscoroutinefunction(function.__call__)
    )


def read_answer(value: Any) -> Answer | None:
    """Return what a function returned as a label with its confidence; None for feature values, and invalid ones."""
    if isinstance(value, Answer):
        return value
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    with suppress(TypeError, ValueError):
        return require_answer(value) if is_pair or isinstance(value, str) else None
    return None


def require_answer(value: Any) -> Answer:
    """Return what a classifier returned as a label with its confidence; integers are labels, too.

    Raises TypeError for values without a label, ValueError for confidences out of range.
    """
    if isinstance(value, Answer):
        return value
    label, confidence = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return make_answer(label, confidence)


def make_answer(label: Any, confidence: Any) -> Answer:
    """Return an answer from a label, a text or an integer, and a number. Raises TypeError or ValueError."""
    plain = to_plain(label)
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise TypeError(f"must return a label, (label, confidence), or an Answer, got {label!r:.100}")
    return Answer(str(plain), None if confidence is None else float(confidence))


def call_function(name: str, functions: Mapping[str, Function], item: Any) -> CallOutcome:
    """Call a function; the outcome has what it returned or raised."""
    started = time.perf_counter()
    try:
        value = _apply(name, functions, item)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise NotCalled("is asynchronous: use AsyncParsimony, or call_async of a recorder")
        return CallOutcome(name, value, read_answer(value), seconds=time.perf_counter() - started)
    except Exception as error:  # whatever a caller's function raises
        return CallOutcome(name, raised=error, seconds=time.perf_counter() - started)


async def call_function_async(
    name: str, functions: Mapping[str, Function], item: Any, timeout_s: float | None = None
) -> CallOutcome:
    """Call a function, others than asynchronous ones in a thread, and wait for it at most ``timeout_s`` seconds."""
    started = time.perf_counter()
    try:
        if is_async(functions.get(name)):
            value = await asyncio.wait_for(functions[name](item), timeout_s)
        else:
            timed = asyncio.to_thread(_apply_timed, name, functions, item)
            value, seconds = await asyncio.wait_for(timed, timeout_s)
            if not inspect.isawaitable(value):
                return CallOutcome(name, value, read_answer(value), seconds=seconds)
            value = await asyncio.wait_for(value, timeout_s)  # of a function that returns a coroutine
        return CallOutcome(name, value, read_answer(value), seconds=time.perf_counter() - started)
    except Exception as error:  # whatever a caller's function raises
        seconds = time.perf_counter() - started
        is_late = isinstance(error, asyncio.TimeoutError) and timeout_s is not None and seconds >= timeout_s
        raised = TimeoutError(f"took longer than {timeout_s:.3g} s") if is_late else error
        return CallOutcome(name, raised=raised, seconds=seconds)


async def call_functions_async(
    names: Sequence[str], functions: Mapping[str, Function], item: Any, timeout_s: float | None
) -> list[CallOutcome]:
    """Call functions concurrently; return their outcomes in the order of the names."""
    return list(await asyncio.gather(*(call_function_async(name, functions, item, timeout_s) for name in names)))


def _apply(name: str, functions: Mapping[str, Function], item: Any) -> Any:
    """Return what a function returns for an item; the most likely class of a classifier with ``predict_proba``."""
    function = functions.get(name)
    if function is None:
        raise NotCalled(f"functions must have {name!r}; it has {', '.join(map(repr, functions))}")
    if not hasattr(function, "predict_proba"):
        return function(item)
    shares = list(map(float, function.predict_proba([item])[0]))
    best = max(range(len(shares)), key=shares.__getitem__)
    return Answer(str(function.classes_[best]), shares[best])


def _apply_timed(name: str, functions: Mapping[str, Function], item: Any) -> tuple[Any, float]:
    """Return what a function returns, and its duration, without waiting for a thread or the event loop."""
    started = time.perf_counter()
    value = _apply(name, functions, item)
    return value, time.perf_counter() - started


def _is_cell(cell: Any) -> bool:
    """Return whether a value can be a cell of a feature: a finite number, a text, or None if it is missing."""
    return isfinite(cell) if isinstance(cell, int | float) else cell is None or isinstance(cell, str)


def to_plain(value: Any) -> Any:
    """Return NumPy arrays and scalars as numbers and lists, as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else value
