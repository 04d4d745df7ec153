"""Query strings that the hot path reads itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.fast_router import plain_values
from app.serving.answers import LookUp
from models.cascade import CascadeQuery
from solvers import cascade


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"", {}),
        (b"deadline=5", {"deadline": "5"}),
        (b"deadline=5&size=", {"deadline": "5", "size": ""}),
        (b"a=b=c", {"a": "b=c"}),
        (b"deadline", {"deadline": ""}),
    ],
)
def test_a_plain_query_string_is_read(query: bytes, values: dict[str, str]) -> None:
    assert plain_values(query) == values


@pytest.mark.parametrize(
    "query",
    [b"deadline=%35", b"deadline=1+1", b"deadline=5&deadline=6", b"version=2", b"deadline=5&version=2", b"version"],
)
def test_anything_unusual_is_left_to_the_route(query: bytes) -> None:
    assert plain_values(query) is None


@given(st.binary(max_size=60))
def test_no_query_string_is_an_error(query: bytes) -> None:
    values = plain_values(query)
    assert values is None or "version" not in values


def test_a_look_up_knows_its_path() -> None:
    look_up = LookUp(cascade.kind, "/v1/cascades/", "/decision", CascadeQuery)
    assert look_up.path == "/v1/cascades/{name}/decision"
