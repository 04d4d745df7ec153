"""Duplicate detection: rows that repeat an undeclared item.

Data leakage: if rows of one item are on both sides of a split, estimates are optimistic. Two tests are calibrated
against independent rows:

- Equal rows, unless a similar number is expected by chance with independent columns.
- Near rows are far closer than expected by chance: for independent rows in D dimensions, the ratio of the distances to
the first and the k-th neighbor is below q with a probability of about (k - 1) q^D (Levina and Bickel, *Maximum
likelihood estimation of intrinsic dimension*, 2004).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models import Dataset, FeatureTable, Trace
from models.arrays import Floats, Int64s, Singles, UInt64s
from models.data_warning import DataWarning
from solvers.label_spellings import list_spelling_warnings
from solvers.partial_traces import list_missing_call_warnings

MIN_SHARE = 0.2
"""Share of repeated rows from which a dataset gets a warning."""
COINCIDENCE_PROBABILITY = 1e-3
"""Probability that an independent row counts as near."""
NEIGHBORS = (8, 40)
"""Neighbor ranks k whose distance is compared with the first neighbor's: beyond the rows of an item, but not far."""
MAX_QUERIES, MAX_WORK = 400, 2e10
"""Rows whose neighbors are found, and multiplications for all of them."""
MAX_CELLS_PER_CHUNK = 4_000_000
MIN_ROWS = 40
CORRECT = 0.5
"""Quality from which a graded answer counts as correct."""


@dataclass(frozen=True, slots=True)
class RowRepeats:
    """Shares of repeated rows.

    Attributes:
        equal: share of rows that equal another row.
        near: share of rows with a neighbor far closer than chance.
        conflicting: share of rows that equal a row with another outcome; 0 in partial traces.
    """

    equal: float
    near: float
    conflicting: float


def find_repeats(dataset: Dataset) -> RowRepeats:
    """Find repeated rows by embeddings, features, or measured values.

    Complexity: O(q n d) for q sampled rows.
    """
    table = _inputs(dataset)
    if len(table) < MIN_ROWS or not table.shape[1]:
        return RowRepeats(0.0, 0.0, 0.0)
    _, first, place, counts = np.unique(hash_rows(table), return_index=True, return_inverse=True, return_counts=True)
    equal = 0.0 if _equal_by_chance(table) > COINCIDENCE_PROBABILITY else float((counts[place] > 1).mean())
    known = not (isinstance(dataset, Trace) and dataset.is_partial)
    conflicting = _conflicting(place, counts, _outcomes(dataset)) if equal and known else 0.0
    distinct = table[np.sort(first)]
    near = _share_of_near(distinct) if len(distinct) >= MIN_ROWS and equal < MIN_SHARE else 0.0
    return RowRepeats(equal, near, conflicting)


def list_data_warnings(dataset: Dataset) -> tuple[DataWarning, ...]:
    """Return warnings about a dataset.

    They concern repeated rows without a declared item, conflicting outcomes, and spellings of labels.
    """
    found = find_repeats(dataset)
    warnings = []
    if dataset.spec.item is None and max(found.equal, found.near) >= MIN_SHARE:
        share, how = (found.equal, "equal") if found.equal >= MIN_SHARE else (found.near, "nearly equal")
        warnings.append(
            DataWarning(
                code="repeated-rows",
                share=share,
                message=f"{share:.0%} of the rows are {how} to another row in their {_input_name(dataset)}, so that "
                "holdout rows repeat training rows and figures can be optimistic; if they describe the same items, "
                'add a column that names the item and set "item" in the spec',
            )
        )
    if found.conflicting > 0:
        warnings.append(
            DataWarning(
                code="conflicting-outcomes",
                share=found.conflicting,
                message=f"{found.conflicting:.1%} of the rows equal a row with another outcome in their "
                f"{_input_name(dataset)}: no method can distinguish these",
            )
        )
    return (
        *warnings,
        *list_spelling_warnings(dataset),
        *list_missing_call_warnings(dataset),
        *_warn_of_reference(dataset),
    )


def _warn_of_reference(dataset: Dataset) -> Iterator[DataWarning]:
    source = dataset.spec.label_source if isinstance(dataset, Trace) else None
    if source is not None:
        yield DataWarning(
            code="reference-labels",
            share=1.0,
            message=f"labels are answers of {source!r}, not observed truths: accuracies are agreement with it; post "
            "truths for some of the items to check them",
        )


def _input_name(dataset: Dataset) -> str:
    if isinstance(dataset, FeatureTable):
        return "features"
    return "embeddings" if dataset.embeddings.shape[1] else "confidences and costs"


def _inputs(dataset: Dataset) -> Singles:
    """Return the standardized inputs of rows; embeddings are not standardized."""
    if isinstance(dataset, Trace):
        if dataset.embeddings.shape[1]:
            return dataset.embeddings
        n = dataset.rows
        table = np.column_stack((dataset.confidences, dataset.costs, dataset.margins.reshape(n, -1)))
        table = table[:, np.isfinite(table).all(axis=0)]
    else:
        table = np.where(np.isnan(dataset.values), -1.0, dataset.values)
    centre, spread = table.mean(axis=0), table.std(axis=0)  # centred: a float32 keeps no seconds of a date
    varying = spread > 1e-12 * np.maximum(np.abs(table).max(axis=0, initial=0.0), 1e-300)
    return np.ascontiguousarray((table - centre)[:, varying] / spread[varying], dtype=np.float32)


def hash_rows(table: Singles) -> UInt64s:
    """Return row hashes, (n,); different rows collide with probability 2^-64."""
    bits, hashes = (table + np.float32(0)).view(np.uint32), np.zeros(len(table), dtype=np.uint64)
    factors: UInt64s = 2 * np.random.default_rng(0).integers(2**62, size=(bits.shape[1],), dtype=np.uint64) + 1
    for column in range(bits.shape[1]):
        hashes += (bits[:, column].astype(np.uint64) + np.uint64(1)) * factors[column]
    return hashes


def _outcomes(dataset: Dataset) -> Int64s:
    """Return a code per row for its label and its correct classifiers."""
    columns = [dataset.labels[:, None]]
    if isinstance(dataset, Trace):
        columns.append((dataset.quality >= CORRECT).astype(np.int32))
    return np.unique(np.hstack(columns), axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _conflicting(place: Int64s, counts: Int64s, outcomes: Int64s) -> float:
    """Return the share of rows that equal a row with another outcome.

    place, outcomes: (n,).
    """
    pairs = np.unique(np.column_stack((place, outcomes)), axis=0)
    kinds = np.bincount(pairs[:, 0], minlength=len(counts))
    return float((kinds[place] > 1).mean())


def _equal_by_chance(table: Singles) -> float:
    """Return the expected number of rows equal to a given one if columns were independent."""
    log_share = 0.0
    for column in table.T:
        counts = np.unique(column, return_counts=True)[1] / len(table)
        log_share += float(np.log((counts * counts).sum()))
    return len(table) * float(np.exp(log_share))


def _share_of_near(table: Singles) -> float:
    """Return the share of rows whose first neighbor is far closer than chance.

    The number k of compared neighbors is the one with the largest share.
    """
    n, d = table.shape
    queries = np.unique(np.linspace(0, n - 1, int(np.clip(MAX_WORK / (n * d), 50, MAX_QUERIES))).astype(np.int64))
    squares, k_max = (table * table).sum(axis=1), min(2 * NEIGHBORS[-1], n - 1)
    distances, at_once = np.empty((len(queries), k_max)), max(MAX_CELLS_PER_CHUNK // n, 1)
    for start in range(0, len(queries), at_once):
        part = queries[start : start + at_once]
        approximate = squares - 2 * (table[part] @ table.T)
        approximate[np.arange(len(part)), part] = np.inf
        nearest = table[np.argpartition(approximate, k_max - 1, axis=1)[:, :k_max]].astype(np.float64)
        squared = ((nearest - table[part][:, None]) ** 2).sum(axis=2)
        distances[start : start + at_once] = np.sort(squared, axis=1) ** 0.5
    return max(_near_at(distances, k) for k in NEIGHBORS if 2 * k <= k_max)


def _near_at(distances: Floats, k: int) -> float:
    """Compare the distances to the first and the k-th neighbor.

    The dimension is estimated from the neighbors k and 2 k.
    """
    first, middle, far = distances[:, 0], distances[:, k - 1], distances[:, 2 * k - 1]
    growth = float(np.median(far / np.maximum(middle, 1e-300)))
    dimension = np.log(2) / max(np.log(growth), 1e-3)
    return float((first < middle * (COINCIDENCE_PROBABILITY / (k - 1)) ** (1 / max(dimension, 1.0))).mean())
