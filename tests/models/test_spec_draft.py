"""Specs drafted from the columns of tables as people have them."""

import pytest

from models.spec_draft import make_spec_draft


def test_answers_confidences_and_costs_that_begin_alike_are_a_classifier() -> None:
    head = ["truth", "bayes_says", "bayes_sure", "bayes_ms", "forest_says", "forest_sure", "forest_ms"]
    spec, guesses = make_spec_draft(head, [])
    assert (spec["kind"], spec["label"], spec["unit"]) == ("trace", "truth", "ms")
    assert spec["classifiers"][1] == {
        "name": "forest",
        "prediction": "forest_says",
        "confidence": "forest_sure",
        "cost": {"column": "forest_ms"},
    }
    assert guesses == ()


@pytest.mark.parametrize("between", [" ", "_", ".", "-"])
def test_names_may_have_spaces_and_what_parts_them_may_differ(between: str) -> None:
    head = [f"GPT 4{between}{what}" for what in ("answer", "confidence", "usd")] + ["True label"]
    spec, guesses = make_spec_draft(head, [])
    assert spec["label"] == "True label"
    assert spec["unit"] == "USD"
    assert spec["classifiers"] == [
        {"name": "GPT 4", "prediction": head[0], "confidence": head[1], "cost": {"column": head[2]}}
    ]
    assert guesses == ()


def test_one_name_that_begins_another_takes_none_of_its_columns() -> None:
    spec, _ = make_spec_draft(["gpt_says", "gpt_sure", "gpt4_says", "gpt4_sure", "label"], [])
    assert [one["confidence"] for one in spec["classifiers"]] == ["gpt_sure", "gpt4_sure"]


def test_what_is_guessed_is_said() -> None:
    spec, guesses = make_spec_draft(["a_pred", "b_pred", "b_s", "c_pred", "c_usd", "which"], [])
    assert spec["label"] == "which"
    assert spec["classifiers"][0]["cost"] == 1
    assert [guess.partition(":")[0] for guess in guesses] == [
        "the label is 'which'",
        "'a' has no column of its cost",
        "costs seem to be in USD and s",
    ]


def test_other_columns_are_features_text_is_categorical_and_gaps_are_missing() -> None:
    spec, guesses = make_spec_draft(["age", "colour", "target"], [["1", "red", "x"], ["", "blue", "y"]])
    assert spec["categorical"] == ["colour"]
    assert spec["missing"] is True
    assert [one["name"] for one in spec["features"]] == ["age", "colour"]
    assert guesses == ("the costs of features: all set to 1",)


def test_traces_of_language_models_that_were_judged_need_no_label() -> None:
    head = ["prompt", "small correct", "small logprob", "small usd", "large_judge", "large_tokens"]
    spec, guesses = make_spec_draft(head, [])
    small = {"confidence": "small logprob", "confidence_scale": "logprob", "cost": {"column": "small usd"}}
    large = {"name": "large", "quality": "large_judge", "cost": 1}
    classifiers = [{"name": "small", "correct": "small correct", **small}, large]
    assert spec == {"kind": "trace", "unit": "USD", "text": "prompt", "classifiers": classifiers}
    assert len(guesses) == 3
    assert "tokens in 'large_tokens' times their price" in guesses[1]


def test_where_answers_and_a_label_are_there_these_are_taken() -> None:
    spec, _ = make_spec_draft(["label", "a_says", "a_correct", "b_says", "b_correct"], [])
    assert [one["prediction"] for one in spec["classifiers"]] == ["a_says", "b_says"]
    assert spec["label"] == "label"
    # of free text the grade is taken
    spec, guesses = make_spec_draft(["a_answer", "a_correct", "b_answer", "b_correct"], [])
    assert [one["correct"] for one in spec["classifiers"]] == ["a_correct", "b_correct"]
    assert ("label" in spec, all("cost" in guess for guess in guesses)) == (False, True)


@pytest.mark.parametrize(
    ("head", "label"),
    [
        (["true letter", "A prediction", "A time ms", "B prediction", "B time ms"], "true letter"),
        (["correct answer", "A pred", "A conf", "A ms", "B pred", "B ms"], "correct answer"),
        (["A pred", "A ms", "what", "B pred", "B ms"], "what"),
        (["x", "y", "label"], "label"),
        (["x", "y"], "y"),
        (["A pred", "A ms", "actual ms", "B pred", "B ms", "class"], "class"),
        (["A answer", "A tokens", "what", "B answer", "B tokens"], "what"),
        (["age", "actual weight", "outcome"], "outcome"),
    ],
)
def test_the_label_is_the_column_that_says_so_most_plainly_and_never_an_answer_or_a_cost(
    head: list[str], label: str
) -> None:
    spec, _ = make_spec_draft(head, [])
    assert spec["label"] == label
    assert all(label not in (one["name"], one["prediction"]) for one in spec.get("classifiers", ()))


@pytest.mark.parametrize(
    ("sure", "cells", "scale"),
    [
        ("fast sure %", [], "percent"),
        ("fast_conf_pct", [], "percent"),
        ("fast confidence (%)", [], "percent"),
        ("fast.prob.percent", [], "percent"),
        ("fast logit", [], "logit"),
        ("fast_logprob", ["0.5"], "logprob"),
        ("fast-score", [], None),
        ("fast-score", ["0.2", "1", ""], None),
        ("fast-score", ["-0.2", "-3"], "logprob"),
        ("fast-score", ["97.5", "12"], "percent"),
        ("fast-score", ["-2.5", "1.2"], "logit"),
    ],
)
def test_the_scale_of_a_confidence_is_drafted_by_its_name_and_values(
    sure: str, cells: list[str], scale: str | None
) -> None:
    spec, guesses = make_spec_draft(["truth", "fast says", sure, "fast ms"], [["a", "a", cell, "1"] for cell in cells])
    (drafted,) = spec["classifiers"]
    assert (drafted["confidence"], drafted.get("confidence_scale")) == (sure, scale)
    assert len(guesses) == (scale is not None)
