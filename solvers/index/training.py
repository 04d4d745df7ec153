"""Training feature sets: each once, in parallel, with what was learned kept in a memory that outlives the build.

A result is remembered under the hash of everything that it depends on: the table's values and labels, learner and
parameters, folds, seed, and the set's columns. Neither alpha nor τ nor any cost is among them: a second build with
others trains nothing that the first one has trained, and a cancelled build goes on where it stopped.
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

from models import FeatureTable
from models.arrays import Floats
from models.index import IndexOptions
from solvers.base import Run
from solvers.index.batch_training import batched, train_sets, validate_sets
from solvers.index.costs import members_of
from solvers.index.lattice import Exhausted
from solvers.index.selection_bias import unpacked
from solvers.learners import archives, estimators, linear
from solvers.learners.estimators import Folds
from solvers.parallel import in_parallel

LOGISTIC = "sklearn.linear_model.LogisticRegression"
STRENGTHS = (1e-8, 1e8)
"""Values of C that leave equations that can be solved."""
BATCH_ROWS, MAX_BATCH = 500_000, 256
"""Rows times feature sets of a batch of logistic regressions, and feature sets: one batch takes about a second."""


@dataclass(slots=True, eq=False)
class Trainer:
    """Learns accuracies and models of feature sets, and counts what it does.

    known: accuracies by mask; bits: packed, of the rows that each is right about. asked_at_most, seconds_at_most:
    budgets; exceeding one raises Exhausted before anything is trained. trained, recalled: feature sets whose accuracy
    was computed, or remembered; models_trained, models_recalled: the same of final models. done: what was reported as
    progress.
    """

    dataset: FeatureTable
    options: IndexOptions
    run: Run
    seed: int
    classifier: Any
    folds: Folds
    columns: list[list[int]]
    prefix: str
    known: dict[int, float] = field(default_factory=dict)
    bits: dict[int, bytes] = field(default_factory=dict)
    asked_at_most: int | None = None
    seconds_at_most: float | None = None
    trained: int = 0
    recalled: int = 0
    models_trained: int = 0
    models_recalled: int = 0
    done: int = 0

    @classmethod
    def of(
        cls, dataset: FeatureTable, options: IndexOptions, run: Run, seed: int, allowed_modules: Sequence[str]
    ) -> "Trainer":
        """Check the learner and the rows, and be ready to train."""
        classifier = estimators.make(
            options.learner, options.learner_params, allowed_modules, standardize=options.standardize, seed=seed
        )
        folds = estimators.fixed_folds(dataset, options.folds, seed)
        ends = np.cumsum([0, *(len(feature.columns) for feature in dataset.spec.features)]).tolist()
        columns = [list(range(a, b)) for a, b in pairwise(ends)]
        made = cls(dataset, options, run, seed, classifier, folds, columns, _prefix(dataset, options, seed))
        common = np.equal(dataset.labels, np.argmax(np.bincount(dataset.labels)))
        made._learn(0, np.packbits(common).tobytes())
        made._refuse_what_cannot_be_kept()
        return made

    def _refuse_what_cannot_be_kept(self) -> None:
        """Train one small model and keep it, before many are trained in vain."""
        from sklearn.base import clone  # half of what a server's start would take

        rows, columns = self.folds[0][0], self.columns[0]
        table = np.ascontiguousarray(self.dataset.values[rows][:, columns])
        modules = self.run.learner_modules
        kept = archives.to_bytes(estimators.train_on(clone(self.classifier), table, self.dataset.labels[rows]), modules)
        if linear.kind_of(self.classifier) == "skops":
            archives.from_archive(kept, len(columns), modules)

    def account(self) -> str:
        """Say what was trained and what remembered: not in the summary, for equal builds have equal bytes."""
        models = f"{self.models_trained} models trained, {self.models_recalled} remembered"
        return f"done: {self.trained} feature sets trained, {self.recalled} remembered; {models}"

    @property
    def total(self) -> int:
        """The steps of progress: every feature set, and two more."""
        return (1 << len(self.columns)) + 2

    @property
    def asked(self) -> int:
        """The number of feature sets whose accuracy was asked for; the empty one needs no training."""
        return len(self.known) - 1

    def report(self, done: int, message: str) -> None:
        """Tell progress, which never goes back, and stop here if told to."""
        self.done = max(self.done, min(done, self.total))
        self.run.progress(self.done, self.total, message)

    def on_all_rows(self, table: FeatureTable) -> "Trainer":
        """Train final models on more rows of the same features than accuracies are of."""
        return replace(self, dataset=table, prefix=_prefix(table, self.options, self.seed))

    @property
    def is_out_of_time(self) -> bool:
        """Whether the budget of time is used up."""
        return self.seconds_at_most is not None and self.run.elapsed() > self.seconds_at_most

    @property
    def strength(self) -> float | None:
        """C of a logistic regression that is trained in batches of feature sets; None for any other learner."""
        options = self.options
        C = options.learner_params.get("C", 1.0)
        if options.learner != LOGISTIC or not options.standardize or not set(options.learner_params) <= {"C"}:
            return None
        if not isinstance(C, int | float) or isinstance(C, bool):
            return None
        return float(C) if STRENGTHS[0] <= C <= STRENGTHS[1] else None

    def estimate_seconds(self) -> float:
        """Estimate how long the accuracies of all feature sets would take, by that of some of half the features."""
        features = len(self.columns)
        ring = [f % features for f in range(2 * features)]
        count = 1 if self.strength is None else features
        sets = [sorted(ring[f : f + max(features // 2, 1)]) for f in range(count)]
        started = self.run.elapsed()
        for _ in in_parallel([self._job("right", [[c for f in own for c in self.columns[f]] for own in sets])]):
            pass
        return (self.run.elapsed() - started) / count * (1 << features)

    def columns_of(self, mask: int) -> list[int]:
        """List the columns of a set's features."""
        return [column for f in members_of(mask) for column in self.columns[f]]

    def accuracies(self, masks: Sequence[int]) -> list[float]:
        """Learn the accuracies of feature sets, as far as the budgets go; raises Exhausted where they end."""
        fresh = [mask for mask in dict.fromkeys(masks) if mask not in self.known]
        room = len(fresh) if self.asked_at_most is None else self.asked_at_most - self.asked
        if room < len(fresh):
            raise Exhausted(
                f"{self.asked} feature sets were asked for, {len(fresh)} more are over {self.asked_at_most}"
            )
        for mask, data, was_known in self._results("right", fresh):
            self._learn(mask, data)
            self.trained += not was_known
            self.recalled += was_known
        return [self.known[mask] for mask in masks]

    def _learn(self, mask: int, bits: bytes) -> None:
        self.bits[mask] = bits
        self.known[mask] = estimators.accuracy_of(unpacked(bits, self.dataset.rows), self.folds)

    def right(self, masks: Sequence[int]) -> dict[int, Floats]:
        """Tell of feature sets about which rows each is right, 1 or 0, (n,); the empty one is by the most common class.
        Those that nobody asked for until now count for no budget."""
        others = [mask for mask in masks if mask not in self.bits]
        bits = self.bits | {mask: data for mask, data, _ in self._results("right", others)}
        return {mask: unpacked(bits[mask], self.dataset.rows).astype(np.float64) for mask in masks}

    def models(self, masks: Sequence[int]) -> list[bytes]:
        """Train the final models of feature sets, on all rows."""
        self.seconds_at_most = None
        trained = {}
        for mask, data, was_known in self._results("model", masks):
            trained[mask] = data
            self.models_trained += not was_known
            self.models_recalled += was_known
        return [trained[mask] for mask in masks]

    def _results(self, what: str, masks: Sequence[int]) -> Iterator[tuple[int, bytes, bool]]:
        """Recall, or compute in parallel and remember: sets, results, and whether they were remembered."""
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
        batches = list(batched(missing, size))

        def tell(done: int) -> None:
            if done < len(batches) and self.is_out_of_time:
                raise Exhausted(f"{self.seconds_at_most:g} seconds are over")
            trained = min(done * size, len(missing))
            self.report(self.done, f"training: {what} of {trained} of {len(missing)} feature sets")

        jobs = (self._job(what, [self.columns_of(mask) for mask in batch]) for batch in batches)
        for batch, results in zip(batches, in_parallel(jobs, tell), strict=True):
            for mask, data in zip(batch, results, strict=True):
                self.run.cache[self._key(what, mask)] = data
                yield mask, data, False

    def _job(self, what: str, sets: list[list[int]]) -> Callable[[], list[bytes]]:
        """Prepare the training of sets, given by their columns."""
        table, labels, folds = self.dataset.values, self.dataset.labels, self.folds
        if self.strength is None:
            (columns,) = sets
            work = _right if what == "right" else partial(_model, self.run.learner_modules)
            return partial(work, self.classifier, table[:, columns], labels, folds)
        if what == "right":
            return partial(validate_sets, table, labels, len(self.dataset.classes), sets, self.strength, folds)
        return partial(train_sets, table, labels, len(self.dataset.classes), sets, self.strength)

    def _key(self, what: str, mask: int) -> str:
        names = [name for f in members_of(mask) for name in self.dataset.spec.features[f].columns]
        return f"index/{what}/{sha256(json.dumps([self.prefix, names]).encode()).hexdigest()}"

    def _fits(self, what: str, mask: int, data: bytes) -> bool:
        """Tell whether remembered bytes can be what they should be."""
        if what == "right":
            return len(data) == -(-self.dataset.rows // 8)
        if linear.kind_of(self.classifier) == "skops":
            return data[:2] == b"PK"
        return len(data) == 8 * linear.linear_length(len(self.columns_of(mask)), len(self.dataset.classes))


def _prefix(dataset: FeatureTable, options: IndexOptions, seed: int) -> str:
    """Hash what every result depends on."""
    columns = [column for feature in dataset.spec.features for column in feature.columns]
    identity = {
        "columns": columns,
        "classes": dataset.classes,
        "learner": options.learner,
        "params": options.learner_params,
        "standardize": options.standardize,
        "folds": options.folds,
        "seed": seed,
        "versions": [version("scikit-learn"), version("numpy"), _source_of(options.learner), "batched"],
    }
    digest = sha256(json.dumps(identity, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(dataset.values).tobytes())
    digest.update(np.ascontiguousarray(dataset.labels).tobytes())
    return digest.hexdigest()


def _source_of(path: str) -> str:
    """Hash the module that a learner of one's own comes from: it may change without a version."""
    module = import_module(path.rpartition(".")[0])
    if module.__name__.startswith("sklearn.") or not getattr(module, "__file__", None):
        return ""
    return sha256(Path(str(module.__file__)).read_bytes()).hexdigest()


def _right(classifier: Any, table: Floats, labels: Any, folds: Folds) -> list[bytes]:
    right = estimators.cross_validated(estimators.copied(classifier), table, labels, folds)
    return [np.packbits(right).tobytes()]


def _model(modules: Sequence[str], classifier: Any, table: Floats, labels: Any, folds: Folds) -> list[bytes]:
    model = estimators.train_on(estimators.copied(classifier), table, labels)
    return [archives.to_bytes(pickle.loads(pickle.dumps(model)), modules)]
