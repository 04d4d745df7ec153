"""Filling of a trace: calls models for prompts within a budget, and grades their answers."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.importing.graders import Grader
from app.importing.log_files import read_records
from app.importing.paid_call_journal import ModelCallRecord, PaidCallJournal
from models.errors import Fault, InvalidRequest, ParsimonyError
from solvers import Progress

TEXTS, EXPECTED = ("text", "prompt", "question", "item", "input"), ("expected", "answer", "truth", "label")
"""Names of columns that are recognized."""
ID_DIGITS = 16
PILOT_PROMPTS = 50
"""Prompts for which all models are called."""
MAX_CONCURRENT_CALLS = 4
"""Prompts whose calls are made at the same time."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts by id, and their expected answers, if any."""

    texts: dict[str, str]
    expected: dict[str, str]


def read_prompts(path: Path, text: str | None, expected: str | None) -> Prompts:
    """Return the distinct prompts of a file.

    Ids are hashes of texts, so that a log can also be used with other files.

    Args:
        text, expected: names of columns; None to recognize them by their names.
    Raises:
        InvalidRequest: a column was not found, a prompt is empty, or a prompt has two expected answers.
    """
    records = list(read_records(path))
    if not records:
        raise InvalidRequest.from_faults(Fault((path.name,), "must have a prompt, got none"))
    column = _find_column(records[0], "text", text, TEXTS)
    has_answers = expected is not None or any(name in records[0] for name in EXPECTED)
    answers = _find_column(records[0], "expected", expected, EXPECTED) if has_answers else None
    read = Prompts({}, {})
    for number, record in enumerate(records, start=1):
        prompt = record.get(column)
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidRequest.from_faults(Fault((path.name,), f"must have a text in {column!r} of row {number}"))
        place = sha256(prompt.encode()).hexdigest()[:ID_DIGITS]
        read.texts[place] = prompt
        if answers is None:
            continue
        answer = record.get(answers)
        if answer is None:
            raise InvalidRequest.from_faults(Fault((path.name,), f"must have {answers!r} in row {number}"))
        if read.expected.setdefault(place, str(answer)) != str(answer):
            message = f"must have one expected answer per prompt; row {number} differs from an earlier row"
            raise InvalidRequest.from_faults(Fault((path.name,), message))
    return read


def _find_column(record: Mapping[str, Any], option: str, wanted: str | None, known: Sequence[str]) -> str:
    found = wanted if wanted is not None else next((name for name in known if name in record), None)
    if found is None or found not in record:
        there = ", ".join(map(str, list(record)[:12]))
        message = f"column {wanted!r} not found; available: {there}; set --{option}"
        raise InvalidRequest.from_faults(Fault((option,), message))
    return found


@dataclass(frozen=True, slots=True)
class TraceFiller:
    """Fills cells of a trace by calling models for prompts.

    Prompts are processed in random order, so that each call has a known propensity. The first prompts (the pilot) go to
    all models. The rest of the budget is divided by Neyman allocation: the number of calls of a model is proportional
    to the square root of 1 / its cost, up to the number of prompts. So a cheap model is called for more prompts.

    Attributes:
        models: the models, the strongest one last; a judge compares answers with the strongest model's.
        probe: calls a model with a text.
        budget: upper bound on the cost; None for no bound.
    """

    log: PaidCallJournal
    prompts: Prompts
    models: tuple[str, ...]
    probe: Callable[[str, str], Mapping[str, Any]]
    grader: Grader
    budget: float | None

    def fill_missing_cells(self, seed: int, progress: Progress) -> None:
        """Fill missing cells while the budget lasts: call models and grade answers.

        Calls in the log are not repeated.
        """
        waiting = sorted(self.prompts.texts, key=lambda one: _position(seed, one))
        counts, done, total = dict.fromkeys(self.models, len(waiting)), 0, len(waiting)
        with ThreadPoolExecutor(MAX_CONCURRENT_CALLS) as pool:
            while waiting:
                if done >= PILOT_PROMPTS and self.budget is not None and not self.grader.needs_reference:
                    counts = allocate_calls(self.budget, self._mean_costs(), total)
                some = waiting[: MAX_CONCURRENT_CALLS if self.log.calls else 1]  # the first row shows what rows cost
                cells = {
                    one: [name for name in self.models if rank < counts[name]] for rank, one in enumerate(some, done)
                }
                wanted = self._affordable(cells)
                for _ in pool.map(self._fill_row, wanted, [cells[one] for one in wanted]):
                    done += 1
                    progress(done, total, f"{self.log.spent:.4g} spent")
                waiting = waiting[len(some) :] if len(wanted) == len(some) and any(cells.values()) else []

    def _affordable(self, cells: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the first rows that the rest of the budget can pay for.

        Each cell is planned at the highest cost of its model so far.
        """
        if self.budget is None:
            return list(cells)
        planned, highest = self.log.spent, self._highest_costs()
        wanted: list[str] = []
        for one, models in cells.items():
            missing = [name for name in models if self.log.needs_call((one, name))]
            cost = sum(highest[name] for name in missing)
            if missing and (planned >= self.budget or planned + cost > self.budget):
                break
            planned += cost
            wanted.append(one)
        return wanted

    def _mean_costs(self) -> dict[str, float]:
        """Return the mean cost of a cell of each model, including its grade."""
        costs = self._cell_costs()
        return {name: sum(costs[name]) / len(costs[name]) if costs[name] else 0.0 for name in self.models}

    def _highest_costs(self) -> dict[str, float]:
        return {name: max(costs, default=0.0) for name, costs in self._cell_costs().items()}

    def _cell_costs(self) -> dict[str, list[float]]:
        costs: dict[str, list[float]] = {name: [] for name in self.models}
        for cell, call in self.log.calls.items():
            if call.model in costs and call.cost is not None:
                grade = self.log.grades.get(cell)
                costs[call.model].append(call.cost + (0.0 if grade is None else grade.cost))
        return costs

    def _fill_row(self, prompt: str, models: Sequence[str]) -> None:
        text = self.prompts.texts[prompt]
        for model in models:
            if self.log.needs_call((prompt, model)):
                self.log.add_call(_to_call(prompt, model, self.probe(model, text)))
        reference = self.log.calls.get((prompt, self.models[-1]))
        for model in models:
            call = self.log.calls[prompt, model]
            if call.error is None and (prompt, model) not in self.log.grades:
                self._grade(text, call, reference)

    def _grade(self, text: str, call: ModelCallRecord, reference: ModelCallRecord | None) -> None:
        if not self.grader.needs_reference:
            self.log.add_grade(self.grader.grade_answer(text, call, call))
        elif reference is not None and reference.error is None:
            self.log.add_grade(self.grader.grade_answer(text, call, reference))


def allocate_calls(budget: float, costs: Mapping[str, float], prompts: int) -> dict[str, int]:
    """Return the number of calls of each model within a budget.

    A model is called at most once per prompt. Calls are proportional to the square root of 1 / cost. If a model is
    called for all prompts, the rest of its share is divided among the other models.

    >>> allocate_calls(100.0, {"cheap": 1.0, "strong": 4.0}, 1000)
    {'cheap': 33, 'strong': 16}
    >>> allocate_calls(100.0, {"cheap": 1.0, "strong": 4.0}, 20)
    {'cheap': 20, 'strong': 20}
    """
    counts: dict[str, int] = {}
    left, open_costs = budget, dict(costs)
    for name in sorted(costs, key=lambda one: costs[one]):
        weights = sum(cost**0.5 for cost in open_costs.values())
        cost = open_costs.pop(name)
        share = left * cost**0.5 / weights if weights else 0.0
        counts[name] = prompts if share >= prompts * cost else int(share / cost)
        left -= counts[name] * cost
    return {name: counts[name] for name in costs}


def _position(seed: int, prompt: str) -> str:
    """Return the position of a prompt in a random order; further prompts do not change it."""
    return sha256(f"{seed}/{prompt}".encode()).hexdigest()


def _to_call(prompt: str, model: str, reply: Mapping[str, Any]) -> ModelCallRecord:
    answer = reply.get("text") if reply.get("text") is not None else reply.get("label")
    error = reply.get("error")
    if error is None and answer is None:
        error = "no answer in the reply"
    return ModelCallRecord(prompt, model, answer, reply.get("confidence"), reply.get("cost"), reply["seconds"], error)


def require_costs(log: PaidCallJournal) -> None:
    """Raise ParsimonyError if calls have no cost, because budget and trace need costs."""
    lacking = sorted({call.model for call in log.calls.values() if call.cost is None and call.error is None})
    if lacking:
        raise ParsimonyError(f"no cost of {', '.join(lacking)} is known: set prices of the endpoint")
