"""Query strings that the hot path reads itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.fast_router import parse_simple_query


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"", {}),
        (b"deadline=5", {"deadline": "5"}),
        (b"deadline=5&size=", {"deadline": "5", "size": ""}),
        (b"a=b=c", {"a": "b=c"}),
        (b"deadline", {"deadline": ""}),
        *((query, None) for query in (b"deadline=%35", b"deadline=1+1", b"deadline=5&deadline=6", b"version")),
        *((query, None) for query in (b"version=2", b"deadline=5&version=2")),
    ],
)
def test_a_plain_query_string_is_read_and_anything_unusual_left_to_the_route(
    query: bytes, values: dict[str, str] | None
) -> None:
    assert parse_simple_query(query) == values


@given(st.binary(max_size=60))
def test_no_query_string_is_an_error(query: bytes) -> None:
    values = parse_simple_query(query)
    assert values is None or "version" not in values
