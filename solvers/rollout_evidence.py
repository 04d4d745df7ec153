"""Evidence of a rollout: sequential tests on both versions, and the resulting promotion or abort."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from models.rollout import (
    CostSource,
    RolloutComparison,
    RolloutPoint,
    RolloutRequest,
    ShadowSummary,
    VersionOutcomeSummary,
)
from solvers.sequential_tests import (
    ConfidenceSequence,
    Hypothesis,
    SequentialTest,
    VersionOutcomes,
    make_extra_cost_null,
    make_inferiority_null,
    make_noninferiority_null,
    make_savings_null,
    pair_outcomes,
)

ERROR_RATE = 0.05
"""Largest probability that a rollout is ever promoted though a bound is violated, and that it is ever aborted though
none is."""
SHADOW_DECISIONS = 1000
"""Number of decisions without an error after which a shadow becomes a canary."""
Verdict = Literal["canary", "promoted", "aborted"]
SNAPSHOT_GROWTH = 1.15
"""A snapshot is kept each time the number of pairs has grown by this factor."""
Snapshot = tuple[int, int, float, float, float, float]
"""Numbers of pairs and of outcomes, means of the active version and the candidate, and interval of the difference."""
Outcome = tuple[bool, float]
"""Whether the candidate decided, and the value."""


@dataclass(slots=True)
class QuantityEvidence:
    """Outcomes of one quantity, scaled to [0, 1], and the tests on them."""

    active: VersionOutcomes = field(default_factory=VersionOutcomes)
    candidate: VersionOutcomes = field(default_factory=VersionOutcomes)
    promote: SequentialTest = field(default_factory=SequentialTest)
    abort: SequentialTest = field(default_factory=SequentialTest)
    difference: ConfidenceSequence = field(default_factory=ConfidenceSequence)
    history: list[Snapshot] = field(default_factory=list)

    def observe_outcomes(
        self, outcomes: Iterable[Outcome], share: float, promote: Hypothesis | None, abort: Hypothesis | None
    ) -> None:
        """Add outcomes in [0, 1]. O(number of outcomes)."""
        for active, candidate in pair_outcomes(self.active, self.candidate, outcomes, share):
            self.difference.observe_value((1 + candidate - active) / 2, ERROR_RATE)
            if promote is not None:
                self.promote.observe_pair(promote, active, candidate)
            if abort is not None:
                self.abort.observe_pair(abort, active, candidate)
            if self.difference.count >= SNAPSHOT_GROWTH * (self.history[-1][0] if self.history else 1):
                self.history.append(self._take_snapshot())

    def _take_snapshot(self) -> Snapshot:
        low, high = self.difference.find_interval(ERROR_RATE)
        active, candidate = self.active, self.candidate
        outcomes, means = (
            active.count + candidate.count,
            (active.total / active.count, candidate.total / candidate.count),
        )
        return self.difference.count, outcomes, *means, 2 * low - 1, 2 * high - 1

    def summarize(self, scale: float, *, promotes: bool, aborts: bool) -> RolloutComparison:
        """Return the comparison, in multiples of ``scale``."""
        arms = [_summarize_arm(arm, scale) for arm in (self.active, self.candidate)]
        low, high = self.difference.find_interval(ERROR_RATE)
        return RolloutComparison(
            active=arms[0],
            candidate=arms[1],
            difference=_difference(arms[0].mean, arms[1].mean, scale),
            difference_interval=(scale * (2 * low - 1), scale * (2 * high - 1)) if self.difference.count else None,
            promote_evidence=self.promote.evidence if promotes else None,
            abort_evidence=self.abort.evidence if aborts else None,
            history=tuple(_show_snapshot(one, scale) for one in self.history),
        )


def _show_snapshot(snapshot: Snapshot, scale: float) -> RolloutPoint:
    _, outcomes, *values = snapshot
    active, candidate, low, high = (scale * value for value in values)
    return RolloutPoint(outcomes=outcomes, active=active, candidate=candidate, interval=(low, high))


def _difference(active: float | None, candidate: float | None, scale: float) -> float | None:
    """Return the difference of means, without accumulated rounding error."""
    return None if active is None or candidate is None else round((candidate - active) / scale, 12) * scale


def _summarize_arm(arm: VersionOutcomes, scale: float) -> VersionOutcomeSummary:
    return VersionOutcomeSummary(outcomes=arm.count, mean=scale * arm.total / arm.count if arm.count else None)


@dataclass(slots=True)
class ShadowEvidence:
    """Decisions of both versions for the same items; costs are scaled to [0, 1]."""

    decisions: int = 0
    errors: int = 0
    differing: int = 0
    costs: int = 0
    active_total: float = 0.0
    candidate_total: float = 0.0
    saving: SequentialTest = field(default_factory=SequentialTest)

    def summarize(self, scale: float) -> ShadowSummary:
        """Return the summary, with costs in multiples of ``scale``."""
        means = [
            scale * total / self.costs if self.costs else None for total in (self.active_total, self.candidate_total)
        ]
        return ShadowSummary(
            decisions=self.decisions,
            errors=self.errors,
            differing=self.differing,
            active_cost=means[0],
            candidate_cost=means[1],
        )


@dataclass(frozen=True, slots=True)
class ShadowDecision:
    """Decisions of both versions for an item.

    Attributes:
        differs: whether the decisions differ; None if the candidate could not decide.
        costs: expected costs of the active version's decision and of the candidate's; None if unknown.
    """

    differs: bool | None
    costs: tuple[float, float] | None


@dataclass(slots=True)
class RolloutEvidence:
    """All evidence of a rollout."""

    accuracy: QuantityEvidence = field(default_factory=QuantityEvidence)
    answered: QuantityEvidence = field(default_factory=QuantityEvidence)
    """Whether runs had an answer. Without feedback, only this can show that a candidate fails."""
    cost: QuantityEvidence = field(default_factory=QuantityEvidence)
    cost_source: CostSource | None = None
    costs_above_bound: int = 0
    active_costs_above_bound: int = 0
    shadow: ShadowEvidence = field(default_factory=ShadowEvidence)

    def observe_accuracies(self, rules: RolloutRequest, outcomes: Iterable[Outcome]) -> None:
        """Add qualities of answers, from 0 to 1."""
        promote = None if rules.promote is None else make_noninferiority_null(rules.promote.max_accuracy_loss)
        self.accuracy.observe_outcomes(
            outcomes, rules.share, promote, make_inferiority_null(rules.abort.max_accuracy_loss)
        )

    def observe_answered(self, rules: RolloutRequest, outcomes: Iterable[Outcome]) -> None:
        """Add run results: 1 with an answer, 0 without."""
        self.answered.observe_outcomes(
            outcomes, rules.share, None, make_inferiority_null(rules.abort.max_accuracy_loss)
        )

    def observe_costs(
        self, rules: RolloutRequest, outcomes: Sequence[Outcome], bound: float, source: CostSource
    ) -> None:
        """Add costs of items, in the artifact's unit.

        Only costs of the first source count, so that no cost is counted twice. Costs above the bound are capped at the
        bound and counted. Capping favors the version with such costs. So if there are any, costs cannot prove a saving.
        If the active version has any, costs cannot cause an abort.
        """
        if not outcomes:
            return
        self.cost_source = self.cost_source or source
        if self.cost_source != source:
            return
        above = [is_candidate for is_candidate, cost in outcomes if cost > bound]
        self.costs_above_bound += len(above)
        self.active_costs_above_bound += above.count(False)
        capped = [(is_candidate, min(cost / bound, 1.0)) for is_candidate, cost in outcomes]
        self.cost.observe_outcomes(capped, rules.share, get_savings_null(rules), get_extra_cost_null(rules))

    def observe_shadow(self, rules: RolloutRequest, decisions: Iterable[ShadowDecision], bound: float) -> None:
        """Add decisions of both versions for the same items."""
        shadow, rule = self.shadow, get_savings_null(rules)
        for one in decisions:
            shadow.errors += one.differs is None
            shadow.decisions += one.differs is not None
            shadow.differing += bool(one.differs)
            if one.costs is None:
                continue
            if max(one.costs) > bound:
                self.costs_above_bound += 1
                continue
            active, candidate = (cost / bound for cost in one.costs)
            shadow.costs += 1
            shadow.active_total += active
            shadow.candidate_total += candidate
            if rule is not None:
                shadow.saving.observe_pair(rule, active, candidate)


def get_savings_null(rules: RolloutRequest) -> Hypothesis | None:
    """Return the null hypothesis that a promotion by costs must reject; None if costs are not tested."""
    least = None if rules.promote is None else rules.promote.min_saving
    return None if least is None else make_savings_null(least)


def get_extra_cost_null(rules: RolloutRequest) -> Hypothesis | None:
    """Return the null hypothesis whose rejection aborts by costs; None if costs are not tested."""
    return None if rules.abort.max_extra_cost is None else make_extra_cost_null(rules.abort.max_extra_cost)


def decide_rollout(rules: RolloutRequest, mode: str, evidence: RolloutEvidence) -> tuple[Verdict, str] | None:
    """Return the proven promotion or abort, and its reason; None if neither is proven.

    An abort has priority over a promotion. A promotion requires that all of its rules are proven, so it is wrong with
    probability at most ``ERROR_RATE``. The two or three abort rules share this rate.
    """
    if mode == "shadow":
        return _end_shadow(rules, evidence)
    by_cost = get_extra_cost_null(rules) is not None
    rate = ERROR_RATE / (3 if by_cost else 2)
    if evidence.answered.abort.is_rejected(rate):
        return "aborted", f"more than {rules.abort.max_accuracy_loss:g} of the runs lack an answer only with it"
    if evidence.accuracy.abort.is_rejected(rate):
        return "aborted", f"accuracy is lower by more than {rules.abort.max_accuracy_loss:g}"
    if by_cost and not evidence.active_costs_above_bound and evidence.cost.abort.is_rejected(rate):
        return "aborted", f"cost is higher by more than {rules.abort.max_extra_cost:g} of the active version's"
    if rules.promote is None or not evidence.accuracy.promote.is_rejected(ERROR_RATE):
        return None
    reason = f"accuracy is lower by less than {rules.promote.max_accuracy_loss:g}"
    if rules.promote.min_saving is None:
        return "promoted", reason
    if evidence.costs_above_bound or not evidence.cost.promote.is_rejected(ERROR_RATE):
        return None
    return "promoted", f"{reason}, and more than {rules.promote.min_saving:g} of the cost is saved"


def _end_shadow(rules: RolloutRequest, evidence: RolloutEvidence) -> tuple[Verdict, str] | None:
    shadow = evidence.shadow
    if rules.promote is None or shadow.errors or shadow.decisions < SHADOW_DECISIONS:
        return None
    reason = f"{shadow.decisions} decisions without an error"
    if get_savings_null(rules) is None:
        return "canary", reason
    if evidence.costs_above_bound or not shadow.saving.is_rejected(ERROR_RATE):
        return None
    return "canary", f"{reason}, and expected costs are lower"
