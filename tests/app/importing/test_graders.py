"""Graders: expected answers, commands, and a judge that is asked in both orders."""

import sys

import pytest

from app.importing.graders import CommandCheck, ExactMatch, Judge
from app.importing.paid_call_journal import ModelCallRecord
from models.errors import ParsimonyError

STRONG = ModelCallRecord("1", "strong", "a good answer", None, 1.0, 0.1)


def call(answer: str) -> ModelCallRecord:
    return ModelCallRecord("1", "cheap", answer, None, 0.1, 0.1)


@pytest.mark.parametrize(
    ("answer", "quality"), [("Paris", 1), (" paris.\n", 1), ("Paris, France", 0), ("", 0), ("pari", 0)]
)
def test_answers_are_compared_without_case_and_outer_spaces(answer: str, quality: float) -> None:
    assert ExactMatch({"1": "Paris"}).grade_answer("capital?", call(answer), STRONG).quality == quality


@pytest.mark.parametrize(
    ("code", "quality"),
    [
        ("import json,sys; sys.exit(json.load(sys.stdin)['answer'] != 'yes')", 1),
        ("import json,sys; sys.exit(json.load(sys.stdin)['text'] != 'other')", 0),
        ("print(0.25)", 0.25),
    ],
)
def test_a_command_grades_by_its_output_or_status(code: str, quality: float) -> None:
    check = CommandCheck((sys.executable, "-c", code))
    assert check.grade_answer("question", call("yes"), STRONG).quality == quality


@pytest.mark.parametrize("code", ["print('good')", "print(1.5)", "print('nan')", "import sys; sys.exit(2)"])
def test_a_command_that_grades_nothing_is_refused(code: str) -> None:
    with pytest.raises(ParsimonyError):
        CommandCheck((sys.executable, "-c", code)).grade_answer("question", call("yes"), STRONG)
    with pytest.raises(ParsimonyError):
        CommandCheck(("/no/such/command",)).grade_answer("question", call("yes"), STRONG)


@pytest.mark.parametrize(
    ("replies", "quality", "is_biased"),
    [
        (("B", "A"), 0.0, False),
        (("A", "B"), 1.0, False),
        (("tie", "Tie."), 1.0, False),
        (("A", "A"), 0.5, True),
        (("B", "B"), 0.5, True),
        (("tie", "A"), 0.5, False),
        (("**B**, because", "tie"), 0.5, False),
    ],
)
def test_a_judge_is_asked_in_both_orders(replies: tuple[str, str], quality: float, is_biased: bool) -> None:
    asked: list[str] = []

    def ask(text: str) -> tuple[str, float]:
        asked.append(text)
        return replies[len(asked) - 1], 0.5

    grade = Judge(ask).grade_answer("question", call("weak"), STRONG)
    assert (grade.quality, grade.is_biased, grade.cost) == (quality, is_biased, 1.0)
    assert asked[0].index("weak") < asked[0].index("a good answer")
    assert asked[1].index("weak") > asked[1].index("a good answer")


def test_the_strongest_model_and_equal_answers_need_no_judge() -> None:
    def ask(text: str) -> tuple[str, float]:
        raise AssertionError(text)

    judge = Judge(ask)
    assert judge.grade_answer("question", STRONG, STRONG).quality == 1
    assert judge.grade_answer("question", call("A good answer."), STRONG).quality == 1


def test_a_judge_that_answers_otherwise_is_refused() -> None:
    with pytest.raises(ParsimonyError):
        Judge(lambda text: ("the second", 0.0)).grade_answer("question", call("weak"), STRONG)
