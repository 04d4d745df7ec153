"""How well logged rows support an estimate."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overlap:
    """How well logged rows support the evaluation of a decision rule.

    Attributes:
        rows: number of rows.
        supported_rows: number of rows in which all calls of the rule were logged.
        effective_rows: effective sample size of the supported rows, weighted by inverse propensities.
        covered: share of the rows that the weighted supported rows represent; about 1 if every row can be supported.
        is_sufficient: whether the rule can be evaluated.
    """

    rows: int
    supported_rows: int
    effective_rows: float
    covered: float
    is_sufficient: bool

    def __str__(self) -> str:
        """Return the numbers as text.

        >>> print(Overlap(1000, 40, 12.3, 0.55, False))
        all calls were logged in 40 of 1,000 rows (effective sample size 12.3), which represent 55% of them
        """
        return (
            f"all calls were logged in {self.supported_rows:,} of {self.rows:,} rows (effective sample size "
            f"{self.effective_rows:.3g}), which represent {min(self.covered, 1.0):.0%} of them"
        )
