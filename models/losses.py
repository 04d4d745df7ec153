"""Losses of wrong answers, by true class and answer, and the cost of rejects.

A loss matrix has the cost of each answer for each true class. A reject sends the item to a person. Without a loss
matrix, every error costs 1, and all errors are equal (zero-one loss).

Source: Elkan, *The Foundations of Cost-Sensitive Learning*, 2001; Chow, *On Optimum Recognition Error and Reject
Tradeoff*, 1970.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from models.arrays import Floats, Int32s, Int64s
from models.base import LARGEST, Label, Value
from models.errors import Fault

Loss = Annotated[float, Field(ge=0, le=LARGEST)]
OTHER_ERROR = 1.0
"""Loss of an error that the matrix does not name."""


class HasLosses(Value):
    """Base class of specs with losses."""

    losses: Annotated[dict[Label, dict[Label, Loss]], Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="loss of each wrong answer, by true class and answer: {truth: {answer: loss}}; omitted "
        "cells are 0 for the correct answer and 1 for other answers; null: all errors are equal",
        examples=[{"sick": {"well": 2000}, "well": {"sick": 100}}],
    )
    reject_cost: Loss | dict[Label, Loss] | None = Field(
        default=None,
        description="cost of sending an item to a person, who answers correctly: a number, or one for each true "
        "class; null: items are never sent to a person",
    )
    loss_unit: Label | None = Field(default=None, description="the unit of losses; null: the unit of costs")
    loss_weight: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="units of cost per unit of loss; required if the units differ; null: 1",
    )

    @model_validator(mode="after")
    def _has_a_rate(self) -> "HasLosses":
        unit = getattr(self, "unit", None)
        if self.loss_unit not in (None, unit) and self.loss_weight is None:
            raise ValueError(
                f"loss_weight is required: losses are in {self.loss_unit!r} and costs in {unit!r}; set the number "
                f"of {unit} per {self.loss_unit}"
            )
        if self.loss_weight is not None and self.loss_unit is None:
            raise ValueError("loss_weight requires loss_unit: without it, losses are in the unit of costs")
        if self.loss_weight is not None and not self.has_losses:
            raise ValueError("loss_weight requires losses or reject_cost")
        return self

    @property
    def has_losses(self) -> bool:
        """Whether errors or rejects have a declared price."""
        return self.losses is not None or self.reject_cost is not None


@dataclass(frozen=True, eq=False)
class Losses:
    """A loss matrix.

    Attributes:
        matrix: (C, A), loss of each answer for each true class, in the unit of costs. A > C if some answers are never
            true. With ``rejects``, the last answer is to reject.
        scale: the largest loss of the dataset, above 0.
        rejects: whether items may be sent to a person.
    """

    matrix: Floats
    scale: float = 1.0
    rejects: bool = False

    @classmethod
    def zero_one(cls, classes: int) -> "Losses":
        """Return the loss matrix in which every error costs 1."""
        return cls(1.0 - np.eye(classes))

    @classmethod
    def from_matrix(cls, matrix: Floats) -> "Losses | None":
        """Return the losses of a matrix whose answers are the C true classes, and perhaps a reject.

        matrix: (C, C), or (C, C + 1) with the reject last; (0, 0): all errors are equal, and the result is None.
        """
        truths, answers = matrix.shape
        return cls(matrix, float(matrix.max()), answers > truths) if truths else None

    @property
    def shares(self) -> Floats:
        """The matrix as shares of the largest loss, (C, A)."""
        return self.matrix / self.scale

    @cached_property
    def is_zero_one(self) -> bool:
        """Whether all errors are equal and cost 1."""
        truths, answers = self.matrix.shape
        return not self.rejects and np.array_equal(self.matrix, 1.0 - np.eye(truths, answers))

    @property
    def are_unequal(self) -> bool:
        """Whether errors have different losses, or items may be rejected."""
        truths, answers = self.matrix.shape
        return self.rejects or not np.array_equal(self.shares, self.shares.max() * (1.0 - np.eye(truths, answers)))

    def choose(self, probabilities: Floats) -> tuple[Int64s, Floats]:
        """Return the answers of least expected loss, and their losses, (n,) each.

        Losses are shares of the largest one. Ties go to the first answer.

        Args:
            probabilities: (n, C), of the true classes.

        >>> triage = Losses(np.array([[0.0, 2000.0], [100.0, 0.0]]), 2000.0)  # sick, well
        >>> answers, expected = triage.choose(np.array([[0.1, 0.9], [0.01, 0.99]]))
        >>> answers.tolist(), expected.round(4).tolist()
        ([0, 1], [0.045, 0.01])
        """
        answers = probabilities.argmax(axis=1) if self.is_zero_one else (probabilities @ self.shares).argmin(axis=1)
        return answers, self.compute_expected_losses(probabilities, answers)

    def compute_expected_losses(self, probabilities: Floats, answers: Int64s) -> Floats:
        """Return the expected loss of answers, (n,), as shares of the largest loss.

        Args:
            probabilities: (n, C), of the true classes.
        """
        if self.is_zero_one:  # exact, where a sum of the other classes rounds
            return np.asarray(1.0 - probabilities[np.arange(len(answers)), answers])
        return np.asarray((probabilities * self.shares.T[answers]).sum(axis=1))

    def measure(self, labels: Int32s, answers: Int32s | Int64s) -> Floats:
        """Return the loss of answers, (n,), as shares of the largest loss."""
        if self.is_zero_one:
            return np.not_equal(labels, answers).astype(np.float64)
        return np.asarray(self.shares[labels, answers])

    def grade_answers(self, probabilities: Floats, labels: Int32s) -> Floats:
        """Return the quality of the chosen answers, (n,): 1 minus loss / largest loss."""
        return 1.0 - self.measure(labels, self.choose(probabilities)[0])

    def among_true_classes(self) -> "Losses":
        """Return the matrix without answers that are never true."""
        truths, answers = self.matrix.shape
        kept = [*range(truths), answers - 1] if self.rejects else [*range(truths)]
        return Losses(self.matrix[:, kept], self.scale, self.rejects)


def read_losses(spec: HasLosses, classes: Sequence[str], truths: int, faults: list[Fault]) -> Losses | None:
    """Return the loss matrix of a spec, in the unit of costs.

    Return None if all errors are equal and nothing is rejected.

    Args:
        classes: names of the A answers, the C true classes first.
        truths: the number of true classes, C.
        faults: receives unknown and missing classes, and a matrix without any loss.
    """
    if not spec.has_losses:
        return None
    known = ", ".join(classes[:20])
    for truth, row in (spec.losses or {}).items():
        if truth not in classes[:truths]:
            faults.append(Fault(("spec", "losses", truth), f"must be a class of the label: {known}"))
        unknown = [answer for answer in row if answer not in classes]
        faults += [Fault(("spec", "losses", truth, name), f"must be a class of the label: {known}") for name in unknown]
    if spec.losses is not None:
        missing = [name for name in classes[:truths] if name not in spec.losses]
        faults.extend(Fault(("spec", "losses"), f"must have a row for class {name!r}") for name in missing)
    prices = spec.reject_cost if isinstance(spec.reject_cost, dict) else {}
    faults.extend(
        Fault(("spec", "reject_cost", name), f"must be a class of the label: {known}")
        for name in prices
        if name not in classes[:truths]
    )
    missing = [name for name in classes[:truths] if prices and name not in prices]
    faults.extend(Fault(("spec", "reject_cost"), f"must have a price for class {name!r}") for name in missing)
    if faults:
        return None
    matrix = _matrix(spec, classes, truths)
    if not matrix.any():
        faults.append(Fault(("spec", "losses"), "must have a loss above 0; all are 0"))
        return None
    found = Losses(matrix, float(matrix.max()), spec.reject_cost is not None)
    return None if found.is_zero_one else found


def get_loss_matrix(losses: Losses | None) -> Floats:
    """Return the loss matrix, (C, A); (0, 0) for None."""
    return np.empty((0, 0)) if losses is None else losses.matrix


def _matrix(spec: HasLosses, classes: Sequence[str], truths: int) -> Floats:
    named = spec.losses or {}
    matrix = np.array(
        [
            [named.get(truth, {}).get(answer, 0.0 if truth == answer else OTHER_ERROR) for answer in classes]
            for truth in classes[:truths]
        ]
    )
    if spec.reject_cost is not None:
        price = spec.reject_cost
        column = [price[truth] if isinstance(price, dict) else price for truth in classes[:truths]]
        matrix = np.column_stack((matrix, column))
    return matrix * (spec.loss_weight or 1.0)


class LossPrices(Value):
    """Losses of an artifact, by class names, in the artifact's unit."""

    largest: Annotated[float, Field(gt=0, le=LARGEST)] = Field(description="the largest loss")
    matrix: dict[str, dict[str, Loss]] = Field(
        default={}, description="the loss of each answer by true class; empty if losses were measured per answer"
    )
    reject: dict[str, Loss] = Field(
        default={}, description="the price of sending an item to a person, by true class; empty: never"
    )
    reject_loss: Loss | None = Field(
        default=None, description="the price of sending an item to a person, without a matrix; null: never"
    )

    @classmethod
    def from_losses(
        cls, losses: Losses | None, largest: float, classes: Sequence[str], reject_loss: float | None
    ) -> "LossPrices | None":
        """Return the losses of a dataset by class names; None if all errors are equal.

        Args:
            classes: the answers in the order of their codes, true classes first.
            reject_loss: the price of a reject without a matrix.
        """
        if not largest:
            return None
        if losses is None:
            return cls(largest=largest, reject_loss=reject_loss)
        rows = dict(zip(classes, losses.matrix.tolist(), strict=False))
        reject = {name: row[-1] for name, row in rows.items()} if losses.rejects else {}
        return cls(
            largest=largest,
            matrix={truth: dict(zip(classes, row, strict=False)) for truth, row in rows.items()},
            reject=reject,
        )

    def find_loss(self, truth: str | None, answer: str | None) -> float | None:
        """Return the loss of an answer or, for None, of a reject; None if it is unknown.

        >>> prices = LossPrices(largest=9.0, matrix={"a": {"a": 0.0, "b": 9.0}}, reject={"a": 2.0})
        >>> prices.find_loss("a", "b"), prices.find_loss("a", None), prices.find_loss("c", "a")
        (9.0, 2.0, None)
        """
        if truth is None:
            return None
        return self.reject.get(truth) if answer is None else self.matrix.get(truth, {}).get(answer)
