"""One item of a recording: its calls, and the row that they become."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any

from parsimony.functions import CallOutcome

if TYPE_CHECKING:
    from parsimony.recorder import Recorder

MAX_ERROR = 1000
"""Characters of an error that are recorded."""


class RecordedItem:
    """One item, whose calls are recorded together when the context ends.

    Attributes:
        id: names the item in ``Recorder.add_truth``.
        explore: probability of exploration; 0 if too many items wait for it.
        is_explored: whether all other classifiers will be called.
        loop: event loop in which the item is recorded; None: none.
    """

    def __init__(self, recorder: "Recorder", item: Any, item_id: str, embedding: Any) -> None:
        self.item, self.id, self.embedding = item, item_id, embedding
        self.explore, self.is_explored = recorder.explore, random.random() < recorder.explore
        self.calls: list[dict[str, Any]] = []
        self.loop = find_running_loop()
        self._recorder, self._time = recorder, datetime.now(timezone.utc)  # noqa: UP017 - Python 3.10 has no UTC

    def __enter__(self) -> "RecordedItem":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.end_item(self)

    def call(self, name: str) -> Any:
        """Call a classifier, and return what it returns. Raises what it raises."""
        return self._end_call(self._recorder.call_classifier(name, self.item))

    async def call_async(self, name: str) -> Any:
        """Call a classifier that may be asynchronous, and return what it returns. Raises what it raises."""
        return self._end_call(await self._recorder.call_classifier_async(name, self.item))

    def _end_call(self, outcome: CallOutcome) -> Any:
        self.add_outcome(outcome, 1.0, is_explored=False)
        if outcome.raised is not None:
            raise outcome.raised
        return outcome.value

    def add_outcome(self, outcome: CallOutcome, propensity: float, *, is_explored: bool) -> None:
        """Add a call's outcome."""
        outcome = self._recorder.check_answer(outcome)
        answer = outcome.answer
        self.calls.append(
            {
                "classifier": outcome.name,
                "label": None if answer is None else answer.label,
                "confidence": None if answer is None else answer.confidence,
                "cost": self._recorder.cost_of(outcome),
                "seconds": outcome.seconds,
                "propensity": propensity,
                "is_explored": is_explored,
                "error": None if outcome.error is None else outcome.error[:MAX_ERROR],
            }
        )

    def to_row(self, candidates: Sequence[str], key: str) -> dict[str, Any]:
        """Return the row, as in the API."""
        return {
            "id": self.id,
            "key": key,
            "time": self._time.isoformat(),
            "embedding": self.embedding,
            "explore": self.explore,
            "candidates": candidates,
            "calls": self.calls,
            **({"item": self.item} if self._recorder.keeps_items else {}),
        }


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread; None without."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
