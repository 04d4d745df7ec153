"""Set-up groups: work that several features, or classifiers, share, and that an item pays for once."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from models.base import LARGEST, Items, Label, Value
from models.columns import find_duplicate_name, require_unique_names
from models.cost import Cost


class SetupSpec(Value):
    """Set-up work of some features, for example to draw blood: an item pays for it once, with the first of them.

    >>> SetupSpec(name="draw blood", cost=10, features=("hemoglobin", "glucose")).cost
    10.0
    """

    name: Label = Field(description="the name of the set-up work", examples=["draw blood"])
    cost: Cost = Field(description="a number, or a function of the item's size, in the dataset's unit", examples=[10])
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum time, in time_unit, for deadlines of policies; required if the features have times",
    )
    features: Annotated[Items[Label], Field(min_length=1)] = Field(
        description="the features that need this set-up work; a feature may need several", examples=[["glucose"]]
    )


def check_setup(groups: Sequence[SetupSpec], features: Sequence[str]) -> None:
    """Raise ValueError for duplicate names, unknown features, and features that a group lists twice."""
    require_unique_names("setup name", (group.name for group in groups))
    for group in groups:
        if group.name in features:
            raise ValueError(f"setup name must differ from all feature names, got {group.name!r}")
        unknown = [name for name in group.features if name not in features]
        if unknown:
            available = ", ".join(features)
            raise ValueError(f"setup {group.name!r} has unknown feature {unknown[0]!r}; available: {available}")
        repeated = find_duplicate_name(group.features)
        if repeated is not None:
            times = group.features.count(repeated)
            raise ValueError(f"setup {group.name!r} must list each feature once, got {repeated!r} {times} times")
