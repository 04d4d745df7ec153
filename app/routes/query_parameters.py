"""Query parameters from a model's fields, for GET decisions and table uploads."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_origin

from fastapi import Depends, Query
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import annotations_in, budget_field, query_field, require_store
from models import Fault, InvalidRequest, Value
from models.limits import HasBudget
from solvers import KINDS, AnyKind
from solvers.kind import make_query

MAX_LIST_LENGTH = 1000
"""A longer list must be sent in a body."""


def make_query_parameters(model: type[Value], prefix: str = "") -> list[Parameter]:
    """Return a query parameter for each field of a model that fits a query string.

    Args:
        prefix: text to prepend to the descriptions.
    """
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(model, name, prefix))
        for name, field in model.model_fields.items()
        if _fits_a_query_string(field)
    ]


def declare_parameters(
    route: Callable[..., Any], required: dict[str, Any], optional: dict[str, Any], model: type[Value]
) -> None:
    """Set a route's parameters for FastAPI: annotations by name, and a model's fields."""
    keyword = Parameter.KEYWORD_ONLY
    every = [Parameter(name, keyword, annotation=each) for name, each in required.items()]
    every += [Parameter(name, keyword, default=None, annotation=each) for name, each in optional.items()]
    route.__signature__ = signature(route).replace(  # type: ignore[attr-defined]
        parameters=[*every, *make_query_parameters(model)]
    )


def make_kinds_router(add_route: Callable[[JsonRouter, AnyKind], None]) -> JsonRouter:
    """Return a router with one route per kind, because limits differ by kind."""
    router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(require_store)])
    for kind in KINDS.values():
        add_route(router, kind)
    return router


def needs_body(model: type[Value]) -> bool:
    """Return whether a required field does not fit a query string."""
    return any(field.is_required() and not _fits_a_query_string(field) for field in model.model_fields.values())


def from_parameters(model: type[Value], given: dict[str, Any]) -> Any:
    """Return a model from the parameters that are not None; raises InvalidRequest."""
    return make_query(model, **{name: _one_or_many(model.model_fields[name], name, v) for name, v in given.items()})


def _annotation(model: type[Value], name: str, prefix: str) -> Any:
    """Return a parameter's type, with its description and bounds."""
    field = model.model_fields[name]
    parts = _parts(field)
    element = next((get_args(part)[0] for part in parts if get_origin(part) is tuple), None)
    if element is not None:
        most = max(_lengths(parts))
        query = Query(max_length=most, description=f"{prefix}{field.description}; may be repeated")
        query.examples = [["name"]] if field.default == () else [[1.0]]
        return Annotated[list[element] | None, query]  # type: ignore[valid-type]
    if name == "budget" and issubclass(model, HasBudget):
        return Annotated[field.annotation, budget_field(model, prefix)]
    optional = field.annotation if field.is_required() else field.annotation | None  # type: ignore[operator]
    return Annotated[optional, query_field(model, name, prefix)]


def _parts(field: FieldInfo) -> list[Any]:
    return [*annotations_in(field.annotation), *field.metadata]


def _lengths(parts: list[Any]) -> list[int]:
    """Return the bounds on lengths in a field's type."""
    return [part.max_length for part in parts if getattr(part, "max_length", None)]


def _fits_a_query_string(field: FieldInfo) -> bool:
    """Return whether a field is a number, a text, or a short list of these."""
    parts = _parts(field)
    if any(get_origin(part) is dict or (isinstance(part, type) and issubclass(part, BaseModel)) for part in parts):
        return False
    is_list = any(get_origin(part) is tuple for part in parts)
    return not is_list or 0 < max(_lengths(parts), default=0) <= MAX_LIST_LENGTH


def _one_or_many(field: FieldInfo, name: str, value: Any) -> Any:
    """Return a repeated parameter in the form of its field: a list, or a single number."""
    if not isinstance(value, list):
        return value
    if not value:
        raise InvalidRequest.from_faults(Fault((name,), f"must have a value, as in {name}=5"))
    may_be_one = field.default is None
    return value[0] if len(value) == 1 and may_be_one else tuple(value)
