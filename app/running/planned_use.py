"""Planned maximum of an item: upper bounds on the cost and tokens of its calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.running.embedding import needs_embedding
from app.running.endpoint_caller import EndpointCaller
from app.running.item_run import ItemRun
from app.running.majority_vote import get_sample_count
from app.running.protocols.message import Chat
from app.serving.catalog import LoadedArtifact
from models.conversation import BYTES_PER_TOKEN, estimate_text_tokens, read_conversation, split_prompts
from models.endpoint import ChatEndpoint, Endpoint
from solvers.base import Plan

ATTACHMENT_TOKENS = 2000
"""Tokens of an image, or of another attachment that a chat contains."""
DEFAULT_OUTPUT_TOKENS = 4096
"""Tokens of an answer that neither the request nor the endpoint limits."""
_OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class CallUse:
    """The maximum cost of a call, in the artifact's unit, and its maximum number of tokens."""

    cost: float = 0.0
    tokens: int = 0

    def __add__(self, other: "CallUse") -> "CallUse":
        return CallUse(self.cost + other.cost, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """The planned maximum of an item.

    Attributes:
        calls: use of each call, by name.
        full: use of all calls together.
        cheapest: the classifier that can answer at the lowest cost; None if answers combine several calls.
    """

    calls: Mapping[str, CallUse]
    full: CallUse
    cheapest: str | None

    @property
    def least(self) -> CallUse | None:
        """The planned maximum with the cheapest classifier only; None if there is none."""
        return None if self.cheapest is None else self.calls[self.cheapest]


def plan_use(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, caller: EndpointCaller, names: Iterable[str] | None = None
) -> PlannedUse:
    """Return the planned maximum of an item: each classifier is called once.

    Args:
        names: names that may be called; None for all that the artifact may call.
    """
    kind, plan, item = loaded.kind, loaded.plan, item_run.item
    means, answering = kind.mean_costs(plan), kind.list_answering_names(plan)
    tokens = count_input_tokens(item.item)
    uses = {
        name: _plan_call(caller, name, item.item, tokens, means.get(name, 0.0))
        for name in dict.fromkeys((*kind.list_called_names(plan), *answering))
    }
    chosen = [item_run.classifier] if item_run.classifier is not None else (uses if names is None else names)
    full = sum((uses[name] for name in chosen if name in uses), CallUse())
    if needs_embedding(loaded) and item.embedding is None and item_run.classifier is None:
        full += _plan_embedding(loaded, item.text if item.text is not None else item.item)
    open_circuits = caller.open_circuits()
    able = [one for one in answering if caller.get_endpoint(one) is not None and one not in open_circuits]
    cheapest = min(able or answering, key=lambda name: uses[name].cost, default=None)
    return PlannedUse(uses, full, cheapest)


def _plan_embedding(loaded: LoadedArtifact[Plan], text: Any) -> CallUse:
    """Return the maximum cost of an item's embedding.

    Each part of a conversation is embedded at the cost of a text.
    """
    cost = loaded.kind.embedding_cost(loaded.plan)
    if not isinstance(text, str):
        return CallUse(cost, count_input_tokens(text))
    texts = split_prompts([text], read_conversation(loaded.record.params)).texts
    return CallUse(len(texts) * cost, sum(map(estimate_text_tokens, texts)))


def _plan_call(caller: EndpointCaller, name: str, item: Any, tokens: int, mean_cost: float) -> CallUse:
    """Return the maximum cost of a call.

    It follows from the endpoint's prices, else it is the mean cost in the artifact's dataset.
    """
    endpoint = caller.get_endpoint(name)
    if endpoint is None:
        return CallUse()
    use = _price_plan(endpoint, item, tokens, mean_cost)
    judge = endpoint.judge if isinstance(endpoint, ChatEndpoint) else None
    judging = None if judge is None or judge == name else caller.get_endpoint(judge)
    return use if judging is None else use + _price_plan(judging, item, tokens, 0.0)


def _price_plan(endpoint: Endpoint, item: Any, tokens: int, mean_cost: float) -> CallUse:
    sent, came, samples = 0, 0, get_sample_count(endpoint, item)
    if isinstance(endpoint, ChatEndpoint):
        sent = tokens + count_input_tokens(endpoint.system or "")
        came = limit_output_tokens(endpoint, item)
    prices = endpoint.prices
    if prices is None or (not isinstance(endpoint, ChatEndpoint) and prices.input_per_million):
        return CallUse(mean_cost, samples * (sent + came))
    return CallUse(samples * prices.price_tokens(sent, came), samples * (sent + came))


def limit_output_tokens(endpoint: ChatEndpoint, item: Any) -> int:
    """Return the maximum number of output tokens for an item."""
    options = item.options if isinstance(item, Chat) else {}
    given = [options.get(name) for name in _OUTPUT_LIMITS]
    limits = [one for one in (*given, endpoint.max_tokens) if isinstance(one, int)]
    answers = options.get("n", 1)
    return (min(limits) if limits else DEFAULT_OUTPUT_TOKENS) * (answers if isinstance(answers, int) else 1)


def count_input_tokens(item: Any) -> int:
    """Estimate the tokens of an item, or of a chat with its tools. O(size).

    >>> count_input_tokens("three"), count_input_tokens({"url": "data:image/png;base64,AAAA"})
    (2, 2003)
    """
    waiting = [[item.messages, item.options] if isinstance(item, Chat) else item]
    size, attachments = 0, 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
            size += sum(len(name) + 4 for name in each)
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, str) and each.startswith("data:"):
            attachments += 1
        elif isinstance(each, str):
            size += len(each) if each.isascii() else len(each.encode(errors="replace"))
        else:
            size += len(orjson.dumps(each))
    return -(-size // BYTES_PER_TOKEN) + attachments * ATTACHMENT_TOKENS
