"""Batches are read a piece at a time, and nobody can tell from what comes of it."""

import json
import re
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import field_validator

from app.http.json_bodies import (
    PIECE,
    decode_json,
    find_duplicate_key,
    has_unique_keys,
    validate_body,
    validate_in_chunks,
)
from models.base import MAX_LISTED, Items, Value
from models.feedback import MAX_OUTCOMES, FeedbackRequest
from models.index import IndexEvaluateRequest
from models.policy import PolicyEvaluateRequest

FINE = {"item": "a", "sensors": {"x": ["1", 0.5]}}
ITEMS = [FINE, {"sensors": {}}, {}, {"sensors": 1}, {"item": "", "more": 1}, None]
FINE_BESIDE: list[dict[str, Any]] = [{}, {"budget": 1.0}]


def _whole(body: bytes) -> Any:
    return validate_body(PolicyEvaluateRequest, decode_json(body))


def _in_pieces(body: bytes) -> Any:
    return validate_in_chunks(PolicyEvaluateRequest, decode_json(body), len(body))


def _said(read: Any, *args: Any) -> Any:
    try:
        return read(*args)
    except RequestValidationError as error:
        faults = [fault for fault in error.errors() if fault["type"] != "too_short"]  # which nobody is told
        return sorted(str((fault["loc"], fault["type"], fault["msg"])) for fault in faults)


@given(
    items=st.lists(st.tuples(st.sampled_from(ITEMS), st.integers(1, PIECE)), max_size=6),
    other_fields=st.sampled_from([*FINE_BESIDE, {"budget": 1.0, "tradeoff": 1.0}, {"budget": -1, "more": 2}]),
)
@example(items=[(FINE, PIECE)], other_fields={})
@example(items=[(FINE, PIECE), ({}, 1)], other_fields={})
def test_pieces_say_what_the_whole_says(items: list[tuple[Any, int]], other_fields: dict[str, Any]) -> None:
    """Except where something is wrong beside the items: then it is told at once, with faults of the first piece."""
    body = json.dumps({**other_fields, "items": [item for item, times in items for _ in range(times)]}).encode()
    said, whole = _said(_in_pieces, body), _said(_whole, body)
    if other_fields in FINE_BESIDE:
        assert said == whole
    else:
        assert isinstance(said, list)
        assert {fault for fault in said if "cannot be combined" not in fault} <= set(whole)


Pairs = list[tuple[str, Any]]
NAMES = st.sampled_from(["a", "b", r"\u0061", ":", "a:b", r"\"", "é", ""])
"""Names as they are written, two of which are the same."""
SCALARS = st.sampled_from(["1", "-0.5", "null", "true", '""', '":"', r'"a\":"', r'"\u003a"'])


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{name}" : {value}' for name, value in pairs) + "}"


def _within(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    objects = st.lists(st.tuples(NAMES, texts), max_size=4).map(_object)
    return objects | st.lists(texts, max_size=3).map(lambda each: f"[{','.join(each)}]")


def _has_a_name_twice(text: str) -> bool:
    twice = list[bool]()

    def note(pairs: Pairs) -> None:
        names = [name for name, _ in pairs]
        twice.append(any(name in names[:place] for place, name in enumerate(names)))

    json.loads(text, object_pairs_hook=note)
    return any(twice)


@given(st.recursive(SCALARS, _within, max_leaves=12))
@example('{"a": {"b": 1}, "b": [{"a": ":"}]}')
@example(r'{"a": 1, "\u0061": ":"}')
def test_a_name_that_stands_twice_is_never_overlooked(text: str) -> None:
    twice, body = _has_a_name_twice(text), text.encode()
    surely_once = has_unique_keys(orjson.loads(body), body)
    assert (find_duplicate_key(body) is not None) == twice
    assert not (twice and surely_once)
    assert surely_once or twice or ":" in "".join(_texts(text))


def _texts(text: str) -> list[str]:
    """Give the texts that a JSON text holds, names among them, as they are written."""
    return re.findall(r'"(?:[^"\\]|\\.)*"', text)


NO_BATCHES = [b"", b"{", b"[]", b"{}", b'{"items": {}}', b'{"items": []}', b"1" * 5000, b"[" * 9999]


@pytest.mark.parametrize("body", NO_BATCHES)
def test_what_is_no_batch_is_refused_as_ever(body: bytes) -> None:
    kinds = []
    for read in (_whole, _in_pieces):
        with pytest.raises(Exception) as refused:  # noqa: PT011
            read(body)
        kinds.append((refused.type, str(refused.value)))
    assert kinds[0] == kinds[1]


def test_faults_beyond_what_is_listed_are_not_looked_for() -> None:
    wrong: list[dict[str, Any]] = [{str(column): [] for column in range(40)}] * (2 * MAX_LISTED // 40 + PIECE)
    with pytest.raises(RequestValidationError) as refused:
        validate_in_chunks(IndexEvaluateRequest, {"budget": 1, "items": wrong}, 1)
    (fault,) = refused.value.errors()
    assert "10000 faults" in fault["msg"]
    outcomes = [{"decision": "cascade/a/1@0123456789ab?accuracy=0.5", "correct": True}] * (MAX_OUTCOMES + 1)
    with pytest.raises(RequestValidationError) as refused:
        validate_in_chunks(FeedbackRequest, {"items": outcomes}, 1, MAX_OUTCOMES)
    (fault,) = refused.value.errors()
    assert fault["ctx"]["actual_length"] == MAX_OUTCOMES + 1


def test_what_stands_beside_the_items_is_read_once() -> None:
    """However many pieces there are: the time is that of the length, not of its square."""
    read: list[str] = []

    class Batch(Value):
        beside: str
        items: Items[dict[str, float]]

        @field_validator("beside")
        @classmethod
        def _note(cls, given: str) -> str:
            read.append(given)
            return given

    items = [{"a": float(place)} for place in range(10 * PIECE + 1)]
    batch = validate_in_chunks(Batch, {"beside": "once", "items": items}, 100_000_000)
    assert batch == Batch(beside="once", items=tuple(items))
    assert read == ["once", "once"]  # the batch's, and the one that it is compared with
