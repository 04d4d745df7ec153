"""Preprocessing of tables: imputation, standardization, and one-hot encoding, fitted on training rows.

A missing number becomes the median of its column. Numbers are standardized. A missing category becomes the most
frequent one. Categories are one-hot encoded; an unknown category is encoded as all 0. Fitted values are arrays.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """Fitted preprocessing of d table columns into D numeric columns.

    Attributes:
        fills: (d,), imputed values.
        shifts, scales: (d,), for numbers; 0 and 1 for categories.
        offsets: (d + 1,), offsets into ``codes`` by column, empty for numbers.
        codes: category codes of all categorical columns, concatenated.
    """

    fills: Floats
    shifts: Floats
    scales: Floats
    offsets: Int64s
    codes: Int64s

    @classmethod
    def fit(cls, values: Floats, categorical: Bools) -> "Preparation":
        """Fit on training rows (n, d), with NaN for missing cells.

        >>> made = Preparation.fit(np.array([[1.0, 0.0], [3.0, 2.0], [np.nan, 2.0]]), np.array([False, True]))
        >>> made.apply(np.array([[3.0, np.nan], [2.0, 0.0]])).round(3).tolist()
        [[1.225, 0.0, 1.0], [0.0, 1.0, 0.0]]
        """
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        d = values.shape[1]
        fills, shifts, scales = np.zeros(d), np.zeros(d), np.ones(d)
        known: list[Int64s] = [np.zeros(0, dtype=np.int64)] * d
        for strategy, columns in (("median", ~categorical), ("most_frequent", categorical)):
            if columns.any():
                imputer = SimpleImputer(strategy=strategy, keep_empty_features=True).fit(values[:, columns])
                fills[columns] = imputer.statistics_
        whole = np.where(np.isnan(values), fills, values)
        if not categorical.all():
            scaler = StandardScaler().fit(whole[:, ~categorical])
            shifts[~categorical], scales[~categorical] = scaler.mean_, scaler.scale_
        for column in np.flatnonzero(categorical).tolist():
            encoder = OneHotEncoder().fit(whole[:, [column]])
            known[column] = encoder.categories_[0].astype(np.int64)
        offsets = np.cumsum([0, *map(len, known)], dtype=np.int64)
        return cls(fills, shifts, scales, offsets, np.concatenate(known))

    @property
    def widths(self) -> Int64s:
        """Number of output columns of each column, (d,)."""
        return np.maximum(np.diff(self.offsets), 1)

    def apply(self, values: Floats) -> Floats:
        """Transform rows, (n, d) to (n, D)."""
        whole = np.where(np.isnan(values), self.fills, values)
        blocks = []
        for column, (start, end) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            cells = whole[:, [column]]
            if end > start:
                blocks.append((cells == self.codes[start:end]).astype(np.float64))
            else:
                blocks.append((cells - self.shifts[column]) / self.scales[column])
        return np.concatenate(blocks, axis=1)
