"""Logs of model calls become a trace: formats, feedback, prices, repeated prompts, and what cannot be used."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from app.importing.log_files import read_records
from app.importing.log_formats import FORMATS, CallPointers, recognize_format
from app.importing.log_import import ImportedTrace, choose_pointers, find_log_pointers, import_calls
from app.importing.logged_calls import read_feedback
from models import InvalidRequest, TraceSpec
from models.conversation import ConversationWindow, split_conversation, split_prompts
from models.log_import import ImportOptions
from models.prices import Prices

CALLS = (
    ("r1", "cheap", "What is 2 + 2?", True, 0.001, (10, 5)),
    ("r2", "strong", "What is 2 + 2?", True, 0.02, (10, 8)),
    ("r3", "strong", "Prove it.", False, 0.03, (20, 9)),
)
"""Request, model, prompt, outcome, cost, and tokens of each call."""


def chat(prompt: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
    ]


def litellm(request: str, model: str, prompt: str, right: bool, cost: float, tokens: tuple[int, int]) -> Any:
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return {
        "id": request,
        "call_type": "completion",
        "model": model,
        "messages": chat(prompt),
        "response_cost": cost,
        **usage,
        "metadata": {"user_feedback": {"correct": right}},
    }


def openai(request: str, model: str, prompt: str, right: bool, cost: float, tokens: tuple[int, int]) -> Any:
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return {
        "request": {"model": model, "messages": chat(prompt)},
        "response": {"id": request, "model": f"{model}-2026-01", "usage": usage},
        "feedback": {"correct": right},
        "cost": cost,
    }


def langfuse(request: str, model: str, prompt: str, right: bool, cost: float, tokens: tuple[int, int]) -> Any:
    return {
        "id": request,
        "type": "GENERATION",
        "model": model,
        "input": chat(prompt),
        "usageDetails": {"input": tokens[0], "output": tokens[1]},
        "costDetails": {"total": cost},
        "scores": [{"name": "correct", "value": float(right)}],
    }


def otel(request: str, model: str, prompt: str, right: bool, cost: float, tokens: tuple[int, int]) -> Any:
    attributes = {
        "gen_ai.request.model": {"stringValue": model},
        "gen_ai.input.messages": {"stringValue": json.dumps(chat(prompt))},
        "gen_ai.usage.cost": {"doubleValue": cost},
        "gen_ai.usage.input_tokens": {"intValue": str(tokens[0])},
        "gen_ai.usage.output_tokens": {"intValue": str(tokens[1])},
        "gen_ai.evaluation.score.value": {"doubleValue": float(right)},
    }
    span = {"spanId": request, "attributes": [{"key": k, "value": v} for k, v in attributes.items()]}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def table(request: str, model: str, prompt: str, right: bool, cost: float, tokens: tuple[int, int]) -> Any:
    return {"id": request, "model": model, "prompt": prompt, "correct": int(right), "cost_usd": cost}


WRITERS = {"litellm": litellm, "openai": openai, "langfuse": langfuse, "otel": otel, "table": table}


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def imported(
    path: Path, prices: Mapping[str, Prices] | None = None, feedback: Mapping[str, float] | None = None
) -> ImportedTrace:
    return import_calls({path: choose_pointers(path, None, {})}, ImportOptions(), prices or {}, feedback or {})


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_is_recognized_and_pivoted(name: str, tmp_path: Path) -> None:
    log = write_lines(tmp_path / "log.jsonl", [WRITERS[name](*call) for call in CALLS])
    assert recognize_format(list(read_records(log))) == name
    assert find_log_pointers(log) == FORMATS[name]
    trace = imported(log)
    assert trace.table.to_pydict() == {
        "prompt": ["What is 2 + 2?", "Prove it."],
        "cheap.correct": [1.0, None],
        "cheap.cost": [0.001, None],
        "strong.correct": [1.0, 0.0],
        "strong.cost": [0.02, 0.03],
    }
    assert (trace.spec["text"], trace.spec["unit"], "item" in trace.spec) == ("prompt", "USD", False)
    assert (trace.report.records, trace.report.calls, dict(trace.report.unused)) == (3, 3, {})


@pytest.mark.parametrize("how", ["gzip", "list", "indented", "csv", "parquet"])
def test_each_kind_of_file_has_the_same_records(how: str, tmp_path: Path) -> None:
    records, path = [table(*call) for call in CALLS], tmp_path / "log"
    if how == "gzip":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    elif how == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, records[0])
            writer.writeheader()
            writer.writerows(records)
    elif how == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text(json.dumps(records, indent=2 if how == "indented" else None))
    assert imported(path).table.column("strong.cost").to_pylist() == [0.02, 0.03]


def test_a_prompt_that_is_answered_again_has_more_rows_of_one_item(tmp_path: Path) -> None:
    again = [table("r9", "cheap", "What is 2 + 2?", False, 0.002, (1, 1)), *(table(*call) for call in CALLS)]
    trace = imported(write_lines(tmp_path / "log.jsonl", again))
    assert trace.table.column("prompt").to_pylist() == ["What is 2 + 2?", "What is 2 + 2?", "Prove it."]
    assert trace.table.column("cheap.correct").to_pylist() == [0.0, 1.0, None]
    items = trace.table.column(trace.spec["item"]).to_pylist()
    assert (items[0] == items[1], items[0] == items[2]) == (True, False)


def test_feedback_is_joined_by_request_and_prices_make_costs(tmp_path: Path) -> None:
    bare = [openai(*call) for call in CALLS]
    for record in bare:
        del record["feedback"], record["cost"]
    log = write_lines(tmp_path / "log.jsonl", bare)
    assert find_log_pointers(log) is None
    told = write_lines(
        tmp_path / "feedback.jsonl", [{"request_id": "r1", "quality": 0.5}, {"request_id": "r3", "quality": 1}]
    )
    feedback = read_feedback(read_records(told))
    assert feedback == {"r1": 0.5, "r3": 1.0}
    prices = {name: Prices(input_per_million=1000.0, output_per_million=2000.0) for name in ("cheap", "strong")}
    trace = imported(log, prices, feedback)
    assert trace.table.to_pydict() == {
        "prompt": ["What is 2 + 2?", "Prove it."],
        "cheap.quality": [0.5, None],
        "cheap.cost": [pytest.approx(0.02), None],
        "strong.quality": [None, 1.0],
        "strong.cost": [None, pytest.approx(0.038)],
    }
    assert (list(trace.report.unused.values()), trace.report.matched) == ([1], 2)
    with pytest.raises(InvalidRequest, match=r"2 of 3: no cost"):
        imported(log, {}, feedback)


def test_what_cannot_be_used_is_counted_by_reason(tmp_path: Path) -> None:
    good = table(*CALLS[0])
    records = [
        good,
        good,
        {**good, "id": "2", "model": None},
        {**good, "id": "3", "prompt": ""},
        {**good, "id": "4", "propensity": 2},
        {**good, "id": "8", "model": {"name": "small", "api_key": "sk-secret"}},
        {**good, "id": "5", "cost_usd": -1},
        {**good, "id": "6", "cost_usd": "free"},
        {**good, "id": "7", "correct": None},
    ]
    report = imported(write_lines(tmp_path / "log.jsonl", records)).report
    assert (report.records, report.calls, sum(report.unused.values())) == (9, 1, 8)
    assert len(report.unused) == 7
    assert "sk-secret" not in str(report)


def test_an_unusable_record_does_not_replace_a_usable_one_of_the_same_request(tmp_path: Path) -> None:
    good = table(*CALLS[0])
    report = imported(write_lines(tmp_path / "log.jsonl", [{**good, "correct": None}, good])).report
    assert (report.calls, sum(report.unused.values())) == (1, 1)


def test_outcomes_on_another_scale_are_refused(tmp_path: Path) -> None:
    records = [
        {**table(*call), "correct": None, "quality": grade} for call, grade in zip(CALLS, (1, 4, 5), strict=True)
    ]
    with pytest.raises(InvalidRequest, match=r"outcome: must be from 0 to 1, got 4 in record 2"):
        imported(write_lines(tmp_path / "log.jsonl", records))


@pytest.mark.parametrize(
    "odd",
    [
        {"resourceSpans": None},
        {"resourceSpans": [{"scopeSpans": None}, 3]},
        {"resourceSpans": [{"scopeSpans": [{"spans": ["x", {"attributes": [{"key": "a"}, {"value": None}, 1]}]}]}]},
        {"attributes": ["eu"]},
        {"messages": {"a": 1}, "model": "cheap"},
        {"messages": [None, {"role": "user"}], "model": ["cheap"]},
    ],
)
def test_odd_records_are_counted_and_crash_nothing(odd: Any, tmp_path: Path) -> None:
    log = write_lines(tmp_path / "log.jsonl", [*(litellm(*call) for call in CALLS), odd])
    assert imported(log).report.calls == 3


def test_prompts_are_read_in_their_other_spellings(tmp_path: Path) -> None:
    parts = [{"role": "user", "parts": [{"type": "text", "content": "Prove it."}]}]
    values = {"values": [{"kvlistValue": {"values": [
        {"key": "role", "value": {"stringValue": "user"}},
        {"key": "content", "value": {"stringValue": "Prove it."}}]}}]}  # fmt: skip
    spans = [
        {"key": "gen_ai.input.messages", "value": each}
        for each in ({"stringValue": json.dumps(parts)}, {"arrayValue": values})
    ]
    more = [
        {"key": "gen_ai.request.model", "value": {"stringValue": "cheap"}},
        {"key": "gen_ai.usage.cost", "value": {"doubleValue": 1.0}},
        {"key": "correct", "value": {"boolValue": True}},
    ]
    log = write_lines(
        tmp_path / "log.jsonl", [{"spanId": str(k), "attributes": [s, *more]} for k, s in enumerate(spans)]
    )
    assert set(imported(log).table.column("prompt").to_pylist()) == {"Prove it."}
    text = json.dumps([{"role": "user", "content": "Prove it."}])
    flat = json.dumps({**table(*CALLS[0]), "prompt": text}).encode()
    (tmp_path / "bom.jsonl").write_bytes(b"\xef\xbb\xbf\n" + flat)
    assert imported(tmp_path / "bom.jsonl").table.column("prompt").to_pylist() == ["Prove it."]


def test_feedback_names_its_request_before_itself() -> None:
    score = {"id": "score-1", "traceId": "t1", "observationId": "o1", "value": 1}
    assert read_feedback([score]) == {"o1": 1.0}


def test_scores_are_chosen_by_name_and_others_are_no_outcomes(tmp_path: Path) -> None:
    """Langfuse has a list of scores, of observations and in exports of scores."""
    others = [{"name": "toxicity", "value": 0.9}]
    records = [{**langfuse(*call), "scores": [*others, {"name": "correct", "value": float(call[3])}]} for call in CALLS]
    table = imported(write_lines(tmp_path / "log.jsonl", records)).table
    assert table.column("cheap.correct").to_pylist() == [float(CALLS[0][3]), None]
    with pytest.raises(InvalidRequest, match="no outcome"):
        imported(write_lines(tmp_path / "log.jsonl", [{**record, "scores": others} for record in records]))
    exported = [{"traceId": "t", "name": "toxicity", "value": 0.9}, {"traceId": "t", "name": "correct", "value": 0}]
    assert read_feedback(exported) == {"t": 0.0}
    with pytest.raises(InvalidRequest, match="record 2"):
        read_feedback([{"id": "a", "score": 1}, {"id": "b", "score": 7}])


@pytest.mark.parametrize("name", ["langfuse", "otel"])
def test_feedback_may_name_the_trace_of_a_call(name: Any, tmp_path: Path) -> None:
    records = [WRITERS[name](*call) for call in CALLS]
    for number, record in enumerate(records):
        span = record["resourceSpans"][0]["scopeSpans"][0]["spans"][0] if name == "otel" else record
        span["traceId"] = f"trace-{number}"
    log = write_lines(tmp_path / "log.jsonl", records)
    trace = imported(log, feedback={f"trace-{number}": 0.25 for number in range(len(CALLS))})
    assert trace.report.matched == trace.report.calls == len(CALLS)
    assert {call.outcome for call in trace.calls} == {0.25}


def test_feedback_of_other_requests_is_reported(tmp_path: Path) -> None:
    records = [{name: value for name, value in table(*call).items() if name != "correct"} for call in CALLS]
    with pytest.raises(InvalidRequest, match="1 feedback records"):
        imported(write_lines(tmp_path / "log.jsonl", records), feedback={"another": 1.0})


def test_lines_that_are_no_records_are_counted(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "log.jsonl", [table(*call) for call in CALLS])
    log.write_text(log.read_text() + "ERROR: disk full\n[]\nnull\n" + '{"model": NaN}\n')
    report = imported(log).report
    assert (report.records, report.calls, dict(report.unused)) == (len(CALLS) + 4, len(CALLS), {"not a JSON object": 4})


def test_each_file_has_a_format_of_its_own(tmp_path: Path) -> None:
    logs = [
        write_lines(tmp_path / f"{name}.jsonl", [WRITERS[name](*call) for call in calls])
        for name, calls in (("table", CALLS[:1]), ("litellm", CALLS[1:]))
    ]
    trace = import_calls({log: choose_pointers(log, None, {}) for log in logs}, ImportOptions(), {}, {})
    assert trace.report.calls == len(CALLS)


def test_propensities_are_kept_where_all_calls_have_one(tmp_path: Path) -> None:
    records = [{**table(*call), "propensity": 0.5} for call in CALLS]
    trace = imported(write_lines(tmp_path / "log.jsonl", records))
    assert trace.table.column("cheap.propensity").to_pylist() == [0.5, None]
    del records[1]["propensity"]
    spec = imported(write_lines(tmp_path / "log.jsonl", records)).spec
    assert ["propensity" in one for one in spec["classifiers"]] == [True, True]


def test_another_format_is_read_by_pointers(tmp_path: Path) -> None:
    records = [{"llm": {"id": c[1]}, "q": c[2], "ok": c[3], "usd": c[4]} for c in CALLS]
    log = write_lines(tmp_path / "log.jsonl", records)
    with pytest.raises(InvalidRequest, match="llm, q, ok, usd"):
        choose_pointers(log, None, {})
    own = {"classifier": ("/llm/id",), "text": ("/q",), "outcome": ("/ok",), "cost": ("/usd",)}
    pointers = choose_pointers(log, None, own)
    assert isinstance(pointers, CallPointers)
    trace = import_calls({log: pointers}, ImportOptions(unit="EUR"), {}, {})
    assert (trace.spec["unit"], trace.table.num_rows) == ("EUR", 2)


@pytest.mark.parametrize("name", WRITERS)
def test_whole_chats_are_texts_if_conversations_are_embedded(name: str, tmp_path: Path) -> None:
    log, window = write_lines(tmp_path / "log.jsonl", [WRITERS[name](*call) for call in CALLS]), ConversationWindow()
    trace = import_calls({log: choose_pointers(log, None, {})}, ImportOptions(conversation=window), {}, {})
    spec = TraceSpec.model_validate_json(json.dumps(trace.spec))
    assert (spec.conversation, trace.report.calls) == (window, len(CALLS))
    messages = [{"role": "user", "content": "Prove it."}] if name == "table" else chat("Prove it.")
    prompt = trace.table["prompt"].to_pylist()[-1]
    assert tuple(split_prompts([prompt], window).texts) == split_conversation(messages, window)
    assert trace.report.shortened_calls == 0
    assert imported(log).report.shortened_calls == (0 if name == "table" else len(CALLS))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"model": "a"}\n{nonsense}\n', "line 2"),
        (b"[1, 2]\n", "line 1"),
        (b"\x1f\x8b" + b"no gzip" * 9, "JSON Lines, CSV, or Parquet"),
        (b"PAR1 no parquet", "Parquet"),
        (b"model,prompt\na,b,c\n", "more cells"),
        (b"model,prompt\n\xff\xfe,b\n", "CSV"),
    ],
)
def test_malformed_files_are_refused_by_name_and_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.log"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match=said) as refused:
        list(read_records(path))
    assert refused.value.faults[0].loc == ("broken.log",)
    assert find_log_pointers(path) is None
