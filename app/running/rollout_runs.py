"""Runs of several items that a rollout divides between two versions."""

import asyncio
import time
from collections.abc import Sequence

from app.running.item_start import RunDependencies
from app.running.runs import CompletedItem, FailedItem, record_in_rollout, run_each
from app.serving.catalog import LoadedArtifact
from models.errors import Fault, Infeasible, InvalidRequest
from models.run import RunItem, RunLimits
from solvers.base import Plan

VersionedOutcome = tuple[LoadedArtifact[Plan], CompletedItem | FailedItem]
"""The version that decided for an item, and the item's outcome."""


async def run_with_rollout(
    loaded: LoadedArtifact[Plan], items: Sequence[RunItem], limits: RunLimits, dependencies: RunDependencies
) -> tuple[list[VersionedOutcome], float]:
    """Run items concurrently; a rollout chooses the version of items with an id.

    Otherwise like ``run_each``.

    Args:
        loaded: the active version, which decides for items without an id.
    """
    chosen = [loaded if item.id is None else dependencies.rollouts.choose(loaded, item.id) for item in items]
    return await _run_chosen(loaded, chosen, items, limits, dependencies)


async def run_without_rollout(
    loaded: LoadedArtifact[Plan], items: Sequence[RunItem], limits: RunLimits, dependencies: RunDependencies
) -> tuple[list[VersionedOutcome], float]:
    """Run all items concurrently by one version; the result is as of ``run_with_rollout``."""
    return await _run_chosen(loaded, [loaded] * len(items), items, limits, dependencies)


async def _run_chosen(
    active: LoadedArtifact[Plan],
    chosen: Sequence[LoadedArtifact[Plan]],
    items: Sequence[RunItem],
    limits: RunLimits,
    dependencies: RunDependencies,
) -> tuple[list[VersionedOutcome], float]:
    started = time.monotonic()
    groups: dict[tuple[int, bool], list[int]] = {}
    for place, version in enumerate(chosen):
        groups.setdefault((version.ref.version, version.is_randomized), []).append(place)
    running = [
        asyncio.ensure_future(
            _run_group(
                chosen[places[0]], items, places, limits, dependencies, is_candidate=version != active.ref.version
            )
        )
        for (version, _), places in groups.items()
    ]
    try:
        ended = await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
    outcomes = {place: one for group in ended for place, one in group.items()}
    return [(version, outcomes[place]) for place, version in enumerate(chosen)], time.monotonic() - started


async def _run_group(
    loaded: LoadedArtifact[Plan],
    items: Sequence[RunItem],
    places: Sequence[int],
    limits: RunLimits,
    dependencies: RunDependencies,
    *,
    is_candidate: bool,
) -> dict[int, CompletedItem | FailedItem]:
    """Run the items at some positions of a request; faults have these positions.

    If only the candidate cannot keep the limits, the other items do not fail.
    """
    try:
        outcomes, _ = await run_each(loaded, tuple(items[place] for place in places), limits, dependencies)
    except Infeasible as error:
        if not is_candidate:
            raise
        failed: dict[int, CompletedItem | FailedItem] = {
            place: FailedItem(error, (), items[place].id) for place in places
        }
        for one in failed.values():
            record_in_rollout(loaded, one, dependencies)
        return failed
    except InvalidRequest as error:
        raise InvalidRequest.from_faults(*(_replace_place(fault, places) for fault in error.faults)) from error
    return dict(zip(places, outcomes, strict=True))


def _replace_place(fault: Fault, places: Sequence[int]) -> Fault:
    """Return a fault with the position of its item in the request."""
    match fault.loc:
        case ("items", int(at), *rest):
            return Fault(("items", places[at], *rest), fault.msg, fault.row)
    return fault
