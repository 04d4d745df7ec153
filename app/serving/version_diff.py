"""Differences between two versions: their records, decisions within limits, and decisions on logged rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from app.serving.catalog import LoadedArtifact
from app.serving.curve import make_curve_reply
from app.serving.decision_replies import decide_to_json, with_default_limits
from app.serving.version_evaluation import ScoredRules, decide_rows, list_other_rules, read_rule, sample_rows
from models import Dataset, InvalidRequest, Value
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
from solvers.json_diff import list_changes
from solvers.kind import make_query
from solvers.logged_decisions import sum_weights_by_name
from solvers.off_policy import DecisionRule

MAX_CHANGES = 24
"""Changes that are listed; of more, the number."""
SUMMARIZED_ELSEWHERE = ("savings", "losses", "guarantees")
BEFORE, AFTER = "active", "version"
"""Names of the two rules, whose difference is the second minus the first."""


def compare_versions(
    before: LoadedArtifact[Plan],
    after: LoadedArtifact[Plan],
    active: int,
    limits: Value,
    logged: tuple[str | EvaluatedRecording, Dataset] | None,
    models: ModelRunner,
) -> VersionDiff:
    """Compare two versions of an artifact.

    Args:
        active: the active version.
        limits: limits for the decisions of both versions; without any, each version uses its default limits.
        logged: the name of a dataset or a recording, and its rows to decide; None for no rows.
    Raises:
        InvalidRequest: the artifact cannot decide on the dataset.
        Infeasible: the limits cannot be kept.
    """
    one, other = (_describe(loaded, active, limits, models) for loaded in (before, after))
    changes = [
        *list_changes(one.limits, other.limits, "limit"),
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
        logged=None if logged is None else _compare_on_rows(before, after, limits, *logged, models),
    )


def _facts_of(loaded: LoadedArtifact[Plan]) -> dict[str, Any]:
    record = loaded.record
    facts = {"dataset": record.dataset, "seed": record.seed, "unit": record.unit}
    return facts | {name: one for name, one in record.summary.items() if name not in SUMMARIZED_ELSEWHERE}


def _describe(loaded: LoadedArtifact[Plan], active: int, limits: Value, models: ModelRunner) -> DescribedVersion:
    record, resolved = loaded.record, with_default_limits(loaded, limits)
    decision, expected = _decide_once(loaded, resolved, models, has_limits=limits != type(limits)())
    return DescribedVersion(
        artifact=loaded.ref,
        dataset=record.dataset,
        created_at=record.created_at,
        active=record.version == active,
        limits=resolved.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
        decision=decision,
        expected=expected,
    )


def _decide_once(
    loaded: LoadedArtifact[Plan], limits: Value, models: ModelRunner, *, has_limits: bool
) -> tuple[dict[str, Any], ExpectedOutcome | None]:
    """Return the decision within limits and its expected outcome.

    If a plan needs an item to decide, they are from its curve.

    Args:
        has_limits: whether the limits are from the request, so that they must be kept.
    """
    try:
        query = make_query(loaded.kind.query, **limits.model_dump())
        reply = orjson.loads(decide_to_json(loaded, query, models=models))
    except (InvalidRequest, Infeasible):
        if has_limits and not loaded.kind.embedding_dimensions(loaded.plan):
            raise
        point = _find_point(loaded, limits)
        return ({}, None) if point is None else (orjson.loads(orjson.dumps(point.decision)), point.expected)
    decision = {name: one for name, one in reply.items() if name not in DecisionFacts.model_fields}
    return decision, ExpectedOutcome.model_validate(reply["expected"], strict=False)


def _find_point(loaded: LoadedArtifact[Plan], limits: Value) -> CurvePoint | None:
    """Return the most expensive point of the curve within limits.

    With a minimum accuracy, return the cheapest point that reaches it. Return None without such a point, without
    limits, or with limits that points of a curve do not have.
    """
    given = limits.model_dump(exclude_none=True, exclude_defaults=True)
    accuracy = given.pop("min_accuracy", None)
    if not given and accuracy is None:
        return None
    try:
        points = make_curve_reply(loaded, make_query(loaded.kind.curve_query)).points
    except (InvalidRequest, Infeasible):
        return None
    keeping = [
        point
        for point in points
        if (accuracy is None or (point.expected.accuracy or 0.0) >= accuracy)
        and all(
            isinstance(limit := point.limits.get(name), int | float) and limit <= most for name, most in given.items()
        )
    ]
    return None if not keeping else keeping[-1] if accuracy is None else keeping[0]


def _compare_on_rows(
    before: LoadedArtifact[Plan],
    after: LoadedArtifact[Plan],
    limits: Value,
    source: str | EvaluatedRecording,
    dataset: Dataset,
    models: ModelRunner,
) -> LoggedDiff:
    dataset, rows = sample_rows(dataset)
    decided = [decide_rows(one, limits, dataset, models) for one in (before, after)]
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
        differences=None if refusal else scored.compare_rule(BEFORE, "active", before.ref.full_name).differences,
        refusal=refusal,
        examples=tuple(
            ChangedItem(id=ids[at], before=_decision_of(decided[0][at]), after=_decision_of(decided[1][at]))
            for at in changed[:MAX_EXAMPLES]
        ),
    )


def _known_rows(rule: DecisionRule, items: Sequence[EvaluatedItem]) -> Bools:
    """Return the rows whose decision is known, (n,).

    These are all rows if each has one call, else those that support the rule.
    """
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
    called = [
        sum_weights_by_name([item.path for item in items], own) for items, own in zip(decided, weights, strict=True)
    ]
    answers = [
        None if items[0].classifier is None else sum_weights_by_name([(str(item.classifier),) for item in items], own)
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
        scored.require_overlap(BEFORE, before.ref.full_name)
        scored.require_overlap(AFTER, after.ref.full_name)
    except SmallOverlap as error:
        return {}, str(error)
    return {name: scored.figures_of(name) for name in (BEFORE, AFTER)}, None
