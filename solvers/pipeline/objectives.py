"""Objectives of configurations, computed by bit counts (EMSCO, Section 2.2).

They are conclusiveness, conclusive accuracy, and cost.

A row passes from stage to stage until a prediction is accepted, and pays for the features of every stage that it
reaches. Counts are integers and sums of costs are exact (``unit_costs``), so equal configurations have equal
objectives.

With losses, every row gets an answer or a rejection, and the quality of an answer is 1 minus its loss as a share of the
largest loss. The objectives are then the mean quality of all rows, which replaces Eq. 3 and 4, and the cost. So the
configuration with the least sum of cost and loss is on the front.
"""

from dataclasses import dataclass, replace

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.arrays import Floats, Int8s, Int32s, Int64s, UInt64s
from models.cost import cost_function
from models.losses import Losses
from models.pipeline import PipelineOptions
from solvers.pipeline.answer_cache import ACCEPTED, CORRECT, FLAGGED, MUST_ANSWER, AnswerCache, Thresholds, Train
from solvers.pipeline.bit_packing import count_bits, pack_bits
from solvers.pipeline.configurations import append_group_stages, check_chromosomes, make_stage_masks
from solvers.pipeline.unit_costs import FixedPointCosts
from solvers.setup_groups import SetupGroups

DEFAULT_THRESHOLD = 0.75
"""Accept threshold if none is requested."""
BATCH_SIZE = 2048
"""Configurations per batch: enough to amortize numpy's overhead."""


@dataclass(frozen=True, slots=True, eq=False)
class ConfigurationScores:
    """Scores of configurations on the evaluation rows.

    Attributes:
        covered: (c,), number of accepted rows; with losses, of rows that are not rejected.
        right: (c,), number of correctly accepted rows; with losses, the sum of the qualities of all rows.
        cost: (c,), mean cost per row.
        alarms: (c,), number of false positives among ``negatives`` rows; None without a positive class.
        has_losses: whether errors have losses.
    """

    rows: int
    covered: Int64s
    right: Floats
    cost: Floats
    alarms: Int64s | None = None
    negatives: int = 0
    has_losses: bool = False

    @property
    def coverage(self) -> Floats:
        """Conclusiveness, g1 (Eq. 3)."""
        return np.asarray(self.covered / self.rows)

    @property
    def accuracy(self) -> Floats:
        """Conclusive accuracy, g2 (Eq. 4), 0 if no row is covered; with losses, the mean quality of all rows."""
        return np.asarray(self.right / (self.rows if self.has_losses else np.maximum(self.covered, 1)))

    @property
    def false_positive_rate(self) -> Floats:
        """Share of negative rows accepted as positive; 0 without negative rows or a positive class."""
        alarms = np.zeros(len(self.cost)) if self.alarms is None else self.alarms
        return np.asarray(alarms / max(self.negatives, 1))

    def stack_objectives(self) -> Floats:
        """Return the objectives to maximize, (c, 3): coverage, accuracy, and -cost.

        With false positives, the shape is (c, 4); with losses, it is (c, 2): quality and -cost.
        """
        columns = [self.accuracy, -self.cost] if self.has_losses else [self.coverage, self.accuracy, -self.cost]
        return np.column_stack(columns if self.alarms is None else [*columns, 1 - self.false_positive_rate])

    def compute_norms(self) -> Floats:
        """Return the l2 norm of each configuration's objectives (Section 3.3).

        All objectives are in [0, 1]. Inverse cost is relative to the cheapest of these configurations.
        """
        objectives = [self.accuracy, compute_inverse_cost(self.cost), *([] if self.has_losses else [self.coverage])]
        if self.alarms is not None:
            objectives.append(1 - self.false_positive_rate)
        return np.asarray(np.sqrt(sum(part * part for part in objectives)))

    def take(self, indices: Int64s) -> "ConfigurationScores":
        """Select configurations by index."""
        alarms = None if self.alarms is None else self.alarms[indices]
        return replace(
            self, covered=self.covered[indices], right=self.right[indices], cost=self.cost[indices], alarms=alarms
        )

    def append_scores(self, other: "ConfigurationScores") -> "ConfigurationScores":
        """Append scores of other configurations on the same rows."""
        both = None if self.alarms is None or other.alarms is None else np.concatenate((self.alarms, other.alarms))
        return replace(
            self,
            covered=np.concatenate((self.covered, other.covered)),
            right=np.concatenate((self.right, other.right)),
            cost=np.concatenate((self.cost, other.cost)),
            alarms=both,
        )


def compute_inverse_cost(cost: Floats) -> Floats:
    """Return the least cost divided by each cost, g3 (Eq. 5).

    If the least cost is 0, the result is 1 for zero costs, else 0.

    >>> compute_inverse_cost(np.array([2.0, 4.0])).tolist(), compute_inverse_cost(np.array([0.0, 4.0])).tolist()
    ([1.0, 0.5], [1.0, 0.0])
    """
    least = cost.min(initial=np.inf)
    return np.asarray(np.where(cost == least, 1.0, least / np.where(cost == least, 1.0, cost)))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Scores chromosomes by the answers of their classifiers.

    ``always_answers``: whether the last stage must answer.
    """

    answers: AnswerCache
    unit_costs: FixedPointCosts
    threshold: Thresholds
    always_answers: bool = False

    def __call__(self, chromosomes: Int8s) -> ConfigurationScores:
        """Return the scores of chromosomes, (c, n), with or without gaps.

        Feature sets that are not cached are trained first.

        Complexity: O(c (n k + k rows / 64)), plus training.
        """
        genes = check_chromosomes(chromosomes)
        if genes.shape[1] != len(self.unit_costs.by_feature):
            message = f"must have {len(self.unit_costs.by_feature)} features, got {genes.shape[1]}"
            raise InvalidRequest.from_faults(Fault(("chromosomes",), message))
        batches = [self._score_batch(genes[i : i + BATCH_SIZE]) for i in range(0, max(len(genes), 1), BATCH_SIZE)]
        scores = batches[0]
        for part in batches[1:]:
            scores = scores.append_scores(part)
        return scores

    def _score_batch(self, genes: Int8s) -> ConfigurationScores:
        votes, indices = self.get_votes(genes)
        return score_configurations(votes, indices, compute_stage_costs(genes, indices.shape[1], self.unit_costs), self)

    def get_votes(self, genes: Int8s) -> tuple[UInt64s, Int64s]:
        """Return the votes of all feature sets, (m, sets, words), and the index of each stage's set, (c, stages)."""
        stages = max(int(genes.max(initial=0)) + 1, 1)
        masks = make_stage_masks(genes, stages)
        if self.always_answers:
            masks |= MUST_ANSWER * ((np.arange(stages) >= genes.max(axis=1)[:, None]) & (masks != 0))
        distinct, indices = np.unique(masks, return_inverse=True)
        return self.answers.get_votes(distinct, self.threshold), indices.reshape(masks.shape)


def compute_stage_costs(genes: Int8s, stages: int, unit_costs: FixedPointCosts) -> Floats:
    """Return the cost of each stage, (c, n) to (c, stages), in units: of its features, and of set-up groups.

    The first stage that touches a group pays for it.

    >>> costs = FixedPointCosts(np.array([1.0, 2.0, 4.0, 8.0]), 1.0)
    >>> compute_stage_costs(np.array([[1, 0, 1, -1]], dtype=np.int8), 2, costs).tolist()
    [[2.0, 5.0]]
    """
    by_group, genes = unit_costs.by_group, append_group_stages(genes, unit_costs.groups)
    c, n = genes.shape
    columns = genes.astype(np.intp) % (stages + 1) + np.arange(c)[:, None] * (stages + 1)  # -1 takes the last column
    weights = np.broadcast_to(np.concatenate((unit_costs.by_feature, by_group)), (c, n)).ravel()
    sums = np.bincount(columns.ravel(), weights=weights, minlength=c * (stages + 1))
    return sums.reshape(c, stages + 1)[:, :stages].astype(np.float64, copy=False)


def score_configurations(votes: UInt64s, indices: Int64s, paid: Floats, by: Evaluator) -> ConfigurationScores:
    """Score configurations on all rows.

    Args:
        votes: (m, bit sets, words), from ``AnswerCache.get_votes``.
        indices: (c, stages), index in ``votes`` of each stage's feature set; the last index is repeated after the last
            stage.
        paid: (c, stages), cost of each stage.
    """
    answers, rows = by.answers, by.answers.rows
    rest = np.broadcast_to(pack_bits(np.ones(rows, dtype=bool)), (len(indices), votes.shape[2])).copy()
    reached = np.full(len(indices), rows, dtype=np.int64)
    sums, flagged = np.zeros(len(indices)), np.zeros(len(indices), dtype=np.int64)
    right = np.zeros((len(answers.weights), len(indices)), dtype=np.int64)
    for stage in range(indices.shape[1]):
        stage_votes = votes[indices[:, stage]]
        sums += paid[:, stage] * reached
        for place, counts in enumerate(right):
            counts += count_bits(rest & stage_votes[:, CORRECT + place])
        if answers.has_flags:
            flagged += count_bits(rest & stage_votes[:, FLAGGED])
        rest &= ~stage_votes[:, ACCEPTED]
        reached = count_bits(rest)
    cost = by.unit_costs.compute_mean(sums, rows)
    if answers.losses is not None:
        quality = (answers.weights[:, None] * right).sum(axis=0)
        return ConfigurationScores(rows, rows - flagged, quality, cost, has_losses=True)
    alarms = flagged if answers.has_flags else None
    return ConfigurationScores(rows, rows - reached, right[0].astype(np.float64), cost, alarms, answers.negatives)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationCriteria:
    """Evaluation criteria of configurations.

    Attributes:
        labels: (rows,), of the whole table.
        classes: number of classes.
        costs: (n + G,), of features, then of set-up groups.
        groups: the features of each set-up group.
        thresholds: (classes,), by predicted class.
        positive: the class whose false-positive rate is an objective, if any.
        always_answers: whether the last stage must answer.
        losses: losses of answers; None: all errors are equal.
    """

    labels: Int32s
    classes: int
    costs: Floats
    groups: SetupGroups
    thresholds: Floats
    positive: int | None
    always_answers: bool
    losses: Losses | None

    @classmethod
    def from_dataset(cls, dataset: FeatureTable, options: PipelineOptions) -> "EvaluationCriteria":
        """Return the criteria of a table and of the options of a build."""
        threshold = DEFAULT_THRESHOLD if options.confidence_threshold is None else options.confidence_threshold
        by_class = [threshold[name] if isinstance(threshold, dict) else threshold for name in dataset.classes]
        positive = None if options.positive_class is None else dataset.classes.index(options.positive_class)
        costs = read_feature_costs(dataset.spec)
        thresholds, losses = np.array(by_class, dtype=np.float64), dataset.losses
        answers = losses is not None or options.after_last_stage == "answer"
        groups = SetupGroups.from_spec(dataset.spec)
        return cls(dataset.labels, len(dataset.classes), costs, groups, thresholds, positive, answers, losses)

    def make_evaluator(self, rows: Int64s, train: Train) -> Evaluator:
        """Return an evaluator on some rows.

        ``train`` trains feature sets and predicts these rows.
        """
        labels, losses = self.labels[rows], self.losses
        answers = AnswerCache(train, labels, classes=self.classes, positive=self.positive, losses=losses)
        threshold = self.thresholds if losses is None else 0.0
        unit_costs = FixedPointCosts.from_costs(self.costs, len(rows), self.groups)
        return Evaluator(answers, unit_costs, threshold, self.always_answers)


def read_feature_costs(spec: FeaturesSpec) -> Floats:
    """Return the costs of features, and then of set-up groups, (n + G,).

    Raises InvalidRequest for a cost that depends on the item's size.
    """
    costs = []
    places = [(each, (name, at)) for name in ("features", "setup") for at, each in enumerate(getattr(spec, name))]
    for each, place in places:
        function = cost_function(each.cost)[0]
        if function.dimensions:
            fault = f"the cost of {each.name!r} must be a number for pipelines, got a function of the item's size"
            raise InvalidRequest.from_faults(Fault(("dataset", *place, "cost"), fault))
        costs.append(float(function(np.array(()))))
    return np.array(costs, dtype=np.float64)
