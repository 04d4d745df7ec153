"""Off-policy evaluation of a version on logged rows, compared with other decision rules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import with_default_limits
from app.serving.evaluation import evaluate_in_batches
from models import Dataset, Trace, Value
from models.arrays import Floats, Int64s
from models.errors import ParsimonyError, SmallOverlap
from models.evaluation import EvaluatedItem
from models.overlap import Overlap
from models.version_evaluation import (
    ComparedWith,
    Differences,
    Estimated,
    EstimatedFigure,
    EvaluatedRecording,
    PairedDifference,
    RuleFigures,
    VersionComparison,
    VersionEvaluation,
)
from models.weights import repeat_rows
from solvers.base import ModelRunner, Plan, make_generator
from solvers.evaluation import items_from_dataset
from solvers.logged_decisions import find_logged_choices, make_rule, require_compatible_dataset
from solvers.off_policy import (
    DecisionRule,
    RuleScores,
    estimate_difference,
    estimate_mean,
    estimate_snips,
    make_single_call_rule,
    measure_overlap,
    score_rules,
)

MAX_ROWS = 20_000
"""Rows of a dataset that are evaluated; of more, a random sample."""
VERSION, ACTIVE, LOGGED = "version", "active", "logged"


def sample_rows(dataset: Dataset) -> tuple[Dataset, Int64s]:
    """Return a dataset of at most ``MAX_ROWS`` random rows, and their original indices.

    Rows are repeated by their weights.
    """
    rows = repeat_rows(dataset.weights) if len(dataset.weights) else np.arange(dataset.rows)
    if len(rows) > MAX_ROWS:
        rows = np.sort(make_generator(0).choice(rows, MAX_ROWS, replace=False))
    return replace(dataset.take(rows), items=dataset.item_codes[rows], weights=np.empty(0)), rows


def decide_rows(
    loaded: LoadedArtifact[Plan], limits: Value, dataset: Dataset, models: ModelRunner
) -> list[EvaluatedItem]:
    """Return the decision of a version in each row of a dataset; raises InvalidRequest or Infeasible."""
    require_compatible_dataset(loaded.kind, loaded.plan, dataset, loaded.record.unit)
    items = items_from_dataset(dataset)
    if not loaded.kind.embedding_dimensions(loaded.plan):
        items = replace(items, embeddings=None)
    return [one for some in evaluate_in_batches(loaded, limits, items, models) for one in some]


def read_rule(loaded: LoadedArtifact[Plan], dataset: Dataset, decided: list[EvaluatedItem]) -> DecisionRule:
    """Return the decision rule of a version from its decisions."""
    return make_rule(dataset, decided, loaded.kind.embedding_cost(loaded.plan))


def evaluate_version(
    loaded: LoadedArtifact[Plan],
    active: LoadedArtifact[Plan],
    limits: Value,
    source: str | EvaluatedRecording,
    dataset: Dataset,
    models: ModelRunner,
) -> VersionEvaluation:
    """Evaluate a version on logged rows.

    Args:
        source: the name of the dataset or the recording.
    Raises:
        SmallOverlap: the rows do not support the version.
        InvalidRequest: the artifact cannot decide on the dataset.
        Infeasible: the limits cannot be kept.
    """
    dataset, _ = sample_rows(dataset)
    rules = {VERSION: read_rule(loaded, dataset, decide_rows(loaded, limits, dataset, models))}
    refusals = dict[str, str]()
    if active.ref != loaded.ref:
        try:
            rules[ACTIVE] = read_rule(active, dataset, decide_rows(active, limits, dataset, models))
        except ParsimonyError as error:
            refusals[ACTIVE] = str(error)
    scored = ScoredRules.from_rules(dataset, rules | dict(list_other_rules(dataset)))
    scored.require_overlap(VERSION, loaded.ref.full_name)
    return VersionEvaluation(
        artifact=loaded.ref,
        dataset=source if isinstance(source, str) else None,
        recording=None if isinstance(source, str) else source,
        rows=dataset.rows,
        items=len(np.unique(dataset.item_codes)),
        supported_rows=int(rules[VERSION].supported.sum()),
        unit=loaded.record.unit,
        limits=with_default_limits(loaded, limits).model_dump(mode="json", exclude_none=True, exclude_defaults=True),
        figures=scored.figures_of(VERSION),
        comparisons=tuple(_comparisons(scored, active, refusals)),
    )


def list_other_rules(dataset: Dataset) -> Iterator[tuple[str, DecisionRule]]:
    """Yield the decision rule of the log, if known, and a rule per single classifier."""
    if not isinstance(dataset, Trace):
        return
    chosen = find_logged_choices(dataset)
    if chosen is not None:
        yield LOGGED, make_single_call_rule(dataset, chosen)
    for j, classifier in enumerate(dataset.spec.classifiers):
        yield _single(classifier.name), make_single_call_rule(dataset, np.full(dataset.rows, j))


def _single(classifier: str) -> str:
    return f"always {classifier}"


def _comparisons(
    scored: "ScoredRules", active: LoadedArtifact[Plan], refusals: Mapping[str, str]
) -> Iterator[VersionComparison]:
    if LOGGED in scored.rules:
        yield scored.compare_rule(LOGGED, "logged", "logged")
    if ACTIVE in refusals:
        yield VersionComparison(
            compared_with="active", name=active.ref.full_name, figures=None, differences=None, refusal=refusals[ACTIVE]
        )
    elif ACTIVE in scored.rules:
        yield scored.compare_rule(ACTIVE, "active", active.ref.full_name)
    best = scored.find_best_single()
    if best is not None:
        yield scored.compare_rule(best, "best_single", best)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRules:
    """Decision rules by name, with their scores and overlaps on the same rows."""

    dataset: Dataset
    rules: Mapping[str, DecisionRule]
    scores: Mapping[str, RuleScores]
    overlaps: Mapping[str, Overlap]

    @classmethod
    def from_rules(cls, dataset: Dataset, rules: Mapping[str, DecisionRule]) -> "ScoredRules":
        """Score rules on the rows of a dataset."""
        found = score_rules(dataset, list(rules.values()))
        scores = dict(zip(rules, found, strict=True))
        overlaps = {name: measure_overlap(rules[name], scores[name], dataset.item_codes) for name in rules}
        return cls(dataset, rules, scores, overlaps)

    def require_overlap(self, name: str, shown: str) -> None:
        """Raise SmallOverlap if the rows do not support a rule."""
        overlap = self.overlaps[name]
        if not overlap.is_sufficient:
            raise SmallOverlap(f"{_describe_refusal(shown, overlap)}; log more of its calls", overlap)

    def find_best_single(self) -> str | None:
        """Return the most accurate classifier; with losses, the one of least cost plus loss.

        Return None if no classifier can be estimated.
        """
        singles = [name for name in self.rules if name not in (VERSION, ACTIVE, LOGGED)]
        known = [name for name in singles if self.overlaps[name].is_sufficient]
        scale = self.dataset.loss_scale
        means = {
            name: float((-self.scores[name].costs + scale * self.scores[name].quality).mean())
            if scale
            else float(self.scores[name].quality.mean())
            for name in known
        }
        return max(known, key=lambda name: means[name], default=None)

    def compare_rule(self, name: str, compared_with: ComparedWith, shown: str) -> VersionComparison:
        """Return the figures of another rule, and the version's differences from it."""
        overlap, is_known = self.overlaps[name], self.overlaps[name].is_sufficient
        return VersionComparison.model_construct(
            compared_with=compared_with,
            name=shown,
            figures=self.figures_of(name) if is_known else None,
            differences=self._differences_from(name) if is_known else None,
            refusal=None if is_known else _describe_refusal(shown, overlap),
        )

    def figures_of(self, name: str) -> RuleFigures:
        """Return the figures of a rule with sufficient overlap."""
        rule, scores, scale = self.rules[name], self.scores[name], self.dataset.loss_scale
        known_costs = rule.costs + rule.fixed_cost
        return RuleFigures(
            accuracy=self._figure(scores, scores.quality, rule.quality, is_share=True),
            cost=self._figure(scores, scores.costs, known_costs),
            loss=self._figure(scores, scale * (1 - scores.quality), scale * (1 - rule.quality)) if scale else None,
        )

    def _figure(self, scores: RuleScores, values: Floats, known: Floats, *, is_share: bool = False) -> EstimatedFigure:
        items = self.dataset.item_codes
        estimate = estimate_mean(values, scores.weights, items, is_share=is_share)
        snips = None if scores.is_replayed else estimate_snips(known, scores.weights, items, is_share=is_share)
        return EstimatedFigure(
            value=estimate.value,
            interval=estimate.interval,
            effective_rows=estimate.effective_rows,
            method="replay" if scores.is_replayed else "doubly_robust",
            snips=None
            if snips is None
            else Estimated(value=snips.value, interval=snips.interval, effective_rows=snips.effective_rows),
        )

    def _differences_from(self, name: str) -> Differences:
        own, other, scale = self.scores[VERSION], self.scores[name], self.dataset.loss_scale
        effective = min(self.overlaps[each].effective_rows for each in (VERSION, name))

        def differ(values: Floats, others: Floats) -> PairedDifference:
            value, interval = estimate_difference(values, others, self.dataset.item_codes, effective)
            return PairedDifference(value=value, interval=interval)

        return Differences(
            accuracy=differ(own.quality, other.quality),
            cost=differ(own.costs, other.costs),
            loss=differ(-scale * own.quality, -scale * other.quality) if scale else None,
        )


def _describe_refusal(shown: str, overlap: Overlap) -> str:
    return f"the rows do not support an estimate of {shown}: {overlap}"
