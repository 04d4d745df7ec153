"""Set-up groups: work that several features, or classifiers, share, and that an item pays for once."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from models.base import LARGEST, Items, Label, Value
from models.columns import find_duplicate_name, require_unique_names
from models.cost import Cost


class SetupWork(Value):
    """Set-up work that an item pays for once, with the first of the features, or classifiers, that need it."""

    name: Label = Field(description="the name of the set-up work", examples=["draw blood"])
    cost: Cost = Field(description="a number, or a function of the item's size, in the dataset's unit", examples=[10])
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum time, in time_unit, for deadlines of policies; required if those that need it have times",
    )


class SetupSpec(SetupWork):
    """Set-up work of some features, for example to draw blood: an item pays for it once, with the first of them.

    >>> SetupSpec(name="draw blood", cost=10, features=("hemoglobin", "glucose")).cost
    10.0
    """

    features: Annotated[Items[Label], Field(min_length=1)] = Field(
        description="the features that need this set-up work; a feature may need several", examples=[["glucose"]]
    )

    @property
    def members(self) -> Sequence[str]:
        """The features."""
        return self.features


class ClassifierSetup(SetupWork):
    """Set-up work of some classifiers, for example to transcribe a call: an item pays for it once.

    >>> ClassifierSetup(name="transcribe", cost=3, classifiers=("small", "large")).members
    ('small', 'large')
    """

    classifiers: Annotated[Items[Label], Field(min_length=1)] = Field(
        description="the classifiers that need this set-up work; a classifier may need several",
        examples=[["small", "large"]],
    )

    @property
    def members(self) -> Sequence[str]:
        """The classifiers."""
        return self.classifiers


def check_setup(groups: Sequence[SetupSpec | ClassifierSetup], names: Sequence[str], what: str) -> None:
    """Raise ValueError for duplicate names, and for members that are unknown or listed twice in a group.

    what: ``feature`` or ``classifier``, for messages.
    """
    require_unique_names("setup name", (group.name for group in groups))
    for group in groups:
        if group.name in names:
            raise ValueError(f"setup name must differ from all {what} names, got {group.name!r}")
        unknown = [name for name in group.members if name not in names]
        if unknown:
            available = ", ".join(names)
            raise ValueError(f"setup {group.name!r} has unknown {what} {unknown[0]!r}; available: {available}")
        repeated = find_duplicate_name(group.members)
        if repeated is not None:
            times = group.members.count(repeated)
            raise ValueError(f"setup {group.name!r} must list each {what} once, got {repeated!r} {times} times")


def omit_empty_setup(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a serialized spec without the field ``setup`` if it has no groups, as specs were stored before."""
    return stored if stored.get("setup") else {name: value for name, value in stored.items() if name != "setup"}
