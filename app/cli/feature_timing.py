"""Timing of feature functions by item size, for the costs of an index."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import comb
from typing import Any

from models import Fault, InvalidRequest, Timings
from models.cost import CostFunction
from solvers import Progress

WARM_UP = 2
Size = tuple[float, ...]


def measure(
    features: Sequence[str], item: str, sizes: Sequence[str], repeats: int, degree: int, progress: Progress
) -> dict[str, list[list[float]]]:
    """Time each feature function on items of each size.

    Args:
        features: feature functions as ``module:function``, also from the current folder; they receive an item.
        item: function that returns an item of a size, one argument per dimension.
    Returns:
        Rows of size and milliseconds, by function name.
    Raises:
        InvalidRequest: a function was not found, or failed.
    """
    make, points = import_function(item), [parse_size(text) for text in sizes]
    _refuse_too_few(points, degree)
    functions = {name.partition(":")[2]: import_function(name) for name in features}
    timings: dict[str, list[list[float]]] = {name: [] for name in functions}
    for done, point in enumerate(points):
        size = "x".join(f"{part:g}" for part in point)
        with _failures(f"{item} failed at size {size}"):
            made = make(*[int(part) if part.is_integer() else part for part in point])
        for name, function in functions.items():
            progress(done, len(points), f"timing {name} at size {size}")
            with _failures(f"{name} failed at size {size}"):
                timings[name] += [[*point, spent] for spent in _times(function, made, repeats)]
    progress(len(points), len(points), "done")
    return timings


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Convert any exception of a user's function to InvalidRequest with the function's name."""
    try:
        yield
    except Exception as error:
        raise InvalidRequest(f"{what}: {type(error).__name__}: {error}") from error


def fit_cost_spec(timings: list[list[float]], degree: int, quantile: float) -> tuple[dict[str, Any], CostFunction, Any]:
    """Return the cost spec of timings, its fitted function, and the residuals."""
    spec = {"timings": timings, "degree": degree, "quantile": quantile}
    function, residuals = CostFunction.fit(Timings.model_validate(spec))
    return spec, function, residuals


def _refuse_too_few(points: Sequence[Size], degree: int) -> None:
    """Raise InvalidRequest before timing if there are too few sizes for the polynomial."""
    needed, different = comb(degree + len(points[0]), len(points[0])), len(set(points))
    if different < needed:
        raise InvalidRequest.from_faults(Fault(("sizes",), f"degree {degree} requires {needed} sizes, got {different}"))
    if len({len(point) for point in points}) > 1:
        raise InvalidRequest.from_faults(Fault(("sizes",), "must have the same number of dimensions"))


def format_polynomial(function: CostFunction) -> str:
    """Format a cost function as a polynomial in s.

    >>> format_polynomial(CostFunction.from_polynomial([0.5, 0.0, 2.0]))
    '0.5 + 2 s^2'
    """
    letters = "s" if function.dimensions == 1 else "abcdefgh"
    terms = []
    for powers, coefficient in zip(function.powers.tolist(), function.coefficients.tolist(), strict=True):
        factors = [f"{v}^{p}" if p > 1 else v for v, p in zip(letters, powers, strict=False) if p]
        if coefficient > 0:
            terms.append(" ".join([f"{coefficient:.4g}", *factors]))
    return " + ".join(terms) or "0"


def import_function(name: str) -> Callable[..., Any]:
    """Import ``module:function``, also from the current folder; raises InvalidRequest."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise InvalidRequest.from_faults(Fault(("function",), f"must be module:function, got {name!r}"))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        loaded = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InvalidRequest.from_faults(Fault(("function",), f"{name} cannot be imported: {error}")) from error
    if not callable(loaded):
        raise InvalidRequest.from_faults(Fault(("function",), f"{name} must be a function"))
    return loaded  # type: ignore[no-any-return]


def parse_size(text: str) -> Size:
    """Parse a size: a number, or several numbers joined by x.

    >>> parse_size("64"), parse_size("640x480")
    ((64.0,), (640.0, 480.0))
    """
    try:
        size = tuple(float(part) for part in text.lower().split("x"))
    except ValueError:
        size = ()
    if not size or not all(1 <= part < float("inf") for part in size):
        raise InvalidRequest.from_faults(
            Fault(("sizes",), f"must be numbers of at least 1, such as 64 or 640x480, got {text!r}")
        )
    return size


def _times(function: Callable[..., Any], item: Any, repeats: int) -> list[float]:
    """Call a few times to warm up, then return the time of each call in ms."""
    for _ in range(WARM_UP):
        function(item)
    spent = []
    for _ in range(repeats):
        started = time.perf_counter()
        function(item)
        spent.append((time.perf_counter() - started) * 1000)
    return spent
