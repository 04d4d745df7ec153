"""Detects labels that differ only in case or spaces.

These are usually spellings of one class that count as different classes.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from models import Dataset, Trace
from models.arrays import Bools, Int32s
from models.data_warning import DataWarning

MAX_SHOWN = 3
"""Spellings that the message lists; of more the number."""


def list_spelling_warnings(dataset: Dataset) -> Iterator[DataWarning]:
    """Yield a warning if labels or answers contain several spellings of a class.

    Complexity: O(n m) for n rows and m classifiers.
    """
    usual = _usual_spellings(dataset.classes, dataset.labels)
    other = np.array([usual[place] != place for place in range(len(dataset.classes))], dtype=bool)
    if not other.any():
        return
    affected = {name: _mark_classes(codes, other) for name, codes in _label_columns(dataset).items()}
    rows = np.logical_or.reduce(list(affected.values()))
    if not rows.any():
        return
    pairs = [f"{dataset.classes[at]!r} and {dataset.classes[usual[at]]!r}" for at in np.flatnonzero(other)]
    listed = ", ".join(pairs[:MAX_SHOWN]) + (f", and {len(pairs) - MAX_SHOWN} more" * (len(pairs) > MAX_SHOWN))
    where = ", ".join(name for name, marked in affected.items() if marked.any())
    message = f"{listed} are different classes, though they differ only in case or spaces; spell them alike in {where}"
    yield DataWarning(code="label-spellings", share=float(rows.mean()), message=message)


def _usual_spellings(classes: tuple[str, ...], labels: Int32s) -> list[int]:
    """Return for each class the most frequent true class that differs only in case and spaces."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(classes):
        groups[" ".join(name.split()).casefold()].append(place)
    counts = np.bincount(labels[labels >= 0], minlength=len(classes)) if len(classes) else np.zeros(0)
    usual = list(range(len(classes)))
    for places in groups.values():
        most = max(places, key=lambda place: (counts[place], -place))
        for place in places:
            usual[place] = most
    return usual


def _label_columns(dataset: Dataset) -> dict[str, Int32s]:
    """Return the codes of true labels and of each classifier's answers, by name."""
    columns = {"the label": dataset.labels}
    if isinstance(dataset, Trace):
        names = (one.name for one in dataset.spec.classifiers)
        columns |= {name: dataset.predictions[:, at] for at, name in enumerate(names)}
    return columns


def _mark_classes(codes: Int32s, other: Bools) -> Bools:
    """Return which rows have an unusually spelled class."""
    marked: Bools = (codes >= 0) & (codes < len(other)) & other[np.clip(codes, 0, len(other) - 1)]
    return marked
