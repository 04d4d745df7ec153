"""Calls of a log: reads them from records, joins them with feedback, and computes their costs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.importing.log_formats import OUTCOMES, CallPointers, find_value
from app.running.protocols.openai_chat_client import join_text, parse_item
from models.columns import parse_yes_no
from models.errors import Fault, InvalidRequest
from models.prices import Prices


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call of a model for a prompt; numbers are None if unknown."""

    classifier: str
    text: str
    request: str
    outcome: float | None
    cost: float | None
    confidence: float | None
    propensity: float | None


@dataclass(slots=True)
class ImportReport:
    """The numbers of used calls and of unused records, with reasons.

    Attributes:
        records: number of records that were read.
        calls: number of calls that were used.
        unused: number of records by the reason why they were not used.
        matched: number of records with feedback.
    """

    records: int = 0
    calls: int = 0
    unused: Counter[str] = field(default_factory=Counter)
    matched: int = 0

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
) -> Iterator[LoggedCall]:
    """Yield the usable calls of a log, each request once.

    Args:
        prices: prices by model, for calls whose cost the log lacks.
        feedback: outcomes from 0 to 1, by request.
        report: counts used and unused records.
        seen: the requests of other files, with their models; those of this one are added.
    Raises:
        InvalidRequest: an outcome is outside of 0 to 1, so all outcomes must be on another scale.
    """
    for record in records:
        report.records += 1
        call = _read_call(record, pointers, prices)
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


def _read_call(record: Mapping[str, Any], pointers: CallPointers, prices: Mapping[str, Prices]) -> LoggedCall | str:
    """Return the call of a record, or why there is none."""
    classifier, text = find_value(record, pointers.classifier), extract_prompt(find_value(record, pointers.text))
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
    """Return the text of a prompt; for a chat, the text of its last user message, which the router embeds."""
    prompt = parse_item(prompt)
    if isinstance(prompt, Mapping):
        prompt = prompt.get("messages", ())
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        messages = [each for each in prompt if isinstance(each, Mapping)]
        users = [each for each in messages if each.get("role") == "user"]
        last = (users or messages)[-1:]
        prompt = join_text(_list_parts(last[0])) if last else ""
    return prompt if isinstance(prompt, str) else ""


def _list_parts(message: Mapping[str, Any]) -> Any:
    """Return the content of a message; OpenTelemetry's parts are returned as OpenAI's."""
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message.get("content")
    return [{"type": "text", "text": each.get("content")} for each in parts if isinstance(each, Mapping)]


def _parse_outcome(value: Any) -> float | None:
    """Return an outcome as a number, a boolean as 1 or 0; None if it is neither."""
    truth = parse_yes_no(value)
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
    """Return the outcomes of requests from records with an id and correct, quality, or score; later records win.

    Of records with the name of a score, as Langfuse exports them, those with another name than an outcome's are left
    out.

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
