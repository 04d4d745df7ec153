"""Prices of an endpoint's calls."""

from typing import Annotated

from pydantic import Field

from models.base import LARGEST, Value

MILLION = 1e6
Price = Annotated[float, Field(ge=0, le=LARGEST)]


class Prices(Value):
    """Prices of calls, in the unit of the artifacts that use the endpoint.

    Token counts are those of the reply's ``usage``.
    """

    per_call: Price = Field(default=0.0, description="price of each call")
    input_per_million: Price = Field(default=0.0, description="price of a million prompt tokens")
    cached_input_per_million: Price | None = Field(
        default=None,
        description="price of a million prompt tokens that the provider read from its cache; null: as other prompt "
        "tokens",
    )
    output_per_million: Price = Field(default=0.0, description="price of a million completion tokens")

    @property
    def cached_per_million(self) -> float:
        """The price of a million prompt tokens from the provider's cache."""
        return self.input_per_million if self.cached_input_per_million is None else self.cached_input_per_million

    def price_tokens(self, sent: float, came: float, cached: float = 0) -> float:
        """Return the cost of a call.

        Args:
            sent: input tokens, including cached ones.
            came: output tokens.
            cached: input tokens that the provider read from its cache.

        >>> Prices(per_call=1.0, input_per_million=2.0, output_per_million=4.0).price_tokens(500_000, 250_000)
        3.0
        """
        inputs = self.input_per_million * (sent - cached) + self.cached_per_million * cached
        return self.per_call + (inputs + self.output_per_million * came) / MILLION
