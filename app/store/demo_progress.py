"""How far the demo has come that is made behind a running service, and what became of it."""

from typing import Literal

from pydantic import Field

from app.store.client import Store, make_key, read_model
from models import Value

_PROGRESS, _BEAT = make_key("demo", "progress"), make_key("demo", "beat")
SILENT_S = 120
"""Seconds without progress after which the process that makes the demo is considered dead."""


class DemoProgress(Value):
    """What the demo behind a service is doing, or what became of it."""

    state: Literal["making", "failed", "done"] = Field(
        description="making; failed: something of it is missing, until the service is started again; done"
    )
    message: str = Field(description="what is being made, or why it failed")

    @property
    def text(self) -> str:
        """Give it as half a sentence.

        >>> DemoProgress(state="making", message="timing features").text
        'the demo is being made: timing features'
        """
        if self.state == "failed":
            return f"the demo could not be made whole: {self.message}; start the service again to try once more"
        return (
            f"the demo is being made: {self.message}" if self.state == "making" else f"the demo is done: {self.message}"
        )


def note_demo(store: Store, progress: DemoProgress | None) -> None:
    """The demo's progress as text; None without a demo."""
    if progress is None:
        store.execute("delete", _PROGRESS)
        return
    store.execute("set", _BEAT, b"", ex=SILENT_S)
    store.execute("set", _PROGRESS, progress.model_dump_json())


def demo_progress(store: Store) -> DemoProgress | None:
    """Give how far the demo is; None if none was ever begun here, or the service was stopped meanwhile."""
    raw, beat = store.get_many([_PROGRESS, _BEAT])
    progress = None if raw is None else read_model(DemoProgress, raw)
    if progress is not None and progress.state == "making" and beat is None:
        return DemoProgress(state="failed", message=f"no progress for {SILENT_S} s after: {progress.message}")
    return progress
