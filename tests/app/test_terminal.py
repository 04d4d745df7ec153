"""What the command line prints."""

import json

import pytest

from app import terminal
from models import ArtifactRecord


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_table_has_80_columns_at_most_and_loses_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word" * 60
    terminal.print_table("title", ["name", "value", "other"], [("a", 1.5, long), ("b", 20, "x")])
    text = printed(capsys)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("word") >= 50
    assert text.splitlines()[0].strip() == "title"
    cells = ["[ms]", "[/closing]", ":smile:", "[link=x]y"]
    terminal.print_table("[red]t[/]", ["[bold]"], [[cell] for cell in cells])
    text = printed(capsys)
    assert all(cell in text for cell in ("[red]t[/]", "[bold]", *cells)), "they are printed as they are"
    terminal.print_json({"name": "Kü", "items": [1, 0.25, None, True]})
    text = printed(capsys)
    assert json.loads(text) == {"name": "Kü", "items": [1, 0.25, None, True]}
    assert "Kü" in text


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
    assert terminal.format_value(value) == text


def test_progress_is_a_line_for_each_new_message_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress_bar("cascade x") as report:
        report(0, 0, "reading")
        report(1, 3, "solving [K1]")
        report(1, 3, "solving [K1], level 2")
        report(2, 3, "solving [K1]")
        report(3, 3, "done")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["cascade x: reading", "cascade x: solving [K1] (1/3)", "cascade x: done (3/3)"]


def test_progress_of_many_steps_is_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress_bar("calling") as report:
        for done in range(1, 1001):
            report(done, 1000, f"{done / 1e3:.4g} spent")
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[-1]) == (11, "calling: 1 spent (1000/1000)")


def test_numbers_that_pictures_show_are_left_to_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"dataset": "d", "params": {}, "seed": 0, "unit": "ms", "created_at": "", "sha256": "0", "bytes": 1}
    summary = {"rows": 12, "traffic": {"items": [[1, 2]]}}
    record = ArtifactRecord.model_validate({"kind": "policy", "name": "p", "version": 1, "summary": summary, **fields})
    terminal.print_artifact(record, False)
    text = printed(capsys)
    assert ("rows" in text, "traffic" in text) == (True, False)
    terminal.print_artifact(record, True)
    assert json.loads(printed(capsys))["summary"] == summary
