"""What the models of an index say: of items that are given by their columns, and of whole tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from solvers.base import in_this_process
from solvers.index.cells import numbers_of, only, owners_of
from solvers.index.contents import IndexContents
from solvers.index.costs import members_of
from solvers.learners.archives import predict_archived
from solvers.learners.linear import predict_linear


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predicted class of each item, and the probability of every class in the plan's order, if there are any."""

    labels: tuple[str, ...]
    probabilities: tuple[dict[str, float], ...] | None


def predictions(
    kept: IndexContents,
    mask: int,
    items: Sequence[Mapping[str, Any]],
    learner_modules: Sequence[str],
    run_in: Callable[..., Any],
) -> Predictions:
    """Classify items with the model of a set of features; without any they are of the most common class.

    Raises what ``IndexPlan.predict`` raises.
    """
    if mask == 0:
        shares = dict(zip(kept.classes, kept.class_shares.tolist(), strict=True))
        common = kept.classes[int(np.argmax(kept.class_shares))]
        return Predictions((common,) * len(items), tuple(dict(shares) for _ in items))
    owners, every = owners_of(kept.columns), [column for own in kept.columns for column in own]
    columns = [(at, every[at]) for f in members_of(mask) for at in np.flatnonzero(owners == f).tolist()]
    codes, likely = _codes(kept, mask, numbers_of(kept.encoding, columns, items), learner_modules, run_in)
    return Predictions(
        tuple(kept.classes[code] for code in codes.tolist()),
        None if likely is None else tuple(dict(zip(kept.classes, row, strict=True)) for row in likely.tolist()),
    )


def classes_of(kept: IndexContents, mask: int, values: Floats, learner_modules: Sequence[str]) -> Int64s:
    """Classify complete rows, (n, D) as ``values_of`` gives them, with the model of a set of features: (n,) codes."""
    if mask == 0:
        return np.full(len(values), int(np.argmax(kept.class_shares)))
    ends = np.cumsum([0, *kept.widths]).tolist()
    columns = [column for f in members_of(mask) for column in range(ends[f], ends[f + 1])]
    return _codes(kept, mask, np.ascontiguousarray(values[:, columns]), learner_modules, in_this_process)[0]


def values_of(kept: IndexContents, table: FeatureTable) -> Floats:
    """Take complete rows of a table as models see them: (n, D); raises what ``IndexPlan.values_of`` raises."""
    own, encoding = only(table, kept.features), kept.encoding
    if [each.columns for each in own.spec.features] != list(kept.columns):
        raise InvalidRequest.at(Fault(("dataset", "features"), "fill other columns than the index's"))
    if encoding is not None:
        encoding.check(own)
        return encoding.apply(own)
    if any(own.categories) or bool(np.isnan(own.values).any()):
        asked = "has columns of categories or missing cells; the index was built from complete numbers"
        raise InvalidRequest.at(Fault(("dataset", "features"), asked))
    return np.asarray(own.values)


def _codes(
    kept: IndexContents, mask: int, table: Floats, learner_modules: Sequence[str], run_in: Callable[..., Any]
) -> tuple[Int64s, Floats | None]:
    """Ask the model of a feature set: (n,) codes of classes and, where it has any, (n, c) their probabilities."""
    matching = np.flatnonzero(kept.masks[kept.model_sets] == mask)
    if not len(matching):
        names = ", ".join(kept.features[f] for f in members_of(mask))
        raise InvalidRequest.at(Fault(("features",), f"the index keeps no model of {names}"))
    model = int(matching[0])
    start, end = kept.model_offsets[model : model + 2].tolist()
    if kept.model_kind == "skops":
        data = kept.model_bytes[start:end].tobytes()
        archived: tuple[Int64s, Floats | None] = run_in(
            predict_archived, data, table, len(kept.classes), learner_modules
        )
        return archived
    return predict_linear(kept.model_numbers[start:end], table, kept.model_kind)
