"""Whether endpoints return confidences like those that an artifact was built from."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models import ArtifactRef
from solvers.confidence_profile import WINDOW, compare_confidences
from solvers.running import Heard

log = logging.getLogger(__name__)
MAX_WATCHED = 10_000
"""Pairs of artifact and classifier that are watched; of more, the oldest is forgotten."""


@dataclass(slots=True)
class _Window:
    """Confidences since the last comparison. of_all_items: whether each was the first call of its run."""

    confidences: list[float] = field(default_factory=list)
    of_all_items: bool = True
    problem: str | None = None


class ConfidenceMonitor:
    """Compares each window of confidences of an artifact's classifiers with those of its build. Of one event loop."""

    def __init__(self) -> None:
        self._windows: dict[tuple[ArtifactRef, str], _Window] = {}
        self._first: dict[ArtifactRef, str] = {}

    def observe(self, ref: ArtifactRef, profiles: Mapping[str, Any], heard: Sequence[Heard]) -> None:
        """Take the calls of a run. profiles: the build's, by classifier (``profile_confidences``)."""
        first = heard[0].name if heard else None
        if first is not None and self._first.setdefault(ref, first) != first:
            self._first[ref] = ""  # runs begin with different classifiers: none is asked about all items
        for call in heard:
            if call.confidence is not None and call.name in profiles:
                self._add(ref, call.name, call.confidence, profiles[call.name])

    def _add(self, ref: ArtifactRef, name: str, confidence: float, profile: Mapping[str, Any]) -> None:
        window = self._windows.setdefault((ref, name), _Window())
        window.confidences.append(confidence)
        window.of_all_items &= self._first[ref] == name
        if len(window.confidences) < WINDOW:
            return
        problem = compare_confidences(profile, window.confidences, of_all_items=window.of_all_items)
        if problem is not None and window.problem is None:
            log.warning("confidences differ artifact=%s/%s classifier=%s: %s", ref.solver, ref.name, name, problem)
        self._windows[ref, name] = _Window(problem=problem)
        while len(self._windows) > MAX_WATCHED:
            self._windows.pop(next(iter(self._windows)))

    def forget(self, name: str) -> None:
        """Begin anew for a classifier whose endpoint was registered again."""
        for key in [key for key in self._windows if key[1] == name]:
            del self._windows[key]

    def problems(self, active: Collection[ArtifactRef]) -> list[str]:
        """List what differs for active artifacts, in sentences."""
        return [
            f"{ref.solver} {ref.name!r} version {ref.version}: endpoint {name!r}: {window.problem}; "
            "check confidence_scale of the dataset and of the endpoint, or rebuild from calls of this endpoint"
            for (ref, name), window in self._windows.items()
            if window.problem is not None and ref in active
        ]
