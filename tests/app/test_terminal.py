"""What the command line prints."""

import io
import json

import pytest
from rich.console import Console

from app import terminal
from models import ArtifactRecord, ArtifactRef
from models.feedback import Comparison, FeedbackReport


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Give what was printed."""
    return capsys.readouterr().out


def test_json_is_what_the_api_would_send(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"name": "Kü", "items": [1, 0.25, None, True]})
    text = printed(capsys)
    assert json.loads(text) == {"name": "Kü", "items": [1, 0.25, None, True]}
    assert "Kü" in text


def test_a_table_has_80_columns_at_most_and_loses_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word" * 60
    terminal.print_table("title", ["name", "value", "other"], [("a", 1.5, long), ("b", 20, "x")])
    text = printed(capsys)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("word") >= 50
    assert text.splitlines()[0].strip() == "title"


def test_numbers_stand_to_the_right_and_text_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table("t", ["name", "value"], [("a", 1), ("long name", 1000)])
    rows = [line for line in printed(capsys).splitlines() if "│" in line]
    assert rows[0].index("a") == rows[1].index("long")
    assert rows[0].rindex("1") == rows[1].rindex("1000") + 3


def test_brackets_and_colons_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table("[red]t[/]", ["[bold]"], [["[ms]"], ["[/closing]"], [":smile:"], ["[link=x]y"]])
    text = printed(capsys)
    for cell in ("[red]t[/]", "[bold]", "[ms]", "[/closing]", ":smile:", "[link=x]y"):
        assert cell in text


def test_a_table_without_rows_still_names_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table("datasets", ["name", "kind"], [])
    assert "kind" in printed(capsys)


def test_facts_are_one_a_row_and_records_a_table_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"call": "K1", "p": 0.5}, {"call": "K2", "p": 1.0}]
    terminal.print_facts("facts", {"unit": "ms", "none": None, "steps": steps})
    text = printed(capsys)
    assert text.index("facts") < text.index("unit") < text.index("steps") < text.index("K1") < text.index("K2")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("rows", "counts"), [(1, "1 outcome, 1 row"), (2, "2 outcomes, 2 rows")])
def test_feedback_of_rows_only_is_said_to_be_and_has_no_empty_table(
    capsys: pytest.CaptureFixture[str], rows: int, counts: str
) -> None:
    nothing = Comparison(outcomes=0, estimated=None, realised=None, low=None, high=None, drift=False)
    report = FeedbackReport(
        artifact=ArtifactRef(solver="cascade", name="plan", version=1),
        unit="ms",
        outcomes=rows,
        rows=rows,
        accuracy=nothing,
        coverage=nothing,
        cost=nothing,
        time=nothing,
        classifiers=(),
        drift=(),
        alarms=(),
        reference=None,
        detects=(),
        false_alarm_rate=0.01,
    )
    terminal.feedback(report, as_json=False)
    said = f"cascade plan, version 1: {counts}; none tells correct, cost or time"
    assert " ".join(printed(capsys).split()) == said


def test_wide_records_stand_side_by_side_three_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    records = [{**{f"field{i}": i for i in range(7)}, "inner": {"name": f"record{n}"}} for n in range(4)]
    terminal.print_facts("facts", {"records": records})
    text = printed(capsys)
    assert all(f"#{number}" in text for number in (1, 2, 3, 4))
    assert all(f"record{number}" in text for number in range(4))
    assert text.count("inner.name") == 2
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (3, "3"),
        (0.000012345, "1.2345e-05"),
        ((), "-"),
        ([1.0, None], "1, -"),
        ({}, "-"),
        ({"a": 1, "b": [True]}, "a: 1\nb: yes"),
        ("text", "text"),
    ],
)
def test_every_value_has_a_form_for_people(value: object, text: str) -> None:
    assert terminal.shown(value) == text


def test_progress_is_a_line_for_each_new_message_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with terminal.progress_bar("cascade x") as report:
        report(0, 0, "reading")
        report(1, 3, "solving [K1]")
        report(2, 3, "solving [K1]")
        report(3, 3, "done")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["cascade x: reading", "cascade x: solving [K1] (1/3)", "cascade x: done (3/3)"]


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(terminal, "console", lambda *, stderr: Console(file=out, force_terminal=True, width=80))
    with terminal.progress_bar("cascade x") as report:
        report(0, 0, "reading")
        report(2, 3, "solving [/K1]")
    assert "solving [/K1]" in out.getvalue()
    assert "2/3" in out.getvalue()


def test_numbers_that_pictures_show_are_left_to_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"dataset": "d", "params": {}, "seed": 0, "unit": "ms", "created_at": "", "sha256": "0", "bytes": 1}
    summary = {"rows": 12, "traffic": {"items": [[1, 2]]}}
    record = ArtifactRecord.model_validate(
        {"solver": "policy", "name": "p", "version": 1, "summary": summary, **fields}
    )
    terminal.artifact(record, False)
    text = printed(capsys)
    assert ("rows" in text, "traffic" in text) == (True, False)
    terminal.artifact(record, True)
    assert json.loads(printed(capsys))["summary"] == summary
