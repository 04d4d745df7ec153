"""Graders of answers: by the expected answer, a command, or a judge.

A judge compares two answers in both orders.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import orjson

from app.importing.paid_call_journal import Grade, ModelCallRecord
from models.errors import ParsimonyError

CHECK_TIMEOUT_S = 60.0
JUDGE_PROMPT = """Compare two answers to a question. Reply with one word:
A if the first answer is better, B if the second one is better, or tie if they are equally good.

Question:
{question}

Answer A:
{first}

Answer B:
{second}

Reply:"""


class Grader(Protocol):
    """Grades the answer of a model to a prompt."""

    needs_reference: ClassVar[bool]
    """Whether the answer of the strongest model is needed."""

    def grade_answer(self, text: str, call: ModelCallRecord, reference: ModelCallRecord) -> Grade:
        """Return the grade of an answer.

        Args:
            reference: the answer of the strongest model to the same prompt.
        Raises:
            ParsimonyError: the answer cannot be graded.
        """


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """Grades an answer as correct if it equals the expected answer.

    Case and outer spaces are ignored.


    Attributes:
        expected: expected answers by the prompt's id.
    """

    expected: dict[str, str]

    needs_reference: ClassVar[bool] = False

    def grade_answer(self, text: str, call: ModelCallRecord, reference: ModelCallRecord) -> Grade:
        """Return 1 for an equal answer, else 0."""
        is_equal = _normalize(call.answer or "") == _normalize(self.expected[call.prompt])
        return Grade(call.prompt, call.model, float(is_equal))


def _normalize(answer: str) -> str:
    """Return an answer without case and outer spaces.

    >>> _normalize(" Paris. \\n") == _normalize("paris")
    True
    """
    return answer.strip().rstrip(".").casefold()


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """Grades answers by a command.

    It reads ``{"text", "answer", "model"}`` as JSON, and prints a quality, or exits with 0 or 1.
    """

    command: tuple[str, ...]

    needs_reference: ClassVar[bool] = False

    def grade_answer(self, text: str, call: ModelCallRecord, reference: ModelCallRecord) -> Grade:
        """Return the quality that the command printed.

        Without output, it is 1 for exit status 0, and 0 for exit status 1.
        """
        sent = orjson.dumps({"text": text, "answer": call.answer, "model": call.model})
        try:
            done = subprocess.run(self.command, input=sent, capture_output=True, timeout=CHECK_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ParsimonyError(f"check {self.command[0]!r} failed: {error}") from error
        printed = done.stdout.decode(errors="replace").strip()
        if done.returncode not in (0, 1):
            reason = done.stderr.decode(errors="replace").strip()[-200:]
            raise ParsimonyError(f"check {self.command[0]!r} ended with status {done.returncode}: {reason}")
        return Grade(call.prompt, call.model, _parse_quality(printed) if printed else float(done.returncode == 0))


def _parse_quality(printed: str) -> float:
    try:
        quality = float(printed)
    except ValueError:
        quality = -1.0
    if not 0 <= quality <= 1:
        raise ParsimonyError(f"the check must print a quality from 0 to 1, got {printed[:40]!r}")
    return quality


@dataclass(frozen=True, slots=True)
class Judge:
    """Grades answers by a model that compares each with the strongest model's answer.

    Both orders are compared.

    The quality is the mean of both comparisons. A comparison yields 1 if the answer is at least as good, else 0. The
    strongest model's own answers have quality 1.

    Attributes:
        ask: sends a prompt to the judge, and returns its reply and the cost.
    """

    ask: Callable[[str], tuple[str, float]]

    needs_reference: ClassVar[bool] = True

    def grade_answer(self, text: str, call: ModelCallRecord, reference: ModelCallRecord) -> Grade:
        """Return the grade of an answer, with the judge's cost and position bias."""
        if call.model == reference.model or _normalize(call.answer or "") == _normalize(reference.answer or ""):
            return Grade(call.prompt, call.model, 1.0)
        first, cost = self._compare(text, call, reference)
        second, more = self._compare(text, reference, call)
        at_least_as_good = (first != "b") + (second != "a")
        return Grade(call.prompt, call.model, at_least_as_good / 2, cost + more, first == second != "tie")

    def _compare(self, text: str, first: ModelCallRecord, second: ModelCallRecord) -> tuple[str, float]:
        reply, cost = self.ask(JUDGE_PROMPT.format(question=text, first=first.answer, second=second.answer))
        word = (reply.split() or [""])[0].strip("\"'*.:,").casefold()
        if word not in ("a", "b", "tie"):
            raise ParsimonyError(f"the judge must reply A, B, or tie, got {reply[:40]!r}")
        return word, cost
