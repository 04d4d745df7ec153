"""Calls of a log: reads them from records, joins them with feedback, and computes their costs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.importing.log_formats import OUTCOMES, CallPointers, find_value
from app.running.protocols.openai_chat_client import parse_item
from models.columns import parse_boolean
from models.conversation import encode_chat, text_of_message
from models.errors import Fault, InvalidRequest
from models.prices import Prices


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call of a model for a prompt; unknown numbers are None."""

    classifier: str
    text: str
    request: str
    outcome: float | None
    cost: float | None
    confidence: float | None
    propensity: float | None


@dataclass(slots=True)
class ImportReport:
    """The numbers of used calls, and of unused records by reason.

    Attributes:
        records: number of records that were read.
        calls: number of calls that were used.
        unused: number of records by the reason why they were not used.
        matched: number of records with feedback.
        shortened_calls: number of used calls whose text is the last user message of several.
    """

    records: int = 0
    calls: int = 0
    unused: Counter[str] = field(default_factory=Counter)
    matched: int = 0
    shortened_calls: int = 0

    def skip_line(self) -> None:
        """Count a line that has no record."""
        self.records += 1
        self.unused["not a JSON object"] += 1


def read_calls(
    records: Iterable[Mapping[str, Any]],
    pointers: CallPointers,
    prices: Mapping[str, Prices],
    feedback: Mapping[str, float],
    report: ImportReport,
    seen: set[tuple[str, str]],
    *,
    whole_chats: bool = False,
) -> Iterator[LoggedCall]:
    """Yield the usable calls of a log; each request counts once.

    Args:
        prices: prices by model, for calls without a cost in the log.
        feedback: outcomes from 0 to 1, by request.
        report: counts used and unused records.
        seen: the requests of earlier files, with their models; those of this file are added.
        whole_chats: whether the text of a call is its chat as JSON, instead of the last user message.
    Raises:
        InvalidRequest: an outcome is outside of 0 to 1, so outcomes are probably on another scale.
    """
    for record in records:
        report.records += 1
        call = _read_call(record, pointers, prices, extract_chat if whole_chats else extract_prompt)
        if isinstance(call, str):
            report.unused[call] += 1
            continue
        named = next((one for one in list_requests(record, pointers) if one in feedback), None) if feedback else None
        if named is not None:
            report.matched += 1
            call = replace(call, outcome=feedback[named])
        if call.outcome is not None and not 0 <= call.outcome <= 1:
            message = f"must be from 0 to 1, got {call.outcome:g} in record {report.records}: rescale all outcomes"
            raise InvalidRequest.from_faults(Fault(("outcome",), message))
        reason = _why_unusable(call)
        if reason:
            report.unused[reason] += 1
            continue
        if call.request:
            if (call.request, call.classifier) in seen:
                report.unused["a duplicate of another request"] += 1
                continue
            seen.add((call.request, call.classifier))
        report.calls += 1
        report.shortened_calls += not whole_chats and _has_turns(find_value(record, pointers.text))
        yield call


def list_requests(record: Mapping[str, Any], pointers: CallPointers) -> list[str]:
    """Return the ids of a record's request: its own, and that of its trace."""
    ids = [find_value(record, (one,)) for one in pointers.request]
    return [str(one) for one in ids if one is not None]


def _why_unusable(call: LoggedCall) -> str:
    if call.outcome is None:
        return "no outcome: add feedback, or a pointer to the outcome"
    if call.propensity is not None and not 0 < call.propensity <= 1:
        return "a propensity that is not above 0 and at most 1"
    return "no cost: add the model's prices" if call.cost is None else ""


def _read_call(
    record: Mapping[str, Any],
    pointers: CallPointers,
    prices: Mapping[str, Prices],
    extract: Callable[[Any], str],
) -> LoggedCall | str:
    """Return the call of a record, or the reason why it has none."""
    classifier, text = find_value(record, pointers.classifier), extract(find_value(record, pointers.text))
    if not isinstance(classifier, str | int):
        return "no model"
    if not text:
        return "no prompt"
    cost = _parse_number(find_value(record, pointers.cost))
    if cost is None and str(classifier) in prices:
        tokens = (_parse_number(find_value(record, each)) for each in (pointers.input_tokens, pointers.output_tokens))
        sent, came = tokens
        cost = None if sent is None or came is None else prices[str(classifier)].price_tokens(sent, came)
    if cost is not None and cost < 0:
        return "a negative cost"
    return LoggedCall(
        str(classifier),
        text,
        str(find_value(record, pointers.request) or ""),
        _parse_outcome(find_value(record, pointers.outcome)),
        cost,
        _parse_number(find_value(record, pointers.confidence)),
        _parse_number(find_value(record, pointers.propensity)),
    )


def extract_prompt(prompt: Any) -> str:
    """Return the text of a prompt; for a chat, the last user message.

    The router embeds this text.
    """
    messages = _list_messages(prompt)
    users = [each for each in messages if each["role"] == "user"]
    return text_of_message((users or messages)[-1]) if messages else ""


def extract_chat(prompt: Any) -> str:
    """Return a prompt as a chat in JSON; empty if the last user message is empty."""
    return encode_chat(_list_messages(prompt)) if extract_prompt(prompt) else ""


def _has_turns(prompt: Any) -> bool:
    """Return whether a prompt is a chat with several user messages."""
    return len([each for each in _list_messages(prompt) if each["role"] == "user"]) > 1


def _list_messages(prompt: Any) -> list[dict[str, Any]]:
    """Return the messages of a prompt; a plain text is one user message."""
    prompt = parse_item(prompt)
    if isinstance(prompt, Mapping):
        prompt = prompt.get("messages", ())
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = [each for each in prompt if isinstance(each, Mapping)] if isinstance(prompt, Sequence) else []
    return [{"role": str(each.get("role") or ""), "content": _list_parts(each)} for each in messages]


def _list_parts(message: Mapping[str, Any]) -> Any:
    """Return the content of a message; OpenTelemetry's parts in OpenAI's form."""
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message.get("content")
    return [{"type": "text", "text": each.get("content")} for each in parts if isinstance(each, Mapping)]


def _parse_outcome(value: Any) -> float | None:
    """Return an outcome as a number; booleans become 1 or 0, other values None."""
    truth = parse_boolean(value)
    return _parse_number(value) if truth is None else truth


def _parse_number(value: Any) -> float | None:
    """Return a finite number, or None.

    >>> _parse_number("0.5"), _parse_number("x"), _parse_number(None), _parse_number(float("nan"))
    (0.5, None, None, None)
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < float("inf") else None


def read_feedback(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the outcomes of requests, from records with an id and an outcome.

    The outcome is ``correct``, ``quality``, or ``score``. Later records replace earlier ones. Records with a named
    score, as in Langfuse's exports, are skipped if the name is not that of an outcome.

    Raises InvalidRequest for an outcome outside of 0 to 1.
    """
    outcomes = {}
    for number, record in enumerate(records, start=1):
        if record.get("name") is not None and "value" in record and record["name"] not in OUTCOMES:
            continue
        request = find_value(record, ("/request_id", "/request", "/observationId", "/traceId", "/trace_id", "/id"))
        value = find_value(record, ("/correct", "/quality", "/score", "/value", "/feedback/correct", "/feedback/score"))
        outcome = _parse_outcome(value)
        if outcome is not None and not 0 <= outcome <= 1:
            message = f"must be from 0 to 1, got {outcome:g} in record {number}: rescale all outcomes"
            raise InvalidRequest.from_faults(Fault(("feedback",), message))
        if request is not None and outcome is not None:
            outcomes[str(request)] = outcome
    return outcomes
