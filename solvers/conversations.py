"""Turns of a conversation: the cost of each model, and the models that may answer after an escalation.

Providers bill a prefix that they have cached at a discount. The provider of a model that answered an earlier turn has
cached the prefix up to that turn, so that staying is cheaper than switching. After an escalation, weaker models are
excluded for some turns (latch). Shapes: m models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Prices of a token of each model, (m,), in the unit of costs."""

    input: Floats
    cached_input: Floats
    output: Floats


@dataclass(frozen=True, slots=True)
class ConversationState:
    """State of a conversation after its earlier turns.

    Attributes:
        cached: by model, the number of tokens that its provider has read: the prompt of its last turn.
        escalated_to: the model that answers until the latch ends; empty: none.
        latch_turns: number of turns until the latch ends.
    """

    cached: Mapping[str, int]
    escalated_to: str = ""
    latch_turns: int = 0


NEW_CONVERSATION = ConversationState({})
"""The state before the first turn."""


def price_turn(
    prices: TokenPrices, input_tokens: float, output_tokens: Floats | float, cached_tokens: Floats
) -> Floats:
    """Return the expected cost of a turn with each model, (m,).

    Args:
        input_tokens: tokens of the prompt: the whole conversation so far.
        output_tokens: expected tokens of the answer; one number, or (m,).
        cached_tokens: (m,), tokens of the prompt that each model's provider has cached; at most ``input_tokens``.
    """
    cached = np.minimum(cached_tokens, input_tokens)
    uncached = input_tokens - cached
    return np.asarray(uncached * prices.input + cached * prices.cached_input + output_tokens * prices.output)


def allow_models(state: ConversationState, names: Sequence[str], strengths: Floats) -> Bools:
    """Return which models may answer a turn, (m,): during a latch, only models at least as strong as the escalated one.

    Args:
        strengths: (m,), the order of models, such as their mean costs.
    """
    if not state.latch_turns or state.escalated_to not in names:
        return np.ones(len(names), dtype=bool)
    return np.asarray(strengths >= strengths[list(names).index(state.escalated_to)])


def advance_state(
    state: ConversationState, answered_by: str, input_tokens: int, strengths: Mapping[str, float], latch: int
) -> ConversationState:
    """Return the state after a turn.

    Args:
        answered_by: the model that answered.
        input_tokens: tokens of the turn's prompt.
        strengths: by name, the order of models.
        latch: number of further turns that an escalation holds; 0: none.
    """
    after = replace(
        state, cached={**state.cached, answered_by: input_tokens}, latch_turns=max(state.latch_turns - 1, 0)
    )
    strength = strengths.get(answered_by, -np.inf)
    previous = strengths.get(state.escalated_to, -np.inf) if state.latch_turns else min(strengths.values(), default=0.0)
    if latch and strength > previous:
        return replace(after, escalated_to=answered_by, latch_turns=latch)
    return after if after.latch_turns else replace(after, escalated_to="")
