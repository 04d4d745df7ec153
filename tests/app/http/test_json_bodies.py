"""Batches are read a piece at a time, and nobody can tell from what comes of it."""

import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import field_validator

from app.http.json_bodies import PIECE, in_pieces, parsed, validated
from models.base import MOST_LISTED, Items, Value
from models.feedback import MOST_OUTCOMES, FeedbackRequest
from models.index import PredictionRequest
from models.policy import RolloutRequest

FINE = {"item": "a", "sensors": {"x": ["1", 0.5]}}
ITEMS = [FINE, {"sensors": {}}, {}, {"sensors": 1}, {"item": "", "more": 1}, None]
FINE_BESIDE: list[dict[str, Any]] = [{}, {"budget": 1.0}]


def _whole(body: bytes) -> Any:
    return validated(RolloutRequest, parsed(body))


def _in_pieces(body: bytes) -> Any:
    return in_pieces(RolloutRequest, parsed(body), len(body))


def _said(read: Any, *args: Any) -> Any:
    """Give what is read, or the faults in any order."""
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
        assert {fault for fault in said if "not both" not in fault} <= set(whole)


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
    wrong = [{str(column): "text" for column in range(40)}] * (2 * MOST_LISTED // 40 + PIECE)
    with pytest.raises(RequestValidationError) as refused:
        in_pieces(PredictionRequest, {"budget": 1, "items": wrong}, 1)
    (fault,) = refused.value.errors()
    assert fault["msg"] == "has more than 10000 faults, too many to list"


def test_more_items_than_a_type_allows_are_refused_with_their_number() -> None:
    outcomes = [{"decision": "cascade/a/1?accuracy=0.5", "correct": True}] * (MOST_OUTCOMES + 1)
    with pytest.raises(RequestValidationError) as refused:
        in_pieces(FeedbackRequest, {"items": outcomes}, 1, MOST_OUTCOMES)
    (fault,) = refused.value.errors()
    assert fault["ctx"]["actual_length"] == MOST_OUTCOMES + 1


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
    batch = in_pieces(Batch, {"beside": "once", "items": items}, 100_000_000)
    assert batch == Batch(beside="once", items=tuple(items))
    assert read == ["once", "once"]  # the batch's, and the one that it is compared with
