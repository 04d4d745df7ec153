"""Fast classifiers for comparing sets of sensors: least squares on one-hot labels, cross-validated, from sums.

The products of all basis functions are added up once for each part of the rows; after that a set of sensors costs one
small system of equations for each part. Good enough to compare sets, and never used to answer.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Singles
from solvers.policy.classifier_training import TrainingRows

Group = frozenset[int]

MOST_ROWS = 20_000
"""Rows that sets of sensors are compared on."""
RIDGE = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """training: the rows; table: (n, F + 1) all basis functions and a constant; squares: (K, F + 1, F + 1) and
    products: (K, F + 1, C), the sums over each fold; all in single precision, for sets are only compared."""

    training: TrainingRows
    table: Singles
    squares: Singles
    products: Singles

    @classmethod
    def of(cls, training: TrainingRows) -> "LeastSquares":
        """Add up the products of basis functions, over the first rows only if there are very many."""
        kept = slice(0, MOST_ROWS)
        training = TrainingRows(
            training.basis, training.cells[kept], training.labels[kept], training.classes, training.folds[kept]
        )
        every = np.arange(training.cells.shape[1])
        places, values = training.basis.functions(training.cells, every)
        table = np.zeros((len(places), len(training.basis.owners) + 1))
        np.add.at(table, (np.arange(len(places))[:, None], places), values)
        table[:, -1] = 1.0
        truth = np.eye(training.classes)[training.labels]
        each = [training.folds == k for k in range(training.members)]
        squares = np.array([table[rows].T @ table[rows] for rows in each])
        products = np.array([table[rows].T @ truth[rows] for rows in each])
        return cls(training, *(array.astype(np.float32) for array in (table, squares, products)))

    def right(self, group: Group) -> Bools:
        """Tell which rows are answered rightly with the sensors of a group by a model that has not seen them: (n,)."""
        from scipy.linalg import solve

        embedding = len(self.training.basis.sensors.names)
        own = np.append(np.isin(self.training.basis.owners, [*group, embedding]), True)
        own &= np.einsum("kff->f", self.squares) > 0  # some functions are 0 for every row
        squares, products = self.squares[:, own][:, :, own], self.products[:, own]
        answers = np.empty(len(self.table), dtype=np.int64)
        for k in range(self.training.members):
            rows = self.training.folds == k
            system = squares.sum(axis=0) - squares[k] + RIDGE * np.eye(int(own.sum()), dtype=np.float32)
            weights = solve(system, products.sum(axis=0) - products[k], assume_a="pos", check_finite=False)
            answers[rows] = (self.table[rows][:, own] @ weights).argmax(axis=1)
        return np.equal(answers, self.training.labels)
