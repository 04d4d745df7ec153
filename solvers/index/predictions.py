"""Predictions of an index's models for items and for tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from models.errors import CorruptArtifact
from solvers.base import run_in_process
from solvers.index.cells import encode_items, list_column_owners, select_features
from solvers.index.contents import IndexContents
from solvers.index.costs import list_members
from solvers.learners.archives import predict_archived
from solvers.learners.linear import predict_linear


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predicted classes and probabilities.

    Attributes:
        labels: the class of each item; None for rejected items.
        probabilities: probability of every class, in the plan's order; None if the model has none.
    """

    labels: tuple[str | None, ...]
    probabilities: tuple[dict[str, float], ...] | None


def predict_items(
    contents: IndexContents,
    mask: int,
    items: Sequence[Mapping[str, Any]],
    learner_modules: Sequence[str],
    run_in: Callable[..., Any],
) -> Predictions:
    """Classify items with the model of a set.

    The empty set predicts the most common class, or the answer of least loss.

    Raises: as ``IndexPlan.predict``.
    """
    if mask == 0:
        shares = dict(zip(contents.classes, contents.class_shares.tolist(), strict=True))
        common = int(contents.choose_answers(contents.class_shares[None])[0])
        return Predictions((_name_class(contents, common),) * len(items), tuple(dict(shares) for _ in items))
    owners, every = list_column_owners(contents.columns), [column for own in contents.columns for column in own]
    columns = [
        (at, contents.features[f], every[at]) for f in list_members(mask) for at in np.flatnonzero(owners == f).tolist()
    ]
    codes, probabilities = _predict_codes(
        contents, mask, encode_items(contents.encoding, columns, items), learner_modules, run_in
    )
    return Predictions(
        tuple(_name_class(contents, code) for code in codes.tolist()),
        None
        if probabilities is None
        else tuple(dict(zip(contents.classes, row, strict=True)) for row in probabilities.tolist()),
    )


def _name_class(contents: IndexContents, code: int) -> str | None:
    return None if code == len(contents.classes) else contents.classes[code]


def classify_rows(contents: IndexContents, mask: int, values: Floats, learner_modules: Sequence[str]) -> Int64s:
    """Return the class codes, (n,), of rows (n, D) from ``encode_features``, by the model of a feature set."""
    if mask == 0:
        return np.full(len(values), int(contents.choose_answers(contents.class_shares[None])[0]))
    ends = np.cumsum([0, *contents.widths]).tolist()
    columns = [column for f in list_members(mask) for column in range(ends[f], ends[f + 1])]
    return _predict_codes(contents, mask, np.ascontiguousarray(values[:, columns]), learner_modules, run_in_process)[0]


def encode_features(contents: IndexContents, table: FeatureTable) -> Floats:
    """Return a table's rows in numerical encoding, as models expect them: (n, D).

    Raises: as ``IndexPlan.encode_features``.
    """
    own, encoding = select_features(table, contents.features), contents.encoding
    if [each.columns for each in own.spec.features] != list(contents.columns):
        raise InvalidRequest.from_faults(
            Fault(("dataset", "features"), "must have the columns that the index was built from")
        )
    if encoding is not None:
        encoding.check(own)
        return encoding.encode_cells(own)
    if any(own.categories) or bool(np.isnan(own.values).any()):
        fault = "must be complete numbers: the index was built without categories and missing cells"
        raise InvalidRequest.from_faults(Fault(("dataset", "features"), fault))
    return np.asarray(own.values)


def _predict_codes(
    contents: IndexContents, mask: int, table: Floats, learner_modules: Sequence[str], run_in: Callable[..., Any]
) -> tuple[Int64s, Floats | None]:
    """Return class codes, (n,), and probabilities, (n, c), if the model has any."""
    matching = np.flatnonzero(contents.masks[contents.model_sets] == mask)
    if not len(matching):
        names = ", ".join(contents.features[f] for f in list_members(mask))
        raise InvalidRequest.from_faults(Fault(("features",), f"model of {names} not found in this artifact"))
    model = int(matching[0])
    start, end = contents.model_offsets[model : model + 2].tolist()
    if contents.model_kind == "skops":
        data = contents.model_bytes[start:end].tobytes()
        codes, probabilities = run_in(predict_archived, data, table, len(contents.classes), learner_modules)
    else:
        codes, probabilities = predict_linear(contents.model_numbers[start:end], table, contents.model_kind)
    if contents.losses is None:
        return codes, probabilities
    if probabilities is None:
        raise CorruptArtifact("the model must have probabilities, because errors have losses")
    return contents.choose_answers(probabilities), probabilities
