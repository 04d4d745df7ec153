"""Turns of conversations: staying is cheaper than switching, and an escalation holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Floats
from solvers.conversations import (
    NEW_CONVERSATION,
    ConversationState,
    TokenPrices,
    advance_state,
    allow_models,
    price_turn,
)

M = 3
NAMES = ("a", "b", "c")
STRENGTHS = {"a": 1.0, "b": 5.0, "c": 20.0}
amounts = st.floats(0, 100, width=32)
arrays = st.lists(amounts, min_size=M, max_size=M).map(np.array)
shares = st.lists(st.floats(0, 1, width=32), min_size=M, max_size=M).map(np.array)
tokens = st.integers(0, 10_000)


@st.composite
def prices(draw: st.DrawFn) -> TokenPrices:
    """Draw prices with a discount of cached tokens."""
    full = draw(arrays)
    return TokenPrices(full, full * draw(shares), draw(arrays))


@given(one=prices(), prompt=tokens, answer=tokens, cached=st.lists(tokens, min_size=M, max_size=M).map(np.array))
def test_a_cached_prefix_never_costs_more(one: TokenPrices, prompt: int, answer: int, cached: Floats) -> None:
    none, whole = np.zeros(M), np.full(M, prompt)
    costs = [price_turn(one, prompt, answer, each) for each in (none, cached, whole)]
    assert (costs[0] >= costs[1] - 1e-6).all()
    assert (costs[1] >= costs[2] - 1e-6).all()
    assert costs[0] == pytest.approx(prompt * one.input + answer * one.output)
    assert costs[2] == pytest.approx(prompt * one.cached_input + answer * one.output)


@given(
    one=prices(),
    estimates=shares,
    prompt=tokens,
    cached=tokens,
    last=st.integers(0, M - 1),
    price=st.floats(0, 1e6, width=32),
)
def test_a_model_that_was_chosen_stays_chosen_with_its_prefix_cached(
    one: TokenPrices, estimates: Floats, prompt: int, cached: int, last: int, price: float
) -> None:
    """And a switch gains more than it costs."""
    prefix = np.zeros(M)
    before = int(np.argmax(estimates * price - price_turn(one, prompt, 0, prefix)))
    prefix[last] = cached
    costs = price_turn(one, prompt, 0, prefix)
    after = int(np.argmax(estimates * price - costs))
    assert before != last or after == last
    assert after == last or price * (estimates[after] - estimates[last]) >= costs[after] - costs[last]


@given(answers=st.lists(st.sampled_from(NAMES), max_size=12), latch=st.integers(0, 4))
def test_an_escalation_holds_for_the_turns_of_its_latch(answers: list[str], latch: int) -> None:
    """While it holds, no weaker model may answer; without a latch, every model always may."""
    state, held_until, held_by = NEW_CONVERSATION, -1, ""
    strengths = np.array([STRENGTHS[name] for name in NAMES])
    for turn, name in enumerate(answers):
        allowed = allow_models(state, NAMES, strengths)
        least = STRENGTHS[held_by] if turn <= held_until else 0.0
        assert allowed.tolist() == [STRENGTHS[one] >= least for one in NAMES]
        if not allowed[NAMES.index(name)]:
            name = held_by
        floor = STRENGTHS[held_by] if turn <= held_until else STRENGTHS["a"]
        if latch and STRENGTHS[name] > floor:
            held_until, held_by = turn + latch, name
        state = advance_state(state, name, 100 * turn, STRENGTHS, latch)
        assert state.cached[name] == 100 * turn


def test_a_state_of_models_that_are_gone_restricts_nothing() -> None:
    state = ConversationState({"gone": 5}, "gone", 3)
    assert allow_models(state, NAMES, np.arange(3.0)).all()
