"""The bounds that guarantees can have: which rows each concerns, which answers keep it, and which losses it raises.

Every bound is a lower bound on a share of rows: an upper bound on a rate is a lower bound on the share of the other
rows. So one exact test of a binomial share proves all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Dataset
from models.arrays import Bools, Int32s
from models.guarantees import Guarantees, Limit
from solvers.evaluation import EvaluationOutcomes

Cells = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class GuaranteedBound:
    """One bound of a guarantee: of the items that it concerns, at least ``share`` must keep it.

    Attributes:
        limit: name of the bound in requests.
        label: class name; None for all classes.
        code: index of the class; -1 for all classes.
        value: the requested bound.
    """

    limit: Limit
    label: str | None
    code: int
    value: float

    @property
    def is_upper(self) -> bool:
        """Whether the requested value is an upper bound."""
        return self.limit == "max_false_positive_rate"

    @property
    def share(self) -> float:
        """The share of items that must keep the bound."""
        return 1 - self.value if self.is_upper else self.value

    def select_rows(self, labels: Int32s) -> Bools:
        """Return the rows that it may concern, (n,): those of the class, of the other classes, or all."""
        match self.limit:
            case "min_recall":
                return np.asarray(labels == self.code)
            case "max_false_positive_rate":
                return np.asarray(labels != self.code)
            case _:
                return np.ones(len(labels), dtype=np.bool_)

    def find_kept(self, outcomes: EvaluationOutcomes, held: Dataset) -> tuple[Bools, Bools]:
        """Return the rows that it concerns, and the rows that keep it, (n,) each.

        Items that are sent to a person keep bounds of a class. They do not count in the accuracy.
        """
        concerned, answers = self.select_rows(held.labels), np.array(outcomes.labels, dtype=object)
        answered = np.ones(len(answers), dtype=np.bool_) if outcomes.accepted is None else outcomes.accepted
        match self.limit:
            case "min_recall":
                return concerned, ~answered | (answers == self.label)
            case "max_false_positive_rate":
                return concerned, ~answered | (answers != self.label)
            case "min_accuracy":
                return answered, answers == np.array(held.classes, dtype=object)[held.labels]
            case "min_coverage":
                return concerned, answered

    def list_raised_cells(self, truths: int, answers: int) -> Cells:
        """Return the cells of the loss matrix to raise, as rows and columns; the price of rejects is column -1."""
        match self.limit:
            case "min_recall":
                columns = [each for each in range(answers) if each != self.code]
                return [self.code] * len(columns), columns
            case "max_false_positive_rate":
                rows = [each for each in range(truths) if each != self.code]
                return rows, [self.code] * len(rows)
            case "min_accuracy":
                errors = [(truth, answer) for truth in range(truths) for answer in range(answers) if truth != answer]
                return [truth for truth, _ in errors], [answer for _, answer in errors]
            case "min_coverage":
                return list(range(truths)), [-1] * truths


def list_bounds(classes: Sequence[Any], guarantees: Guarantees) -> list[GuaranteedBound]:
    """Return the bounds of guarantees, in the order of the request's fields."""
    return [
        GuaranteedBound(limit, label, -1 if label is None else classes.index(label), value)
        for limit, label, value in guarantees.bounds
    ]
