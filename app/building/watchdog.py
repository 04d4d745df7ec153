"""Ends builds whose worker has died."""

import time

from app.store.builds import Builds

SILENCE_S = 30.0
"""How long a running build's beat may stand still before the build is given up."""


GAP_S = 10.0
"""Between looks that lie further apart the store was away, and nobody could beat."""


class Watchdog:
    """Ends builds whose worker has died: one whose beat stood still, or that is queued yet stands in no queue."""

    def __init__(self, builds: Builds, *, silence_s: float = SILENCE_S, gap_s: float = GAP_S) -> None:
        self._builds, self._silence_s, self._gap_s = builds, silence_s, gap_s
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}
        self._looked = time.monotonic()

    def look(self) -> None:
        """Look once; to be called every few seconds."""
        open_builds, beats = self._builds.unended(), self._builds.beats()
        if time.monotonic() - self._looked > self._gap_s:
            self._seen.clear()  # the store was away: nobody could beat
        self._looked = time.monotonic()
        ids = {build.id for build in open_builds}
        self._seen = {build_id: seen for build_id, seen in self._seen.items() if build_id in ids}
        for build in open_builds:
            if build.status == "queued" and self._builds.is_waiting(build.id):
                self._seen.pop(build.id, None)
                continue
            sign, moment = (build.status, beats.get(build.id, 0)), time.monotonic()
            old, since = self._seen.get(build.id, (None, moment))
            self._seen[build.id] = (sign, since if old == sign else moment)
            if old == sign and moment - since > self._silence_s:
                self._builds.end(build.id, "failed", f"its worker died: no sign of life for {self._silence_s:.0f} s")
