"""Confidence by agreement: the share of a model's answers that are equal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from app.running.protocols.message import Chat
from app.running.protocols.openai_chat_client import normalize_answer
from models.endpoint import ChatEndpoint, Endpoint
from parsimony.runs.steps import CallResult


def get_sample_count(endpoint: Endpoint | None, item: object) -> int:
    """Return the number of answers that a call of an endpoint requests.

    It is 1 for a chat that requests several answers itself.
    """
    if not isinstance(endpoint, ChatEndpoint) or (isinstance(item, Chat) and item.options.get("n", 1) not in (None, 1)):
        return 1
    return endpoint.samples


def take_majority_vote(results: Sequence[CallResult]) -> CallResult:
    """Return the most frequent answer, with its share of the calls as confidence.

    Ties go to the first answer. Failed calls count as other answers. If an answer is accepted or escalated whatever its
    confidence, its confidence is unchanged. Costs, tokens, and attempts are those of all calls.

    >>> answers = [CallResult("m", label=label, cost=1.0) for label in ("yes", "No", "no.")]
    >>> combined = take_majority_vote(answers)
    >>> combined.label, round(combined.confidence, 2), combined.cost
    ('No', 0.67, 3.0)
    """
    answered = [one for one in results if one.error is None and one.label is not None]
    counts = Counter(normalize_answer(str(one.label)) for one in answered)
    chosen = max(answered, key=lambda one: counts[normalize_answer(str(one.label))], default=results[0])
    share = counts[normalize_answer(str(chosen.label))] / len(results) if answered else None
    costs = [one.cost for one in results if one.cost is not None]
    return replace(
        chosen,
        confidence=chosen.confidence if chosen.verdict else share,
        cost=sum(costs) if costs else None,
        seconds=max(one.seconds for one in results),
        attempts=sum(one.attempts for one in results),
        tokens=(sum(one.tokens[0] for one in results), sum(one.tokens[1] for one in results)),
        is_paid=any(one.is_paid for one in results),
    )
