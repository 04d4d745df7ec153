"""Differences between two versions: their records, default decisions, and decisions on logged rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from app.serving.answers import decide_to_json
from app.serving.catalog import LoadedArtifact
from app.serving.curve import curve_of
from app.serving.version_evaluation import ScoredRules, decide_rows, list_other_rules, read_rule, sample_rows
from models import Dataset, InvalidRequest
from models.arrays import Bools, Floats
from models.artifact import DecisionFacts
from models.curve import CurvePoint
from models.errors import Infeasible, SmallOverlap
from models.evaluation import EvaluatedItem
from models.savings import ExpectedOutcome
from models.version_diff import (
    MAX_EXAMPLES,
    ChangedItem,
    ChangedShare,
    DescribedVersion,
    ItemDecision,
    LoggedDiff,
    VersionDiff,
)
from models.version_evaluation import EvaluatedRecording, RuleFigures
from solvers.base import ModelRunner, Plan
from solvers.kind import make_query
from solvers.logged_decisions import share_by_name
from solvers.off_policy import DecisionRule
from solvers.value_changes import list_changes

MAX_CHANGES = 24
"""Changes that are listed; of more, the number."""
SUMMARIZED_ELSEWHERE = ("savings", "losses", "guarantees")
BEFORE, AFTER = "active", "version"
"""Names of the two rules, whose difference is the second minus the first."""


def compare_versions(
    before: LoadedArtifact[Plan],
    after: LoadedArtifact[Plan],
    active: int,
    logged: tuple[str | EvaluatedRecording, Dataset] | None,
    models: ModelRunner,
) -> VersionDiff:
    """Compare two versions of an artifact.

    Args:
        active: the active version.
        logged: the name of a dataset, or a recording, and its rows to decide; None: no rows.
    Raises:
        InvalidRequest: the artifact does not fit the dataset.
        Infeasible: the default limits cannot be kept for these items.
    """
    one, other = (_describe(loaded, active, models) for loaded in (before, after))
    changes = [
        *list_changes(one.limits, other.limits, "default limit"),
        *list_changes(one.decision, other.decision),
        *list_changes(before.record.params, after.record.params, "parameter"),
        *list_changes(_facts_of(before), _facts_of(after)),
    ]
    changes = list({change.what: change for change in reversed(changes)}.values())[::-1]
    return VersionDiff(
        before=one,
        after=other,
        unit=after.record.unit,
        changes=tuple(changes[:MAX_CHANGES]),
        other_changes=len(changes[MAX_CHANGES:]),
        logged=None if logged is None else _compare_on_rows(before, after, *logged, models),
    )


def _facts_of(loaded: LoadedArtifact[Plan]) -> dict[str, Any]:
    record = loaded.record
    facts = {"dataset": record.dataset, "seed": record.seed, "unit": record.unit}
    return facts | {name: one for name, one in record.summary.items() if name not in SUMMARIZED_ELSEWHERE}


def _describe(loaded: LoadedArtifact[Plan], active: int, models: ModelRunner) -> DescribedVersion:
    record = loaded.record
    decision, expected = _default_decision(loaded, models)
    return DescribedVersion(
        artifact=loaded.ref,
        dataset=record.dataset,
        created_at=record.created_at,
        active=record.version == active,
        limits={} if record.savings is None else dict(record.savings.query),
        decision=decision,
        expected=expected,
    )


def _default_decision(
    loaded: LoadedArtifact[Plan], models: ModelRunner
) -> tuple[dict[str, Any], ExpectedOutcome | None]:
    """Return the decision at the default limits and its expected outcome; of kinds that need an item, the curve's."""
    try:
        reply = orjson.loads(decide_to_json(loaded, make_query(loaded.kind.query), models=models))
    except (InvalidRequest, Infeasible):
        point = _default_point(loaded)
        return ({}, None) if point is None else (orjson.loads(orjson.dumps(point.decision)), point.expected)
    decision = {name: one for name, one in reply.items() if name not in DecisionFacts.model_fields}
    return decision, ExpectedOutcome.model_validate(reply["expected"], strict=False)


def _default_point(loaded: LoadedArtifact[Plan]) -> CurvePoint | None:
    """Return the most expensive point of the curve within the default limits; None if there is none."""
    savings = loaded.record.savings
    if savings is None or not savings.query:
        return None
    limits: Mapping[str, Any] = savings.query
    try:
        points = curve_of(loaded, make_query(loaded.kind.curve_query)).points
    except (InvalidRequest, Infeasible):
        return None
    keeping = [
        point
        for point in points
        if all(
            isinstance(limit := point.limits.get(name), int | float) and limit <= most for name, most in limits.items()
        )
    ]
    return keeping[-1] if keeping else None


def _compare_on_rows(
    before: LoadedArtifact[Plan],
    after: LoadedArtifact[Plan],
    source: str | EvaluatedRecording,
    dataset: Dataset,
    models: ModelRunner,
) -> LoggedDiff:
    dataset, rows = sample_rows(dataset)
    decided = [decide_rows(one, one.kind.limits(), dataset, models) for one in (before, after)]
    rules = [read_rule(one, dataset, items) for one, items in zip((before, after), decided, strict=True)]
    own = {BEFORE: rules[0], AFTER: rules[1]}
    scored = ScoredRules.from_rules(dataset, own | dict(list_other_rules(dataset)))
    known = [_known_rows(rule, items) for rule, items in zip(rules, decided, strict=True)]
    weights = [
        np.ones(dataset.rows) if own.all() else scored.scores[one].weights
        for own, one in zip(known, (BEFORE, AFTER), strict=True)
    ]
    both = np.flatnonzero(known[0] & known[1]).tolist()
    changed = [at for at in both if _decision_of(decided[0][at]) != _decision_of(decided[1][at])]
    ids = _name_rows(dataset, rows.tolist())
    figures, refusal = _read_figures(scored, before, after)
    return LoggedDiff(
        dataset=source if isinstance(source, str) else None,
        recording=None if isinstance(source, str) else source,
        rows=dataset.rows,
        compared_rows=len(both),
        changed_rows=len(changed),
        shares=tuple(_shares(decided, weights)),
        before=figures.get(BEFORE),
        after=figures.get(AFTER),
        differences=None if refusal else scored.compare_rule(BEFORE, "active", before.ref.spelt).differences,
        refusal=refusal,
        examples=tuple(
            ChangedItem(id=ids[at], before=_decision_of(decided[0][at]), after=_decision_of(decided[1][at]))
            for at in changed[:MAX_EXAMPLES]
        ),
    )


def _known_rows(rule: DecisionRule, items: Sequence[EvaluatedItem]) -> Bools:
    """Return the rows whose decision is known, (n,): all if each has one call, else those that support the rule."""
    if all(len(item.path) == 1 for item in items):
        return np.ones(len(items), dtype=np.bool_)
    return rule.supported


def _decision_of(item: EvaluatedItem) -> ItemDecision:
    label = item.label if item.classifier is None else None
    return ItemDecision(path=item.path, classifier=item.classifier, label=label)


def _name_rows(dataset: Dataset, rows: Sequence[int]) -> list[str]:
    if not dataset.item_names:
        return [str(row) for row in rows]
    return [dataset.item_names[code] for code in dataset.items.tolist()]


def _shares(decided: Sequence[Sequence[EvaluatedItem]], weights: Sequence[Floats]) -> Iterator[ChangedShare]:
    if not all(each.sum() > 0 for each in weights):
        return
    called = [share_by_name([item.path for item in items], own) for items, own in zip(decided, weights, strict=True)]
    answers = [
        None if items[0].classifier is None else share_by_name([(str(item.classifier),) for item in items], own)
        for items, own in zip(decided, weights, strict=True)
    ]
    for name in sorted({*called[0], *called[1]}):
        before, after = (None if own is None else own.get(name, 0.0) for own in answers)
        yield ChangedShare(
            name=name,
            called_before=called[0].get(name, 0.0),
            called_after=called[1].get(name, 0.0),
            answers_before=before,
            answers_after=after,
        )


def _read_figures(
    scored: ScoredRules, before: LoadedArtifact[Plan], after: LoadedArtifact[Plan]
) -> tuple[dict[str, RuleFigures], str | None]:
    try:
        scored.refuse_small_overlap(BEFORE, before.ref.spelt)
        scored.refuse_small_overlap(AFTER, after.ref.spelt)
    except SmallOverlap as error:
        return {}, str(error)
    return {name: scored.figures_of(name) for name in (BEFORE, AFTER)}, None
