"""Pipeline plan: chooses a configuration within limits, and sends items through its stages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats, Int64s
from models.errors import Infeasible
from models.pipeline import (
    Acquire,
    Cells,
    Classify,
    Configuration,
    MeasuredFigures,
    PipelineDecision,
    PipelineLimits,
    PipelineStage,
    Reject,
    Step,
)
from solvers.base import check_excluded_names, prepare_plan, run_in_process
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.classifiers import choose_answers, predict
from solvers.pipeline.configurations import make_stage_masks
from solvers.pipeline.contents import PipelineContents
from solvers.pipeline.items import ItemReader
from solvers.setup_groups import NO_GROUPS, SetupGroups
from solvers.statistics import standard_error

REASON_REQUESTED = "requested by number"
REASON_DEFAULT = "the most correct answers of all items; ties go to the cheapest"
REASON_LEAST_TOTAL = "the least sum of cost and loss on the validation rows"
REASON_CHEAPEST = "the cheapest that meets the minima, by cost on the validation rows"
REASON_MOST_ACCURATE = "the most accurate within the budget on the validation rows; ties: higher coverage, then cheaper"
ROUNDING = 1e-12
"""Standard errors below this share of the cost are rounding errors."""


@dataclass(frozen=True, eq=False)
class PipelinePlan(PipelineContents):
    """Non-dominated configurations and the classifiers of their stages."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)

    @cached_property
    def setup(self) -> SetupGroups:
        """The features of each set-up group."""
        return SetupGroups(self.setup_members) if self.setup_names else NO_GROUPS

    @cached_property
    def extended_costs(self) -> Floats:
        """(n + G,), the cost of each feature, then of each set-up group."""
        return np.concatenate((self.costs, self.setup_costs))

    @cached_property
    def _preparation(self) -> Preparation:
        return Preparation(self.fills, self.shifts, self.scales, self.offsets, self.codes)

    @cached_property
    def _reader(self) -> ItemReader:
        return ItemReader.from_columns(self.features, self.columns, self.categories, missing=self.missing)

    @cached_property
    def _masks(self) -> tuple[tuple[int, ...], ...]:
        """Masks of the features known at each stage of each configuration."""
        counts = (self.chromosomes.max(axis=1) + 1).tolist()
        masks = make_stage_masks(self.chromosomes, max(counts)).tolist()
        return tuple(tuple(own[:count]) for own, count in zip(masks, counts, strict=True))

    @cached_property
    def _values(self) -> Floats:
        """Share of items that get a correct answer on validation rows, (s,); with losses, minus the cost and loss."""
        if self.losses is None:
            return np.asarray(self.validated[:, 0] * self.validated[:, 1])
        return np.asarray(-self.validated[:, 2] - self.losses.scale * (1 - self.validated[:, 1]))

    @cached_property
    def default_solution(self) -> int:
        """The configuration without limits, chosen on validation rows."""
        return int(np.argmax(self._values))

    @cached_property
    def safe_costs(self) -> Floats:
        """Cost of each configuration plus its standard error, (s,): the least ``budget`` that allows it."""
        return _safe_costs(self.tested[:, 2], self.tested_cost_errors)

    @cached_property
    def _lower_bounds(self) -> tuple[Floats, Floats]:
        """Lower bounds of accuracy and coverage, (s,) each."""
        rows = self.independence * self.held_out
        accuracies, coverages = _bound_below(self.tested, self.validated, rows, is_of_all=self.losses is not None)
        return accuracies, coverages if self.rejects else np.ones_like(coverages)

    @property
    def rejects(self) -> bool:
        """Whether items may be rejected."""
        return self.after_last_stage == "reject" if self.losses is None else self.losses.rejects

    @cached_property
    def _ranks(self) -> Int64s:
        """Rank of each configuration for queries with a budget, (s,)."""
        return np.argsort(np.lexsort((self.tested[:, 2], -self.validated[:, 0], -self.validated[:, 1])))

    @cached_property
    def _first_steps(self) -> dict[int, Step]:
        """Cache of first steps."""
        return {}

    @cached_property
    def _decided(self) -> dict[tuple[int, str], PipelineDecision]:
        """Cache of decisions."""
        return {}

    def decide(self, query: PipelineLimits) -> PipelineDecision:
        """Choose a configuration that meets the limits.

        Limits must be met on the test rows with a margin of one standard error. Lower bounds are tested on validation
        and test rows together. Among these configurations, scores on the validation rows decide, which reduces the
        selection bias of the reported test scores. With ``budget``, the most accurate configuration is chosen; ties go
        to higher coverage, then to lower cost. With lower bounds only, the cheapest one is chosen. Without limits, the
        one with the most correct answers is chosen, or with losses, the one with the least sum of cost and loss.

        Raises Infeasible, with the nearest configuration, if none meets the limits. O(s) for s configurations.
        """
        if query.solution is not None:
            return self.get_configuration(query.solution)
        cost, accuracy, coverage = query.mean_budget, query.min_accuracy, query.min_coverage
        default = REASON_DEFAULT if self.losses is None else REASON_LEAST_TOTAL
        if cost is None and accuracy is None and coverage is None and not query.excluded:
            return self._decision(self.default_solution, default)
        available = self._available(query.excluded) if query.excluded else True
        if cost is None and accuracy is None and coverage is None:
            return self._decision(int(np.where(available, self._values, -np.inf).argmax()), default)
        meets_minima = (self._lower_bounds[0] >= (accuracy or 0.0)) & (self._lower_bounds[1] >= (coverage or 0.0))
        feasible = np.flatnonzero(meets_minima & available & (self.safe_costs <= (np.inf if cost is None else cost)))
        if not len(feasible):
            none = f"no configuration without {', '.join(query.excluded)} meets the limits"
            raise Infeasible(none if query.excluded else self._describe_nearest(query))
        if cost is None:
            return self._decision(int(feasible[self.validated[feasible, 2].argmin()]), REASON_CHEAPEST)
        return self._decision(int(feasible[self._ranks[feasible].argmin()]), REASON_MOST_ACCURATE)

    def _available(self, excluded: Sequence[str]) -> Bools:
        """Return which configurations acquire no excluded feature, (s,); raises Infeasible for none."""
        check_excluded_names(excluded, self.features)
        available = ~(self.chromosomes[:, np.isin(self.features, excluded)] >= 0).any(axis=1)
        if not available.any():
            raise Infeasible(f"every configuration acquires {' or '.join(excluded)}")
        return np.asarray(available)

    def get_configuration(self, solution: int) -> PipelineDecision:
        """Return a configuration by its number; raises InvalidRequest for an unknown number."""
        if solution >= len(self._masks):
            fault = f"must be from 0 to {len(self._masks) - 1}, got {solution}"
            raise InvalidRequest.from_faults(Fault(("solution",), fault))
        return self._decision(solution, REASON_REQUESTED)

    def list_frontier(self) -> tuple[Configuration, ...]:
        """List all configurations, by increasing cost."""
        return tuple(Configuration(**self._facts(solution)) for solution in range(len(self.chromosomes)))

    def cost_error(self, solution: int) -> float:
        """Return the standard error of a configuration's cost."""
        return float(self.tested_cost_errors[solution])

    def get_threshold(self, solution: int) -> float | dict[str, float]:
        """Return a configuration's accept threshold: one number, or one per class if they differ."""
        if self.losses is not None:
            return float(self.quality_thresholds[solution])
        numbers: list[float] = self.thresholds.tolist()
        return numbers[0] if len(set(numbers)) == 1 else dict(zip(self.classes, numbers, strict=True))

    @property
    def answers_at_once(self) -> bool:
        """Whether all models are linear, so that a step takes well under a millisecond."""
        return self.model_kind != "skops"

    def next_step(
        self,
        solution: int,
        known: Mapping[str, Cells],
        learner_modules: Sequence[str] = (),
        run_in: Callable[..., Any] = run_in_process,
    ) -> Step:
        """Return the next step of one item, like ``next_steps``."""
        values, is_known = self._reader.read([known], "acquired")
        return self._steps(solution, values, is_known, learner_modules, run_in)[0][0]

    def first_step(self, solution: int) -> Step:
        """Return the step of an item without known features."""
        if solution not in self._first_steps:
            self._first_steps[solution] = self.next_step(solution, {})
        return self._first_steps[solution]

    def next_steps(
        self,
        solution: int,
        items: Sequence[Mapping[str, Cells]],
        learner_modules: Sequence[str] = (),
        run_in: Callable[..., Any] = run_in_process,
    ) -> tuple[Step, ...]:
        """Return the next step of each item, given the values of its known features.

        learner_modules, run_in: as for the index's ``predict``. Raises InvalidRequest for unknown features or values.
        """
        return self.next_steps_with_probabilities(solution, items, learner_modules, run_in)[0]

    def next_steps_with_probabilities(
        self,
        solution: int,
        items: Sequence[Mapping[str, Cells]],
        learner_modules: Sequence[str] = (),
        run_in: Callable[..., Any] = run_in_process,
    ) -> tuple[tuple[Step, ...], Floats]:
        """Return ``next_steps``, and the class probabilities of each item's last classifier, (m, c).

        Probabilities are NaN before the first classifier.
        """
        values, is_known = self._reader.read(items, "items")
        return self._steps(solution, values, is_known, learner_modules, run_in)

    def classify(self, solution: int, values: Floats, learner_modules: Sequence[str] = ()) -> tuple[Int64s, Floats]:
        """Classify complete rows, (n, d), by a configuration.

        Return class codes, (n,), -1 if rejected, and costs, (n,).
        """
        is_known = np.ones((len(values), len(self.features)), dtype=bool)
        steps, _ = self._steps(solution, values, is_known, learner_modules, run_in_process)
        code = {name: place for place, name in enumerate(self.classes)}
        paid = np.cumsum([stage.cost for stage in self._facts(solution)["stages"]])
        ends = np.array([step.stage for step in steps])
        codes = np.array([code[step.label] if isinstance(step, Classify) else -1 for step in steps])
        return codes, np.asarray(paid[ends])

    def _steps(
        self, solution: int, values: Floats, is_known: Bools, modules: Sequence[str], run_in: Callable[..., Any]
    ) -> tuple[tuple[Step, ...], Floats]:
        """Send items, (m, d) values and (m, n) known features, through the stages."""
        steps: list[Step | None] = [None] * len(values)
        every = np.full((len(values), len(self.classes)), np.nan)
        table = self._preparation.apply(values)
        rest = np.arange(len(values))
        for stage, mask in enumerate(self._masks[solution]):
            lacking = ~is_known[rest] & self._members(mask)
            for row, lacks in zip(rest.tolist(), lacking, strict=True):
                if lacks.any():
                    steps[row] = self._acquire(is_known[row], lacks, stage)
            rest = rest[~lacking.any(axis=1)]
            if not len(rest):
                break
            probabilities = self._predict_probabilities(mask, table[rest], modules, run_in)
            every[rest] = probabilities
            codes, qualities = choose_answers(probabilities, self.losses)
            with_reject = np.column_stack((probabilities, probabilities.max(axis=1)))
            confidences = with_reject[np.arange(len(rest)), codes]
            last = stage == len(self._masks[solution]) - 1
            thresholds = self.thresholds[codes] if self.losses is None else self.quality_thresholds[solution]
            accepted = (qualities >= thresholds) | (last and self.after_last_stage == "answer")
            for row, code, confidence, is_accepted in zip(
                rest.tolist(), codes.tolist(), confidences.tolist(), accepted, strict=True
            ):
                if is_accepted and code < len(self.classes):
                    steps[row] = Classify(label=self.classes[code], confidence=confidence, stage=stage)
                elif is_accepted or last:
                    steps[row] = Reject(confidence=confidence, stage=stage)
            rest = rest[~accepted]
        return tuple(step for step in steps if step is not None), every

    def _members(self, mask: int) -> Bools:
        return np.array([mask >> f & 1 for f in range(len(self.features))], dtype=bool)

    def _acquire(self, known: Bools, lacks: Bools, stage: int) -> Acquire:
        names = tuple(name for name, lacking in zip(self.features, lacks.tolist(), strict=True) if lacking)
        return Acquire(features=names, cost=self.compute_step_cost(known, lacks), stage=stage)

    def compute_step_cost(self, known: Bools, added: Bools) -> float:
        """Return the cost of acquiring features, (n,), after others: with set-up groups that these do not touch."""
        return self.setup.sum_step(self.extended_costs, known, known | added)

    def _predict_probabilities(
        self, mask: int, table: Floats, modules: Sequence[str], run_in: Callable[..., Any]
    ) -> Floats:
        model = int(np.searchsorted(self.model_masks, np.uint64(mask)))
        start, end = self.model_offsets[model : model + 2].tolist()
        own = table[:, np.repeat(self._column_flags(mask), self._preparation.widths)]
        if self.model_kind == "skops":
            probabilities: Floats = run_in(
                predict, "skops", self.model_bytes[start:end].tobytes(), own, len(self.classes), modules
            )
            return probabilities
        return predict(self.model_kind, self.model_numbers[start:end].tobytes(), own, len(self.classes))

    def _column_flags(self, mask: int) -> Bools:
        """Return which of the d columns are in a feature set."""
        return np.repeat(self._members(mask), [len(own) for own in self.columns])

    def _facts(self, solution: int) -> dict[str, Any]:
        genes, stages = self.chromosomes[solution], len(self._masks[solution])
        return {
            "solution": solution,
            "stages": tuple(self._stage((genes >= 0) & (genes < stage), genes == stage) for stage in range(stages)),
            "validation": _achieved(self.validated[solution]),
            **dict(_achieved(self.tested[solution])),
        }

    def _stage(self, known: Bools, members: Bools) -> PipelineStage:
        names = tuple(name for name, own in zip(self.features, members.tolist(), strict=True) if own)
        return PipelineStage(features=names, cost=self.compute_step_cost(known, members))

    def _decision(self, solution: int, reason: str) -> PipelineDecision:
        """Return a decision, from the cache if possible."""
        decision = self._decided.get((solution, reason))
        if decision is None:
            facts = self._facts(solution)
            threshold = self.get_threshold(solution)
            facts |= {"confidence_threshold": threshold, "after_last_stage": self.after_last_stage}
            decision = PipelineDecision(**facts, reason=reason)
            self._decided[solution, reason] = decision
        return decision

    def _describe_nearest(self, query: PipelineLimits) -> str:
        """Describe the configurations nearest to limits that no configuration meets."""
        feasible = self._lower_bounds[0] >= (query.min_accuracy or 0.0)
        feasible &= self._lower_bounds[1] >= (query.min_coverage or 0.0)
        if feasible.any():
            least = float(self.safe_costs[feasible].min())
            limited = query.min_accuracy is not None or query.min_coverage is not None
            nearest = (
                f"the cheapest configuration{' that meets the minima' if limited else ''} costs {least:g} {self.unit}"
            )
            return f"{nearest}, including a standard error; the limit is {query.mean_budget:g}{self._suggest_options()}"
        minima = {
            "accuracy": (query.min_accuracy, self._lower_bounds[0]),
            "coverage": (query.min_coverage, self._lower_bounds[1]),
        }
        requested = [f"{name} {least:g}" for name, (least, _) in minima.items() if least is not None]
        reached = [f"{name} is at most {achieved.max():g}" for name, (_, achieved) in minima.items()]
        margin = "with a margin of one standard error"
        return f"no configuration has {' and '.join(requested)} {margin}; {', '.join(reached)}"

    def _suggest_options(self) -> str:
        """Recommend build options that may find cheaper configurations, if any."""
        if self.chromosomes.shape[1] == 1 or (self.chromosomes < 0).any():
            return ""
        if self.after_last_stage == "reject":
            return "; build with after_last_stage: answer to exclude more features"
        return "; build with search: auto to exclude features"


def _safe_costs(costs: Floats, errors: Floats) -> Floats:
    """Add a standard error to costs, (s,)."""
    return np.asarray(costs + np.where(errors > ROUNDING * costs, errors, 0.0))


def _bound_below(tested: Floats, validated: Floats, rows: float, *, is_of_all: bool) -> tuple[Floats, Floats]:
    """Return lower bounds of accuracies and coverages, (s,) each.

    They are estimates on the test and validation rows together (``rows`` of each), minus a standard error. They are at
    most the values on the test rows, and at least 0.

    is_of_all: whether accuracies are of all rows, not of covered ones.
    """
    coverages = (tested[:, 0] + validated[:, 0]) / 2
    shares = np.ones((2, len(tested))) if is_of_all else np.stack((tested[:, 0], validated[:, 0]))
    graded = shares.sum(axis=0)
    accuracies = (shares[0] * tested[:, 1] + shares[1] * validated[:, 1]) / np.maximum(graded, 1 / rows)
    spare = standard_error(accuracies, np.maximum(rows * graded, 1.0)), standard_error(coverages, 2 * rows)
    least = np.minimum(accuracies - spare[0], tested[:, 1]), np.minimum(coverages - spare[1], tested[:, 0])
    return np.maximum(least[0], 0.0), np.maximum(least[1], 0.0)


def _achieved(row: Floats) -> MeasuredFigures:
    coverage, accuracy, cost, alarms = row.tolist()
    rate = None if np.isnan(alarms) else alarms
    return MeasuredFigures(conclusive_accuracy=accuracy, coverage=coverage, cost=cost, false_positive_rate=rate)
