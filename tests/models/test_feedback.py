"""Feedback's vocabulary: a decision's id gives back what was written into it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models import ArtifactRef
from models.base import LARGEST
from models.errors import InvalidRequest
from models.feedback import Estimates, Outcome, encode_decision_id, parse_decision_id

REF = ArtifactRef(kind="index", name="digits", version=3)
shares = st.none() | st.floats(0, 1)
DIGITS = "0123456789ab"
amounts = st.none() | st.floats(0, LARGEST)


@given(shares, shares, amounts, amounts, st.booleans())
@example(None, None, 1e16, 1e20, False)
@example(0.1 + 0.2, 1.0, LARGEST, 5e-324, True)
def test_a_decisions_id_is_read_as_it_was_written(
    accuracy: float | None, coverage: float | None, cost: float | None, time: float | None, is_randomized: bool
) -> None:
    """To the last bit of every number, however large or small; and it fits where an outcome takes it."""
    estimates = Estimates(accuracy=accuracy, coverage=coverage, cost=cost, time=time)
    longest = ArtifactRef(kind="s" * 40, name="n" * 63, version=10**15 - 1)
    for ref in (REF, longest):
        written = encode_decision_id(ref, DIGITS * 5, estimates, is_randomized=is_randomized)
        assert parse_decision_id(written) == (ref, DIGITS, estimates, is_randomized)
        assert Outcome(decision=written, correct=True).decision == written


BAD = ("", "index/digits", f"index/digits/0@{DIGITS}?", f"index/digits/3@{DIGITS}?cost=1&cost=2", "a/b/1", "a/b/1@0?")


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_id_is_refused(text: str) -> None:
    """With one message."""
    with pytest.raises(InvalidRequest, match="must be the decision field"):
        parse_decision_id(text)
