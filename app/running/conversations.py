"""Turns of chats: text to embed, cost of switching models, and the latch.

The latch holds an escalation for some turns. The key of the state after a turn is the session's id,
``metadata.session_id`` of the request. Without an id, the key is a hash of the messages up to the answer, which the
next turn repeats. If the store is unavailable, each turn is decided separately.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import orjson

from app.running.endpoint_caller import EndpointCaller
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies
from app.running.planned_use import count_input_tokens
from app.running.protocols.message import Chat
from app.running.protocols.openai_chat_client import get_last_user_text
from app.serving.catalog import LoadedArtifact
from app.store.conversations import StoredConversation
from models.conversation import ConversationOptions, encode_chat, read_conversation, text_of_message
from models.endpoint import ChatEndpoint
from models.errors import StoreRefused, StoreUnavailable
from models.prices import MILLION, Prices
from parsimony.runs.steps import RunAnswer
from solvers.base import Plan
from solvers.conversations import (
    NEW_CONVERSATION,
    ConversationState,
    TokenPrices,
    advance_state,
    allow_models,
    price_turn,
)

logger = logging.getLogger("parsimony.conversations")
T = TypeVar("T")
STATE_TIMEOUT_S = 1.0
"""A turn is decided by itself if the store does not answer within this time."""
PROVIDER_CACHE_S = 300.0
"""How long providers are expected to cache a prompt, in seconds."""
DEFAULT_ANSWER_TOKENS = 300
"""Expected tokens of the first answer of a conversation; later ones are expected to be like those before."""


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """A turn of a conversation, and the state before it.

    Attributes:
        session: the conversation, if it has an id.
        options: the artifact's conversation options.
        state: state after the earlier turns.
        chat: the request.
        input_tokens: estimated tokens of the prompt.
    """

    session: str | None
    options: ConversationOptions
    state: ConversationState
    chat: Chat
    input_tokens: int


def format_chat_for_embedding(loaded: LoadedArtifact[Plan], chat: Chat) -> Any:
    """Return the text to embed for a chat.

    It is all messages if the artifact has conversation options, else the last user message.
    """
    has_options = read_conversation(loaded.record.params) is not None
    return encode_chat(chat.messages) if has_options else get_last_user_text(chat)


async def begin_turn(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies
) -> tuple[ItemRun, ConversationTurn | None]:
    """Return the turn, and the chat's run with the costs of this turn and the latch."""
    options, chat = read_conversation(loaded.record.params), item_run.item.item
    if options is None or not isinstance(chat, Chat):
        return item_run, None
    session = _session_of(loaded, chat, dependencies)
    before = session or _prefix_of(loaded, chat.messages, dependencies)
    stored = None if before is None else await _in_store(dependencies.conversations.get_state, before)
    state = NEW_CONVERSATION if stored is None else _read_state(stored)
    tokens = count_input_tokens(chat)
    names = [name for name in loaded.kind.list_answering_names(loaded.plan) if name not in item_run.excluded]
    costs = price_models(names, dependencies.caller, state, tokens, _expect_answer(chat))
    latched = _list_latched(loaded, names, state)
    return replace(item_run, call_costs=costs, latched=latched), ConversationTurn(session, options, state, chat, tokens)


async def end_turn(
    loaded: LoadedArtifact[Plan], turn: ConversationTurn | None, answer: RunAnswer, dependencies: RunDependencies
) -> None:
    """Store the state after an answered turn."""
    if turn is None or answer.answered_by is None:
        return
    strengths = loaded.kind.mean_costs(loaded.plan)
    state = advance_state(turn.state, answer.answered_by, turn.input_tokens, strengths, turn.options.latch)
    message = {"role": "assistant", "content": answer.text if answer.text is not None else answer.label}
    after = turn.session or _prefix_of(loaded, [*turn.chat.messages, message], dependencies)
    stored = StoredConversation(
        cached=dict(state.cached), escalated_to=state.escalated_to, latch_turns=state.latch_turns, at=time.time()
    )
    if after is not None:
        await _in_store(dependencies.conversations.put_state, after, stored)


def price_models(
    names: Sequence[str], caller: EndpointCaller, state: ConversationState, input_tokens: int, output_tokens: float
) -> dict[str, float] | None:
    """Return the expected cost of the turn with each model.

    Return None unless all models have token prices.
    """
    endpoints = [caller.get_endpoint(name) for name in names]
    prices = [one.prices for one in endpoints if isinstance(one, ChatEndpoint) and one.prices is not None]
    if not prices or len(prices) < len(names) or not all(one.input_per_million for one in prices):
        return None
    cached = np.array([state.cached.get(name, 0) for name in names], dtype=float)
    costs = price_turn(_token_prices(prices), input_tokens, output_tokens, cached)
    return {name: float(cost) + one.per_call for name, cost, one in zip(names, costs, prices, strict=True)}


def _token_prices(prices: Sequence[Prices]) -> TokenPrices:
    sent = [one.input_per_million for one in prices]
    discounted = [one.cached_per_million for one in prices]
    came = [one.output_per_million for one in prices]
    return TokenPrices(*(np.array(each) / MILLION for each in (sent, discounted, came)))


def _list_latched(loaded: LoadedArtifact[Plan], names: Sequence[str], state: ConversationState) -> frozenset[str]:
    """Return the weaker classifiers to exclude if a stronger one can be called."""
    means = loaded.kind.mean_costs(loaded.plan)
    allowed = allow_models(state, names, np.array([means.get(name, 0.0) for name in names]))
    latched = frozenset(name for name, may in zip(names, allowed.tolist(), strict=True) if not may)
    return latched if len(latched) < len(names) else frozenset()


def _expect_answer(chat: Chat) -> float:
    """Return the expected tokens of the answer: the mean of earlier answers in the conversation."""
    answers = [count_input_tokens(text_of_message(one)) for one in chat.messages if one.get("role") == "assistant"]
    return sum(answers) / len(answers) if answers else DEFAULT_ANSWER_TOKENS


def _session_of(loaded: LoadedArtifact[Plan], chat: Chat, dependencies: RunDependencies) -> str | None:
    metadata = chat.options.get("metadata")
    session = metadata.get("session_id") if isinstance(metadata, Mapping) else None
    if not isinstance(session, str) or not session:
        return None
    return _write_key(loaded, dependencies, ["session", session])


def _prefix_of(
    loaded: LoadedArtifact[Plan], messages: Sequence[Mapping[str, Any]], dependencies: RunDependencies
) -> str | None:
    """Return the key of a conversation by its messages up to the last answer; None before the first answer."""
    answers = [place for place, one in enumerate(messages) if one.get("role") == "assistant"]
    if not answers:
        return None
    texts = [[one.get("role"), text_of_message(one)] for one in messages[: answers[-1] + 1]]
    return _write_key(loaded, dependencies, ["messages", texts])


def _write_key(loaded: LoadedArtifact[Plan], dependencies: RunDependencies, parts: list[Any]) -> str:
    """Return the key of a conversation, which is specific to client and artifact."""
    return orjson.dumps([loaded.ref.kind, loaded.ref.name, dependencies.client, *parts]).decode()


def _read_state(stored: StoredConversation) -> ConversationState:
    """Parse a stored state, without cached tokens that providers have since dropped."""
    is_cached = time.time() - stored.at < PROVIDER_CACHE_S
    return ConversationState(stored.cached if is_cached else {}, stored.escalated_to, stored.latch_turns)


async def _in_store(work: Callable[..., T], *args: object) -> T | None:
    """Use the store in a thread; return None if it does not answer in time."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(work, *args), STATE_TIMEOUT_S)
    except (StoreUnavailable, StoreRefused, TimeoutError) as error:
        logger.warning("conversation state unavailable error=%s", error or "timeout")
        return None
