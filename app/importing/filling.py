"""Filling of a trace: calls models for prompts within a budget, and grades their answers."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.importing.call_log import BoughtCall, CallLog
from app.importing.graders import Grader
from app.importing.log_files import read_records
from models.errors import Fault, InvalidRequest, ParsimonyError
from solvers import Progress

TEXTS, EXPECTED = ("text", "prompt", "question", "item", "input"), ("expected", "answer", "truth", "label")
"""Names of columns that are recognized."""
ID_DIGITS = 16
PILOT = 50
"""Prompts for which all models are called."""
AT_ONCE = 4
"""Prompts whose calls are made at the same time."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts by id, and their expected answers, if there are any."""

    texts: dict[str, str]
    expected: dict[str, str]


def read_prompts(path: Path, text: str | None, expected: str | None) -> Prompts:
    """Return the distinct prompts of a file. Ids are hashes of texts, so that a log can be used with other files, too.

    Args:
        text, expected: names of columns; None: recognized by their names.
    Raises:
        InvalidRequest: a column was not found, a prompt is empty, or one has two expected answers.
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
class Filling:
    """Fills cells of a trace by calling models for prompts.

    Prompts are taken in random order. All models are called for the first ones, the pilot. The rest of the budget is
    divided: the number of calls of a model is proportional to the square root of 1 / its cost (Neyman allocation), up
        to the number of prompts. So a cheap model is called for more prompts than an expensive one. Because the order
        is random, each call has a known propensity.

    Attributes:
        models: the models; the last one is the strongest, with which a judge compares.
        probe: calls a model with a text.
        budget: upper bound on the cost; None: no bound.
    """

    log: CallLog
    prompts: Prompts
    models: tuple[str, ...]
    probe: Callable[[str, str], Mapping[str, Any]]
    grader: Grader
    budget: float | None

    def fill_cells(self, seed: int, progress: Progress) -> None:
        """Call models and grade answers for missing cells while the budget lasts. Calls in the log are not repeated."""
        waiting = sorted(self.prompts.texts, key=lambda one: _position(seed, one))
        counts, done, total = dict.fromkeys(self.models, len(waiting)), 0, len(waiting)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while waiting:
                if done >= PILOT and self.budget is not None and not self.grader.needs_reference:
                    counts = divide_budget(self.budget, self._mean_costs(), total)
                some = waiting[: AT_ONCE if self.log.calls else 1]  # the first row shows what rows cost
                cells = {
                    one: [name for name in self.models if rank < counts[name]] for rank, one in enumerate(some, done)
                }
                wanted = self._affordable(cells)
                for _ in pool.map(self._fill_row, wanted, [cells[one] for one in wanted]):
                    done += 1
                    progress(done, total, f"{self.log.spent:.4g} spent")
                waiting = waiting[len(some) :] if len(wanted) == len(some) and any(cells.values()) else []

    def _affordable(self, cells: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the first rows that the rest of the budget pays, each cell at its model's highest cost so far."""
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
        """Return the mean cost of a cell of each model, with its grade."""
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

    def _grade(self, text: str, call: BoughtCall, reference: BoughtCall | None) -> None:
        if not self.grader.needs_reference:
            self.log.add_grade(self.grader.grade_answer(text, call, call))
        elif reference is not None and reference.error is None:
            self.log.add_grade(self.grader.grade_answer(text, call, reference))


def divide_budget(budget: float, costs: Mapping[str, float], prompts: int) -> dict[str, int]:
    """Return the number of calls of each model within a budget, at most one for each prompt.

    Calls are proportional to the square root of 1 / cost; if a model is called for all prompts, the rest of its share
    is divided among the others.

    >>> divide_budget(100.0, {"cheap": 1.0, "strong": 4.0}, 1000)
    {'cheap': 33, 'strong': 16}
    >>> divide_budget(100.0, {"cheap": 1.0, "strong": 4.0}, 20)
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
    """Return the place of a prompt in a random order that further prompts do not change."""
    return sha256(f"{seed}/{prompt}".encode()).hexdigest()


def _to_call(prompt: str, model: str, reply: Mapping[str, Any]) -> BoughtCall:
    answer = reply.get("text") if reply.get("text") is not None else reply.get("label")
    error = reply.get("error")
    if error is None and answer is None:
        error = "no answer in the reply"
    return BoughtCall(prompt, model, answer, reply.get("confidence"), reply.get("cost"), reply["seconds"], error)


def require_costs(log: CallLog) -> None:
    """Raise ParsimonyError if calls have no cost: neither a budget nor a trace is possible without costs."""
    lacking = sorted({call.model for call in log.calls.values() if call.cost is None and call.error is None})
    if lacking:
        raise ParsimonyError(f"no cost of {', '.join(lacking)} is known: set prices of the endpoint")
