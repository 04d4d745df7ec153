"""Ends builds whose worker has died."""

import time
from collections.abc import Callable

from app.store.builds import Builds

SILENCE_S = 30.0
"""How long a running build's beat may stand still before the build is given up."""


GAP_S = 10.0
"""Between looks that lie further apart the store was away, and nobody could beat."""


class Watchdog:
    """Ends builds whose worker has died: one whose beat stood still, or that is queued yet stands in no queue."""

    def __init__(self, builds: Builds, clock: Callable[[], float] = time.monotonic) -> None:
        self._builds, self._clock = builds, clock
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}
        self._looked = clock()

    def look(self) -> None:
        """Look once; to be called every few seconds."""
        open_builds, beats = self._builds.unended(), self._builds.beats()
        if self._clock() - self._looked > GAP_S:
            self._seen.clear()  # the store was away: nobody could beat
        self._looked = self._clock()
        ids = {build.id for build in open_builds}
        self._seen = {build_id: seen for build_id, seen in self._seen.items() if build_id in ids}
        for build in open_builds:
            if build.status == "queued" and self._builds.is_waiting(build.id):
                self._seen.pop(build.id, None)
                continue
            sign, moment = (build.status, beats.get(build.id, 0)), self._clock()
            old, since = self._seen.get(build.id, (None, moment))
            self._seen[build.id] = (sign, since if old == sign else moment)
            if old == sign and moment - since > SILENCE_S:
                self._builds.end(build.id, "failed", f"its worker died: no sign of life for {SILENCE_S:.0f} s")
