"""Detects endpoints whose confidences differ from those in the build's dataset."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models import ArtifactRef
from parsimony.runs.steps import CallResult
from solvers.confidence_profile import WINDOW, compare_confidences

log = logging.getLogger(__name__)
MAX_WATCHED = 10_000
"""Pairs of artifact and classifier that are watched; of more, the oldest is forgotten."""


@dataclass(slots=True)
class _Window:
    """Confidences since the last comparison.

    ``runs`` is the number of the artifact's runs since then, with or without a confidence.
    """

    confidences: list[float] = field(default_factory=list)
    runs: int = 0
    problem: str | None = None
    is_compared: bool = False
    """Whether a window before this one was full, so that ``problem`` is what it found."""


class ConfidenceMonitor:
    """Compares recent confidences of each classifier with those in the build's dataset.

    Use it on one event loop.
    """

    def __init__(self) -> None:
        self._windows: dict[tuple[ArtifactRef, str], _Window] = {}

    def observe_results(self, ref: ArtifactRef, profiles: Mapping[str, Any], results: Sequence[CallResult]) -> None:
        """Add the confidences of a run's calls to their windows.

        Args:
            profiles: distribution of the build's confidences by classifier (``profile_confidences``).
        """
        confidences = {call.name: call.confidence for call in results if call.confidence is not None}
        for name, profile in profiles.items():
            window = self._windows.setdefault((ref, name), _Window())
            window.runs += 1
            if name in confidences:
                window.confidences.append(confidences[name])
            if len(window.confidences) == WINDOW:
                self._compare(ref, name, window, profile)
        while len(self._windows) > MAX_WATCHED:
            self._windows.pop(next(iter(self._windows)))

    def _compare(self, ref: ArtifactRef, name: str, window: _Window, profile: Mapping[str, Any]) -> None:
        problem = compare_confidences(profile, window.confidences, share=WINDOW / window.runs)
        if problem is not None and window.problem is None:
            log.warning("confidences differ artifact=%s/%s classifier=%s problem=%s", ref.kind, ref.name, name, problem)
        self._windows[ref, name] = _Window(problem=problem, is_compared=True)

    def forget_endpoint(self, name: str) -> None:
        """Reset the window of a classifier whose endpoint was registered again."""
        for key in [key for key in self._windows if key[1] == name]:
            del self._windows[key]

    def latest_findings(self, ref: ArtifactRef) -> dict[str, str | None]:
        """Return each classifier's problem in the last full window; None for none."""
        return {
            name: window.problem for (of, name), window in self._windows.items() if of == ref and window.is_compared
        }

    def list_problems(
        self, active: Collection[ArtifactRef], reported: Mapping[tuple[ArtifactRef, str], str]
    ) -> list[str]:
        """Return the problems of active artifacts as messages.

        Args:
            reported: problems that batches found, by version and name.
        """
        own = {key: window.problem for key, window in self._windows.items() if window.problem is not None}
        return [
            f"{ref.kind} {ref.name!r} version {ref.version}: endpoint {name!r}: {problem}; "
            "check confidence_scale of the dataset and of the endpoint, or rebuild from calls of this endpoint"
            for (ref, name), problem in {**reported, **own}.items()
            if ref in active
        ]
