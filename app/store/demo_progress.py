"""Progress and outcome of the demo that a running service builds in the background."""

from typing import Literal

from pydantic import Field

from app.store.client import Store, make_store_key, read_model
from models import Value

_PROGRESS, _BEAT = make_store_key("demo", "progress"), make_store_key("demo", "beat")
STALLED_AFTER_S = 120
"""Seconds without progress after which the process that makes the demo is considered dead."""


class DemoProgress(Value):
    """Progress or outcome of the demo."""

    state: Literal["making", "failed", "done"] = Field(
        description="making: being built; failed: incomplete until the service restarts; done"
    )
    message: str = Field(description="the current step, or the reason of the failure")

    @property
    def text(self) -> str:
        """Return the progress as a clause for messages.

        >>> DemoProgress(state="making", message="timing features").text
        'the demo is being built: timing features'
        """
        if self.state == "failed":
            return f"demo setup failed: {self.message}; restart the service to try again"
        state = "being built" if self.state == "making" else "done"
        return f"the demo is {state}: {self.message}"


def set_demo_progress(store: Store, progress: DemoProgress | None) -> None:
    """Store the progress of the demo; None deletes it."""
    if progress is None:
        store.execute("delete", _PROGRESS)
        return
    store.execute("set", _BEAT, b"", ex=STALLED_AFTER_S)
    store.execute("set", _PROGRESS, progress.model_dump_json())


def get_demo_progress(store: Store) -> DemoProgress | None:
    """Return the progress of the demo; None if it is not being built."""
    raw, beat = store.get_many([_PROGRESS, _BEAT])
    progress = None if raw is None else read_model(DemoProgress, raw)
    if progress is not None and progress.state == "making" and beat is None:
        return DemoProgress(state="failed", message=f"no progress for {STALLED_AFTER_S} s after: {progress.message}")
    return progress
