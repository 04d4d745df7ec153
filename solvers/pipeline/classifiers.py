"""Training of feature sets' classifiers.

Logistic regressions are trained in batches, other learners in parallel through joblib.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from models import Fault, InvalidRequest
from models.arrays import Floats, Int32s, Int64s, UInt64s
from models.losses import Losses
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
from solvers.parallel import run_parallel

T = TypeVar("T")
Answers = tuple[NDArray[np.floating], NDArray[np.integer]]
"""Confidences of answers, (m, rows), and their codes, (m, rows)."""

DEFAULT_LEARNER = "sklearn.linear_model.LogisticRegression"
C_RANGE = (1e-8, 1e8)
"""Minimum and maximum of C: outside, the equations are ill-conditioned."""
CALIBRATED_LEARNER = "sklearn.calibration.CalibratedClassifierCV"


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """Classifier to train on each feature set, with its training rows.

    Attributes:
        table: (n, D), prepared training rows.
        labels: (n,).
        columns: the columns of the table of each feature.
        classifier: untrained; None for the batched logistic regression with parameter C.
        modules: allowed modules of learners in addition to scikit-learn.
        losses: losses of answers; None: all errors are equal.
    """

    table: Floats
    labels: Int32s
    classes: int
    columns: tuple[tuple[int, ...], ...]
    classifier: Any
    C: float
    modules: tuple[str, ...]
    losses: Losses | None

    @classmethod
    def from_options(
        cls,
        prepared: tuple[Floats, Int32s, int],
        columns: tuple[tuple[int, ...], ...],
        options: PipelineOptions,
        modules: Sequence[str],
        losses: Losses | None,
        seed: int,
    ) -> "Learner":
        """Choose the classifier; raises InvalidRequest if it is not allowed or has no predict_proba."""
        is_batched = (
            options.learner == DEFAULT_LEARNER and not options.calibrate and set(options.learner_params) <= {"C"}
        )
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
                Fault(("learner",), f"{options.learner} has no predict_proba; set calibrate")
            )
        strength = options.learner_params.get("C", 1.0)
        return cls(
            *prepared,
            columns,
            None if is_batched else classifier,
            _check_C(strength) if is_batched else 1.0,
            tuple(modules),
            losses,
        )

    @property
    def kind(self) -> str:
        """Storage format of the learner's models (``linear.get_model_kind``)."""
        return "softmax" if self.classifier is None else linear.get_model_kind(self.classifier)

    def columns_of(self, mask: int) -> list[int]:
        """Return the columns of a feature set, features by increasing index."""
        return [column for f, own in enumerate(self.columns) if mask >> f & 1 for column in own]

    def train_and_predict(self, table: Floats, masks: UInt64s) -> Answers:
        """Train the classifiers of feature sets and predict prepared rows, (rows, D); confidences are float32."""
        if self.classifier is None:
            sets, columns = list(map(self.columns_of, masks.tolist())), np.ascontiguousarray(table.T)
            models = zip(self._regressions(sets), sets, strict=True)
            answers = [
                choose_answers(predict_probabilities(model, columns[own]).T, self.losses) for model, own in models
            ]
        else:
            answers = self._run_each(partial(_answer, self.losses), masks, table)
        confidences, codes = stack_answers(answers)
        return confidences.astype(np.float32), codes

    def train_models(self, masks: UInt64s) -> list[bytes]:
        """Train the classifiers of feature sets and serialize them."""
        if self.classifier is not None:
            return self._run_each(_train, masks)
        return [_serialize(model) for model in self._regressions(list(map(self.columns_of, masks.tolist())))]

    def _regressions(self, sets: list[list[int]]) -> list[Floats]:
        with threadpool_limits(1, user_api="blas"):  # small products: one thread is faster
            return fit_sets(self.table, self.labels, self.classes, sets, self.C)

    def _run_each(self, work: Callable[..., T], masks: UInt64s, table: Floats | None = None) -> list[T]:
        """Run ``work`` for each feature set in parallel.

        It receives the set's columns of the training table and of another table.
        """

        def job(mask: int) -> Callable[[], T]:
            own = self.columns_of(mask)
            other = () if table is None else (table[:, own],)
            return partial(work, self.classifier, self.table[:, own], self.labels, self.modules, *other)

        return list(run_parallel(map(job, masks.tolist())))


def _check_C(value: Any) -> float:
    least, most = C_RANGE
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidRequest.from_faults(
            Fault(("learner_params", "C"), f"must be from {least:g} to {most:g}, got {value!r}")
        )
    return float(value)


def _serialize(model: Floats) -> bytes:
    """Serialize a model of ``batch_logistic`` in the format of ``learners.linear``, without a scaler."""
    d = model.shape[1] - 1
    numbers = np.concatenate((np.zeros(d), np.ones(d), model[:, :-1].reshape(-1), model[:, -1]))
    return numbers.astype("<f8").tobytes()


def _train(classifier: Any, table: Floats, labels: Int32s, modules: Sequence[str]) -> bytes:
    return archives.to_bytes(train_classifier(copy_classifier(classifier), table, labels), modules)


def _answer(
    losses: Losses | None, classifier: Any, table: Floats, labels: Int32s, modules: Sequence[str], rows: Floats
) -> tuple[Int64s, Floats]:
    model = train_classifier(copy_classifier(classifier), table, labels)
    with convert_errors():
        return choose_answers(np.asarray(model.predict_proba(rows)), losses)


def predict(kind: str, model: bytes, table: Floats, classes: int, modules: Sequence[str] = ()) -> Floats:
    """Return class probabilities, (rows, classes), by a serialized model.

    The rows must have only the model's columns.
    """
    if kind == "skops":
        probabilities = archives.predict_archived(model, table, classes, modules)[1]
    else:
        probabilities = linear.predict_linear(np.frombuffer(model, dtype="<f8"), table, kind)[1]
    if probabilities is None:
        raise InvalidRequest.from_faults(Fault(("learner",), "has no predict_proba"))
    return probabilities


def stack_answers(answers: Sequence[tuple[Int64s, Floats]]) -> Answers:
    """Stack the answers of several feature sets (``choose_answers``), one row per set."""
    return np.stack([confidences for _, confidences in answers]), np.stack([codes for codes, _ in answers])


def choose_answers(probabilities: Floats, losses: Losses | None) -> tuple[Int64s, Floats]:
    """Return the answers and their confidences, (rows,) each.

    Without losses, they are the most likely classes and their probabilities. With losses, they are the answers of least
    expected loss, and 1 minus this loss as a share of the largest one.
    """
    if losses is None:
        codes = np.argmax(probabilities, axis=1)
        return codes, probabilities[np.arange(len(probabilities)), codes]
    codes, expected = losses.choose(probabilities)
    return codes, 1 - expected
