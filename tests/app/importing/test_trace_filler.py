"""Filling of traces: no call is paid twice, budgets hold, and what cannot be read is refused."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.importing.graders import ExactMatch
from app.importing.paid_call_journal import Grade, ModelCallRecord, PaidCallJournal
from app.importing.trace_filler import Prompts, TraceFiller, allocate_calls, read_prompts, require_costs
from models.errors import InvalidRequest, ParsimonyError
from solvers import no_progress
from solvers.base import make_generator

PROMPTS = Prompts({str(k): f"prompt {k}" for k in range(1, 41)}, {str(k): "yes" for k in range(1, 41)})
COSTS = {"cheap": 1.0, "strong": 10.0}


class Provider:
    """Answers calls, counts them, and dies at one of them."""

    def __init__(self, dies_at: int = 10_000, errors: tuple[str, ...] = ()) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._dies_at, self._errors = dies_at, errors

    def probe(self, model: str, text: str) -> dict[str, Any]:
        if self.calls.total() >= self._dies_at:
            raise ParsimonyError("cannot reach the server")
        self.calls[model, text] += 1
        if model in self._errors:
            return {"error": "500", "seconds": 0.1, "cost": None}
        return {"label": "yes" if model == "strong" else "no", "cost": COSTS[model], "seconds": 0.1}


def fill(path: Path, provider: Provider, budget: float | None = None, prompts: Prompts = PROMPTS) -> PaidCallJournal:
    log = PaidCallJournal.open_log(path)
    try:
        filling = TraceFiller(log, prompts, ("cheap", "strong"), provider.probe, ExactMatch(prompts.expected), budget)
        filling.fill_missing_cells(0, no_progress)
    finally:
        log.close()
    return log


def test_all_cells_are_bought_once_and_graded(tmp_path: Path) -> None:
    provider = Provider()
    log = fill(tmp_path / "calls.jsonl", provider)
    assert (len(log.calls), len(log.grades), log.spent) == (80, 80, 440.0)
    assert {grade.quality for (_, model), grade in log.grades.items() if model == "strong"} == {1.0}
    fill(tmp_path / "calls.jsonl", provider)
    assert set(provider.calls.values()) == {1}
    calls = log.list_calls(PROMPTS.texts)
    assert (len(calls), calls[0].text) == (80, "prompt 1")


@pytest.mark.parametrize("dies_at", [0, 1, 7, 33])
def test_no_call_is_paid_twice_after_a_failure(tmp_path: Path, dies_at: int) -> None:
    provider, path = Provider(dies_at), tmp_path / "calls.jsonl"
    with pytest.raises(ParsimonyError):
        fill(path, provider)
    again = Provider()
    again.calls = provider.calls
    assert len(fill(path, again).grades) == 80
    assert set(again.calls.values()) == {1}


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    fill(path, Provider())
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    provider = Provider()
    assert len(fill(path, provider).grades) == 80
    assert provider.calls.total() <= 1


@pytest.mark.parametrize("budget", [0.0, 5.0, 11.0, 45.0, 109.0, 1000.0])
def test_budgets_hold_and_are_used(tmp_path: Path, budget: float) -> None:
    log = fill(tmp_path / "calls.jsonl", Provider(), budget)
    rows = len({prompt for prompt, _ in log.calls})
    assert (rows, log.spent) == (max(min(int(budget // 11), 40), int(budget > 0)), 11.0 * rows)
    assert len(fill(tmp_path / "calls.jsonl", Provider(), budget).calls) == len(log.calls)


def test_a_budget_buys_more_answers_of_cheap_models(tmp_path: Path) -> None:
    prompts = Prompts({str(k): f"prompt {k}" for k in range(1000)}, {str(k): "yes" for k in range(1000)})
    log = fill(tmp_path / "calls.jsonl", Provider(), 1100.0, prompts)
    calls = log.list_calls(prompts.texts)
    counts = Counter(call.classifier for call in calls)
    assert 1100 - 11 <= log.spent <= 1100
    assert counts["cheap"] / counts["strong"] == pytest.approx(10**0.5, rel=0.05)
    asked = {name: {call.text for call in calls if call.classifier == name} for name in counts}
    assert asked["strong"] < asked["cheap"]
    shares = {call.classifier: call.propensity for call in calls}
    assert shares == {"cheap": 1.0, "strong": counts["strong"] / counts["cheap"]}


@pytest.mark.parametrize("seed", range(20))
def test_divided_budgets_are_kept_and_used(seed: int) -> None:
    rng = make_generator(seed)
    costs = dict(zip("abcd", rng.lognormal(0, 2, 4).tolist(), strict=True))
    budget, prompts = float(rng.lognormal(3, 2)), int(rng.integers(1, 500))
    counts = allocate_calls(budget, costs, prompts)
    spent = sum(counts[name] * cost for name, cost in costs.items())
    assert all(0 <= count <= prompts for count in counts.values())
    assert spent <= budget * (1 + 1e-9)
    assert set(counts.values()) == {prompts} or spent >= budget - sum(costs.values())


def test_a_larger_budget_continues(tmp_path: Path) -> None:
    provider, path = Provider(), tmp_path / "calls.jsonl"
    first = fill(path, provider, 110.0)
    second = fill(path, provider, 220.0)
    assert (len(first.calls), len(second.calls)) == (20, 40)
    assert set(provider.calls.values()) == {1}


def test_failed_calls_are_made_again_unless_they_were_paid(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    few = Prompts({"1": "prompt 1", "2": "prompt 2"}, {"1": "yes", "2": "yes"})
    broken = Provider(errors=("strong",))
    log = fill(path, broken, prompts=few)
    assert (len(log.grades), [call.classifier for call in log.list_calls(few.texts)]) == (2, ["cheap", "cheap"])
    healed = Provider()
    assert len(fill(path, healed, prompts=few).grades) == 4
    assert {model for model, _ in healed.calls} == {"strong"}
    paid = ModelCallRecord("1", "strong", None, None, 3.0, 0.1, "the reply was cut")
    log = PaidCallJournal(path, {("1", "strong"): paid}, {("1", "cheap"): Grade("1", "cheap", 1.0)})
    assert not log.needs_call(("1", "strong"))
    log.close()


def test_another_file_is_not_taken_for_a_log(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"prompt": "1"}\n')
    with pytest.raises(InvalidRequest):
        PaidCallJournal.open_log(path)
    assert path.read_text() == '{"prompt": "1"}\n'


def test_a_model_without_prices_is_refused(tmp_path: Path) -> None:
    log = PaidCallJournal(
        tmp_path / "calls.jsonl", {("1", "free"): ModelCallRecord("1", "free", "a", None, None, 0.1)}, {}
    )
    with pytest.raises(ParsimonyError):
        require_costs(log)
    log.close()


@pytest.mark.parametrize(
    ("records", "text", "expected", "location"),
    [
        ([], None, None, "prompts.jsonl"),
        ([{"words": "a"}], None, None, "text"),
        ([{"prompt": "a"}], "question", None, "text"),
        ([{"prompt": "a"}, {"prompt": " "}], None, None, "prompts.jsonl"),
        ([{"prompt": "a"}, {"prompt": 3}], None, None, "prompts.jsonl"),
        ([{"prompt": "a"}], None, "gold", "expected"),
    ],
)
def test_prompts_that_cannot_be_read_are_refused(
    tmp_path: Path, records: list[Any], text: str | None, expected: str | None, location: str
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    with pytest.raises(InvalidRequest) as refused:
        read_prompts(path, text, expected)
    assert refused.value.faults[0].loc == (location,)


def test_columns_are_recognized_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text("id,question,answer\n7,2+2?,4\n8,3+3?,6\n")
    read = read_prompts(path, None, None)
    assert [(text, read.expected[place]) for place, text in read.texts.items()] == [("2+2?", "4"), ("3+3?", "6")]


def test_equal_prompts_are_bought_once_and_have_one_expected_answer(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text("question,answer\n2+2?,4\n2+2?,4\n")
    assert len(read_prompts(path, None, None).texts) == 1
    path.write_text("question,answer\n2+2?,4\n2+2?,5\n")
    with pytest.raises(InvalidRequest):
        read_prompts(path, None, None)
