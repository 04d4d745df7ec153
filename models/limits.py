"""The budget of an item, a limit that all artifact kinds share."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag

from models.base import LARGEST, Value
from models.errors import Fault, InvalidRequest

Amount = Annotated[float, Field(ge=0, le=LARGEST)]
PERCENT_PATTERN = r"^(100(\.0{1,6})?|\d{1,2}(\.\d{1,6})?)%$"


def _refuse_outside(budget: str) -> str:
    if not re.fullmatch(PERCENT_PATTERN, budget):
        raise ValueError(f"must be from 0% to 100% with at most six decimals, got {budget[:20]!r}")
    return budget


Percent = Annotated[str, BeforeValidator(_refuse_outside), StringConstraints(pattern=PERCENT_PATTERN)]


def _form_of(budget: object) -> str:
    return "constrained-percent" if isinstance(budget, str) and budget.endswith("%") else "constrained-amount"


Budget = Annotated[
    Annotated[Amount, Tag("constrained-amount")] | Annotated[Percent, Tag("constrained-percent")],
    Discriminator(_form_of),
]
"""A number, in the artifact's unit, or a percentage of what the most expensive classifier costs."""


def resolve_budget(budget: float | str, most_expensive: float) -> float:
    """Return a budget as a number.

    A percentage is relative to the cost of the most expensive classifier.

    >>> resolve_budget("30%", 20.0), resolve_budget(5.0, 20.0)
    (6.0, 5.0)
    """
    return float(budget[:-1]) / 100 * most_expensive if isinstance(budget, str) else budget


class HasBudget(Value):
    """Base class of models with a mean budget per item."""

    budget: Budget | None = Field(
        default=None,
        description='upper bound on the mean cost per item, in the artifact\'s unit, or as a share, such as "30%", '
        "of the cost of the most expensive classifier (for features: of all features)",
        examples=[6.0],
    )

    @property
    def mean_budget(self) -> float | None:
        """The budget as a number.

        Raises InvalidRequest for a percentage, which only an artifact can resolve.
        """
        if isinstance(self.budget, str):
            raise InvalidRequest.from_faults(Fault(("budget",), f"must be a number, got {self.budget}"))
        return self.budget
