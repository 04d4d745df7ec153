"""Parallel, cached training of feature sets.

The cache key of a result is a hash of everything that it depends on: the table's values and labels, learner and
parameters, folds, seed, and the set's columns. The hash does not include alpha, τ, and costs. So a build that changes
only these reuses earlier trainings. A canceled build continues where it stopped.
"""

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats
from models.index import IndexOptions
from models.losses import Losses
from solvers.base import BuildContext
from solvers.index.batch_training import split_into_batches, train_sets, validate_sets
from solvers.index.costs import list_members
from solvers.index.lattice import BudgetExhausted
from solvers.index.selection_bias import Outcomes, pack_outcomes, unpack_outcomes
from solvers.learners import archives, estimators, linear
from solvers.learners.estimators import Folds
from solvers.parallel import run_parallel

LOGISTIC = "sklearn.linear_model.LogisticRegression"
STRENGTH_RANGE = (1e-8, 1e8)
"""Values of C with well-conditioned equations."""
BATCH_ROWS, MAX_BATCH = 500_000, 256
"""Rows times feature sets, and feature sets, of a batch of logistic regressions: about a second."""


@dataclass(slots=True, eq=False)
class Trainer:
    """Estimates accuracies and trains models of feature sets, within budgets.

    Attributes:
        known: accuracies by mask.
        bits: outcomes of the rows by mask (``pack_outcomes``).
        max_requested, max_seconds: budgets; a training that would exceed a budget raises BudgetExhausted.
        trained, recalled: number of feature sets whose accuracy was computed, and number found in the cache.
        models_trained, models_recalled: number of final models that were trained, and number found in the cache.
        done_steps: reported progress.
    """

    dataset: FeatureTable
    options: IndexOptions
    run: BuildContext
    seed: int
    classifier: Any
    folds: Folds
    columns: list[list[int]]
    prefix: str
    known: dict[int, float] = field(default_factory=dict)
    bits: dict[int, bytes] = field(default_factory=dict)
    max_requested: int | None = None
    max_seconds: float | None = None
    trained: int = 0
    recalled: int = 0
    models_trained: int = 0
    models_recalled: int = 0
    done_steps: int = 0

    @classmethod
    def from_dataset(
        cls, dataset: FeatureTable, options: IndexOptions, run: BuildContext, seed: int, allowed_modules: Sequence[str]
    ) -> "Trainer":
        """Validate the learner and the rows, and return a trainer."""
        classifier = estimators.make_classifier(
            options.learner, options.learner_params, allowed_modules, standardize=options.standardize, seed=seed
        )
        folds = estimators.make_folds(dataset, options.folds, seed)
        ends = np.cumsum([0, *(len(feature.columns) for feature in dataset.spec.features)]).tolist()
        columns = [list(range(a, b)) for a, b in pairwise(ends)]
        made = cls(dataset, options, run, seed, classifier, folds, columns, _hash_inputs(dataset, options, seed))
        made._learn(0, pack_outcomes(made._grade_empty_set()))
        made._check_serialization()
        return made

    def _grade_empty_set(self) -> Outcomes:
        """Return the outcomes of the answer without features, (n,).

        The answer is the most common class, or the one of least loss.
        """
        labels, losses = self.dataset.labels, self.dataset.losses
        shares = np.bincount(labels, minlength=len(self.dataset.classes)) / len(labels)
        if losses is None:
            return np.equal(labels, shares.argmax())
        return losses.grade_answers(np.tile(shares, (len(labels), 1)), labels)

    def _check_serialization(self) -> None:
        """Train and serialize one small model, so that an unsupported learner fails early."""
        from sklearn.base import clone  # half of what a server's start would take

        rows, columns = self.folds[0][0], self.columns[0]
        table = np.ascontiguousarray(self.dataset.values[rows][:, columns])
        modules = self.run.learner_modules
        trained = estimators.train_classifier(clone(self.classifier), table, self.dataset.labels[rows])
        if self.dataset.losses is not None and not hasattr(trained, "predict_proba"):
            message = "must have predict_proba: with losses, the answer has the least expected loss"
            raise InvalidRequest.from_faults(Fault(("learner",), message))
        kept = archives.to_bytes(trained, modules)
        if linear.get_model_kind(self.classifier) == "skops":
            archives.load_archive(kept, len(columns), modules)

    def format_counts(self) -> str:
        """Return a message with the numbers of trained and of cached results.

        The numbers are not in the summary, so that equal builds have equal bytes.
        """
        models = f"{self.models_trained} models trained, {self.models_recalled} cached"
        return f"done: {self.trained} feature sets trained, {self.recalled} cached; {models}"

    @property
    def total_steps(self) -> int:
        """The number of progress steps: one for each feature set, and two more."""
        return (1 << len(self.columns)) + 2

    @property
    def requested(self) -> int:
        """The number of feature sets whose accuracy was requested.

        The empty set does not count, because it needs no training.
        """
        return len(self.known) - 1

    def report_progress(self, done: int, message: str) -> None:
        """Report progress, which never decreases; raises Cancelled for a canceled build."""
        self.done_steps = max(self.done_steps, min(done, self.total_steps))
        self.run.progress(self.done_steps, self.total_steps, message)

    def with_dataset(self, table: FeatureTable) -> "Trainer":
        """Return a copy that trains final models on another table of the same features, with its own cache keys."""
        return replace(self, dataset=table, prefix=_hash_inputs(table, self.options, self.seed))

    @property
    def is_out_of_time(self) -> bool:
        """Whether ``max_seconds`` is exceeded."""
        return self.max_seconds is not None and self.run.elapsed() > self.max_seconds

    @property
    def strength(self) -> float | None:
        """Parameter C of a logistic regression that supports batched training; None for other learners."""
        options = self.options
        C = options.learner_params.get("C", 1.0)
        if options.learner != LOGISTIC or not options.standardize or not set(options.learner_params) <= {"C"}:
            return None
        if not isinstance(C, int | float) or isinstance(C, bool):
            return None
        return float(C) if STRENGTH_RANGE[0] <= C <= STRENGTH_RANGE[1] else None

    def estimate_seconds(self) -> float:
        """Estimate the seconds to evaluate all feature sets, from a sample of sets of half the features."""
        features = len(self.columns)
        ring = [f % features for f in range(2 * features)]
        count = 1 if self.strength is None else features
        sets = [sorted(ring[f : f + max(features // 2, 1)]) for f in range(count)]
        started = self.run.elapsed()
        for _ in run_parallel([self._job("right", [[c for f in own for c in self.columns[f]] for own in sets])]):
            pass
        return (self.run.elapsed() - started) / count * (1 << features)

    def list_columns(self, mask: int) -> list[int]:
        """Return the columns of a set's features."""
        return [column for f in list_members(mask) for column in self.columns[f]]

    def estimate_accuracies(self, masks: Sequence[int]) -> list[float]:
        """Return the cross-validated accuracies of feature sets.

        Raises:
            BudgetExhausted: a budget does not suffice.
        """
        fresh = [mask for mask in dict.fromkeys(masks) if mask not in self.known]
        room = len(fresh) if self.max_requested is None else self.max_requested - self.requested
        if room < len(fresh):
            raise BudgetExhausted(
                f"{self.requested} feature sets requested; {len(fresh)} more exceed {self.max_requested}"
            )
        for mask, data, was_known in self._results("right", fresh):
            self._learn(mask, data)
            self.trained += not was_known
            self.recalled += was_known
        return [self.known[mask] for mask in masks]

    def _learn(self, mask: int, bits: bytes) -> None:
        self.bits[mask] = bits
        self.known[mask] = estimators.compute_accuracy(unpack_outcomes(bits, self.dataset.rows), self.folds)

    def list_correct(self, masks: Sequence[int]) -> dict[int, Floats]:
        """Return the quality of each row's answer for each mask, (n,): 1 if correct, else 0.

        With losses, it is the quality that the loss matrix defines.

        The empty set predicts the most common class, or the answer of least loss. Sets that were not requested before
        are not charged to budgets.
        """
        others = [mask for mask in masks if mask not in self.bits]
        bits = self.bits | {mask: data for mask, data, _ in self._results("right", others)}
        return {mask: unpack_outcomes(bits[mask], self.dataset.rows).astype(np.float64) for mask in masks}

    def train_models(self, masks: Sequence[int]) -> list[bytes]:
        """Train the final models of feature sets, on all rows."""
        self.max_seconds = None
        trained = {}
        for mask, data, was_known in self._results("model", masks):
            trained[mask] = data
            self.models_trained += not was_known
            self.models_recalled += was_known
        return [trained[mask] for mask in masks]

    def _results(self, what: str, masks: Sequence[int]) -> Iterator[tuple[int, bytes, bool]]:
        """Yield sets, results, and whether they were cached; compute missing ones in parallel."""
        missing = []
        for mask in masks:
            data = self.run.cache.get(self._key(what, mask))
            if data is None or not self._fits(what, mask, data):
                missing.append(mask)
            else:
                yield mask, data, True
        if not missing:
            return
        size = 1 if self.strength is None else min(max(BATCH_ROWS // self.dataset.rows, 1), MAX_BATCH)
        batches = list(split_into_batches(missing, size))

        def report_progress(done: int) -> None:
            if done < len(batches) and self.is_out_of_time:
                raise BudgetExhausted(f"max_seconds of {self.max_seconds:g} s exceeded")
            trained = min(done * size, len(missing))
            self.report_progress(self.done_steps, f"training: {what} of {trained} of {len(missing)} feature sets")

        jobs = (self._job(what, [self.list_columns(mask) for mask in batch]) for batch in batches)
        for batch, results in zip(batches, run_parallel(jobs, report_progress), strict=True):
            for mask, data in zip(batch, results, strict=True):
                self.run.cache[self._key(what, mask)] = data
                yield mask, data, False

    def _job(self, what: str, sets: list[list[int]]) -> Callable[[], list[bytes]]:
        """Return the training of sets, given by their columns."""
        table, labels, folds = self.dataset.values, self.dataset.labels, self.folds
        if self.strength is None:
            (columns,) = sets
            losses = self.dataset.losses
            work = partial(_right, losses) if what == "right" else partial(_model, self.run.learner_modules)
            return partial(work, self.classifier, table[:, columns], labels, folds)
        if what == "right":
            classes = len(self.dataset.classes)
            return partial(validate_sets, table, labels, classes, sets, self.strength, folds, self.dataset.losses)
        return partial(train_sets, table, labels, len(self.dataset.classes), sets, self.strength)

    def _key(self, what: str, mask: int) -> str:
        names = [name for f in list_members(mask) for name in self.dataset.spec.features[f].columns]
        return f"index/{what}/{sha256(json.dumps([self.prefix, names]).encode()).hexdigest()}"

    def _fits(self, what: str, mask: int, data: bytes) -> bool:
        """Return whether cached bytes have the expected format."""
        if what == "right":
            return len(data) == (-(-self.dataset.rows // 8) if self.dataset.losses is None else 4 * self.dataset.rows)
        if linear.get_model_kind(self.classifier) == "skops":
            return data[:2] == b"PK"
        return len(data) == 8 * linear.count_linear_numbers(len(self.list_columns(mask)), len(self.dataset.classes))


def _hash_inputs(dataset: FeatureTable, options: IndexOptions, seed: int) -> str:
    """Return the hash of all inputs that every result depends on."""
    columns = [column for feature in dataset.spec.features for column in feature.columns]
    identity = {
        "columns": columns,
        "classes": dataset.classes,
        "learner": options.learner,
        "params": options.learner_params,
        "standardize": options.standardize,
        "folds": options.folds,
        "seed": seed,
        "versions": [version("scikit-learn"), version("numpy"), _hash_source(options.learner), "batched"],
    }
    if dataset.losses is not None:
        identity["losses"] = dataset.loss_matrix.tolist()
    digest = sha256(json.dumps(identity, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(dataset.values).tobytes())
    digest.update(np.ascontiguousarray(dataset.labels).tobytes())
    return digest.hexdigest()


def _hash_source(path: str) -> str:
    """Return the hash of a custom learner's module, which has no version."""
    module = import_module(path.rpartition(".")[0])
    if module.__name__.startswith("sklearn.") or not getattr(module, "__file__", None):
        return ""
    return sha256(Path(str(module.__file__)).read_bytes()).hexdigest()


def _right(losses: Losses | None, classifier: Any, table: Floats, labels: Any, folds: Folds) -> list[bytes]:
    right = estimators.cross_validate(estimators.copy_classifier(classifier), table, labels, folds, losses)
    return [pack_outcomes(right)]


def _model(modules: Sequence[str], classifier: Any, table: Floats, labels: Any, folds: Folds) -> list[bytes]:
    model = estimators.train_classifier(estimators.copy_classifier(classifier), table, labels)
    return [archives.to_bytes(pickle.loads(pickle.dumps(model)), modules)]
