"""Compares an endpoint's prices with the costs of its calls in the datasets of artifacts."""

from collections.abc import Iterable

from app.serving.catalog import LoadedArtifact
from models.prices import Prices
from parsimony.units import seconds_per_unit
from solvers.base import Plan

FACTOR = 50.0
"""Costs that differ by more are taken for prices in another unit."""
USUAL_TOKENS = 500, 200
"""Input and output tokens of a usual call."""


def list_price_warnings(name: str, prices: Prices | None, artifacts: Iterable[LoadedArtifact[Plan]]) -> tuple[str, ...]:
    """Return warnings if an endpoint's prices do not match the costs in artifacts' datasets.

    They do not match if a usual call would cost far more, or far less.
    """
    if prices is None:
        return ()
    sent, came = USUAL_TOKENS
    return list_cost_warnings(name, prices.price_tokens(sent, came), f"a call of {sent} and {came} tokens", artifacts)


def list_cost_warnings(
    name: str, cost: float | None, call: str, artifacts: Iterable[LoadedArtifact[Plan]]
) -> tuple[str, ...]:
    """Return warnings if a call cost far more, or far less, than in an artifact's dataset.

    If the artifact's unit is a unit of time, costs are durations.
    """
    if not cost:
        return ()
    means = [(one, _mean_cost(one, name)) for one in artifacts if seconds_per_unit(one.record.unit) is None]
    return tuple(
        f"mean cost in the dataset of {one.ref.kind} {one.ref.name!r} is {mean:.3g} {one.record.unit}, these prices "
        f"give {cost:.3g} for {call}: prices are per million tokens, in {one.record.unit}"
        for one, mean in means
        if mean and not 1 / FACTOR <= cost / mean <= FACTOR
    )


def _mean_cost(loaded: LoadedArtifact[Plan], name: str) -> float:
    """Return the mean cost of a classifier's calls in an artifact's dataset; 0 if unknown."""
    return loaded.kind.mean_costs(loaded.plan).get(name, 0.0)
