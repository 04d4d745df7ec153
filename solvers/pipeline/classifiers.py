"""The classifiers of feature sets: logistic regressions all at once, any other learner one by one through joblib."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from models import Fault, InvalidRequest
from models.arrays import Floats, Int32s, UInt64s
from models.pipeline import PipelineOptions
from solvers.learners import archives, linear
from solvers.learners.batch_logistic import fit_sets, predict_probabilities
from solvers.learners.estimators import (
    ALLOWED_MODULES,
    convert_errors,
    copy_classifier,
    make_classifier,
    train_classifier,
)
from solvers.parallel import in_parallel

T = TypeVar("T")
Answers = tuple[NDArray[np.floating], NDArray[np.intp]]
"""Confidences of the predicted class, (m, rows), and its codes, (m, rows)."""

DEFAULT_LEARNER = "sklearn.linear_model.LogisticRegression"
C_RANGE = (1e-8, 1e8)
"""Values of C that leave equations that can be solved."""
CALIBRATED_LEARNER = "sklearn.calibration.CalibratedClassifierCV"


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """What is trained on each feature set, and on what.

    table: (n, D) prepared training rows; labels: (n,); columns: for each feature its columns of the table; classifier:
    untrained, None for the logistic regression that is trained here, whose parameter is C; modules: where classes of
    learners may come from, beside scikit-learn.
    """

    table: Floats
    labels: Int32s
    classes: int
    columns: tuple[tuple[int, ...], ...]
    classifier: Any
    C: float
    modules: tuple[str, ...]

    @classmethod
    def from_options(
        cls,
        prepared: tuple[Floats, Int32s, int],
        columns: tuple[tuple[int, ...], ...],
        options: PipelineOptions,
        modules: Sequence[str],
        seed: int,
    ) -> "Learner":
        """Choose how to train; raises InvalidRequest for a learner that is not allowed or gives no probabilities."""
        own = options.learner == DEFAULT_LEARNER and not options.calibrate and set(options.learner_params) <= {"C"}
        allowed = (*ALLOWED_MODULES, *modules)
        described = {"learner": options.learner, "learner_params": options.learner_params}
        if options.calibrate:
            classifier = make_classifier(
                CALIBRATED_LEARNER, {"estimator": described, "ensemble": False}, allowed, seed=seed
            )
        else:
            classifier = make_classifier(options.learner, options.learner_params, allowed, seed=seed)
        if not hasattr(classifier, "predict_proba"):
            raise InvalidRequest.from_faults(
                Fault(("learner",), f"{options.learner} gives no probabilities; calibrate may help")
            )
        strength = options.learner_params.get("C", 1.0)
        return cls(*prepared, columns, None if own else classifier, _strength(strength) if own else 1.0, tuple(modules))

    @property
    def kind(self) -> str:
        """How its models are kept: as of ``linear.get_model_kind``."""
        return "softmax" if self.classifier is None else linear.get_model_kind(self.classifier)

    def columns_of(self, mask: int) -> list[int]:
        """List the columns of a feature set, features by rising index."""
        return [column for f, own in enumerate(self.columns) if mask >> f & 1 for column in own]

    def train_and_predict(self, table: Floats, masks: UInt64s) -> Answers:
        """Train the classifiers of feature sets, and let them answer for prepared rows, (rows, D).

        Confidences are in single precision: many thousands of sets are compared, and kept in memory.
        """
        if self.classifier is None:
            sets, columns = list(map(self.columns_of, masks.tolist())), np.ascontiguousarray(table.T)
            models = zip(self._regressions(sets), sets, strict=True)
            answers = [take_most_likely(predict_probabilities(model, columns[own]).T) for model, own in models]
        else:
            answers = self._each(_answer, masks, table)
        confidences, codes = stack_answers(answers)
        return confidences.astype(np.float32), codes

    def train_models(self, masks: UInt64s) -> list[bytes]:
        """Train the classifiers of feature sets, and give them as bytes."""
        if self.classifier is not None:
            return self._each(_train, masks)
        return [_kept(model) for model in self._regressions(list(map(self.columns_of, masks.tolist())))]

    def _regressions(self, sets: list[list[int]]) -> list[Floats]:
        with threadpool_limits(1, user_api="blas"):  # small products: several threads would only wait for each other
            return fit_sets(self.table, self.labels, self.classes, sets, self.C)

    def _each(self, work: Callable[..., T], masks: UInt64s, table: Floats | None = None) -> list[T]:
        """Do work for each feature set in parallel, given its columns of the training table, and of another one."""

        def job(mask: int) -> Callable[[], T]:
            own = self.columns_of(mask)
            other = () if table is None else (table[:, own],)
            return partial(work, self.classifier, self.table[:, own], self.labels, self.modules, *other)

        return list(in_parallel(map(job, masks.tolist())))


def _strength(given: Any) -> float:
    least, most = C_RANGE
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise InvalidRequest.from_faults(
            Fault(("learner_params", "C"), f"is {given!r}, must be from {least:g} to {most:g}")
        )
    return float(given)


def _kept(model: Floats) -> bytes:
    """Write a model of ``batch_logistic`` as ``learners`` keep linear ones, of columns that are prepared already."""
    d = model.shape[1] - 1
    numbers = np.concatenate((np.zeros(d), np.ones(d), model[:, :-1].reshape(-1), model[:, -1]))
    return numbers.astype("<f8").tobytes()


def _train(classifier: Any, table: Floats, labels: Int32s, modules: Sequence[str]) -> bytes:
    return archives.to_bytes(train_classifier(copy_classifier(classifier), table, labels), modules)


def _answer(classifier: Any, table: Floats, labels: Int32s, modules: Sequence[str], rows: Floats) -> Answers:
    model = train_classifier(copy_classifier(classifier), table, labels)
    with convert_errors():
        return take_most_likely(np.asarray(model.predict_proba(rows)))


def predict(kind: str, model: bytes, table: Floats, classes: int, modules: Sequence[str] = ()) -> Floats:
    """Give what a kept model holds likely, (rows, classes), for rows of its own columns."""
    if kind == "skops":
        shares = archives.predict_archived(model, table, classes, modules)[1]
    else:
        shares = linear.predict_linear(np.frombuffer(model, dtype="<f8"), table, kind)[1]
    if shares is None:
        raise InvalidRequest.from_faults(Fault(("learner",), "gives no probabilities"))
    return shares


def stack_answers(answers: Sequence[Answers]) -> Answers:
    """Put the answers of feature sets on top of each other."""
    return np.stack([confidences for confidences, _ in answers]), np.stack([codes for _, codes in answers])


def take_most_likely(shares: Floats) -> Answers:
    """Give the class that is held most likely, and how likely it is: (rows,) each."""
    codes = np.argmax(shares, axis=1)
    return shares[np.arange(len(shares)), codes], codes
