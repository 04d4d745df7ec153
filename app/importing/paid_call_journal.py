"""Log of paid calls: each call is on disk before its answer is used.

So no call is paid twice.
"""

import fcntl
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Self

import orjson
from pydantic import TypeAdapter, ValidationError

from app.importing.logged_calls import LoggedCall
from models.errors import Fault, InvalidRequest, ParsimonyError

Cell = tuple[str, str]
"""A prompt's id, and a model."""


@dataclass(frozen=True, slots=True)
class ModelCallRecord:
    """The answer of a model to a prompt.

    Attributes:
        prompt: id of the prompt.
        cost: in the unit of the trace; None if unknown.
        error: the reason why the call failed; a failed call that was paid is not repeated.
    """

    prompt: str
    model: str
    answer: str | None
    confidence: float | None
    cost: float | None
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """Quality of an answer, from 0 to 1.

    Attributes:
        cost: cost of the judge's calls.
        is_biased: whether a judge preferred the same position in both orders; None without a judge.
    """

    prompt: str
    model: str
    quality: float
    cost: float = 0.0
    is_biased: bool | None = None


_LINE: TypeAdapter[ModelCallRecord | Grade] = TypeAdapter(ModelCallRecord | Grade)


class PaidCallJournal:
    """Append-only file of calls and grades, one JSON object per line.

    Attributes:
        spent: cost of all calls and grades.
    """

    def __init__(self, path: Path, calls: dict[Cell, ModelCallRecord], grades: dict[Cell, Grade]) -> None:
        self.calls, self.grades, self.path = calls, grades, path
        self.spent = sum(call.cost or 0.0 for call in calls.values()) + sum(one.cost for one in grades.values())
        self._file, self._writing = path.open("ab"), Lock()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise ParsimonyError(f"another command writes {path}: wait until it ends") from error

    @classmethod
    def open_log(cls, path: Path) -> Self:
        """Open a log, and read its lines; an incomplete last line is dropped.

        Raises InvalidRequest for other files.
        """
        calls: dict[Cell, ModelCallRecord] = {}
        grades: dict[Cell, Grade] = {}
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                read = _LINE.validate_json(line)
            except ValidationError as error:
                message = f"must be a log of calls, but line {number} is not: delete the file, or choose another one"
                raise InvalidRequest.from_faults(Fault((path.name,), message)) from error
            if isinstance(read, ModelCallRecord):
                calls[read.prompt, read.model] = read
            else:
                grades[read.prompt, read.model] = read
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        return cls(path, calls, grades)

    def add_call(self, call: ModelCallRecord) -> None:
        """Write a call; it is on disk when this method returns."""
        with self._writing:
            self._append(call)
            self.calls[call.prompt, call.model] = call  # one that it replaces was not paid
            self.spent += call.cost or 0.0

    def add_grade(self, grade: Grade) -> None:
        """Write a grade; it is on disk when this method returns."""
        with self._writing:
            self._append(grade)
            self.grades[grade.prompt, grade.model] = grade
            self.spent += grade.cost

    def _append(self, line: ModelCallRecord | Grade) -> None:
        self._file.write(orjson.dumps(asdict(line), option=orjson.OPT_APPEND_NEWLINE))
        self._file.flush()
        os.fsync(self._file.fileno())

    def needs_call(self, cell: Cell) -> bool:
        """Return whether a call must be made.

        This is so if it was not made before, or if it failed without being paid.
        """
        call = self.calls.get(cell)
        return call is None or (call.error is not None and not call.cost)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def list_calls(self, texts: Mapping[str, str]) -> list[LoggedCall]:
        """Return the graded calls, for a trace.

        The propensity of a call is its model's share of the prompts.

        Args:
            texts: prompts by id.
        """
        used = [
            call
            for cell, call in sorted(self.calls.items())
            if cell in self.grades and call.cost is not None and call.prompt in texts
        ]
        prompts, counts = len({call.prompt for call in used}), Counter(call.model for call in used)
        is_complete = all(count == prompts for count in counts.values())
        return [
            LoggedCall(
                call.model,
                texts[call.prompt],
                call.prompt,
                self.grades[call.prompt, call.model].quality,
                call.cost,
                call.confidence,
                None if is_complete else counts[call.model] / prompts,
            )
            for call in used
        ]

    def position_bias(self) -> float | None:
        """Return the share of judged answers with position bias; None without a judge.

        Position bias means that the judge preferred the same position in both orders.
        """
        judged = [one.is_biased for one in self.grades.values() if one.is_biased is not None]
        return sum(judged) / len(judged) if judged else None

    def count_errors(self) -> Counter[str]:
        """Return the number of failed calls by model and reason."""
        return Counter(f"{call.model}: {call.error}" for call in self.calls.values() if call.error is not None)
