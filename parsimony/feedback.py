"""Feedback in the background: outcomes are queued, and sent in batches outside of the caller's thread."""

import atexit
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from parsimony.errors import NO_REPLY, TooManyRequests, Unavailable

logger = logging.getLogger("parsimony")
Outcome = Mapping[str, Any]


class FeedbackSender:
    """Sends outcomes in the background. Queued outcomes are sent at exit.

    Nothing is lost silently: ``report`` raises if the queue is full, and outcomes that could not be sent are logged
    with their number, and remain in ``unsent``, at most ``capacity`` of them.

    Args:
        send: sends outcomes; raises ParsimonyError.
        capacity: outcomes that may wait.
        batch: outcomes per request.
        interval_s: longest time that an outcome waits for others, in seconds.
        patience_s: pause before outcomes are sent again if the server is unavailable, in seconds.
    """

    def __init__(
        self,
        send: Callable[..., Any],
        *,
        capacity: int = 10_000,
        batch: int = 500,
        interval_s: float = 1.0,
        patience_s: float = 1.0,
    ) -> None:
        self._send, self._batch, self._interval_s, self._patience_s = send, batch, interval_s, patience_s
        self._capacity = capacity
        self._waiting: queue.Queue[Outcome] = queue.Queue(capacity)
        self._is_closing = threading.Event()
        self.unsent: list[Outcome] = []
        self._thread = threading.Thread(target=self._work, name="parsimony-feedback", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def report(self, **outcome: Any) -> None:
        """Queue an outcome, such as ``decision=decision.id, correct=True``. Raises queue.Full if too many wait."""
        if self._is_closing.is_set():
            raise RuntimeError("the feedback sender is closed")
        self._waiting.put_nowait(outcome)

    def flush(self) -> None:
        """Wait until all queued outcomes have been sent, or could not be."""
        self._waiting.join()

    def close(self) -> None:
        """Send the queued outcomes, with one attempt for each batch, and stop."""
        atexit.unregister(self.close)
        self._is_closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not (self._is_closing.is_set() and self._waiting.empty()):
            outcomes = self._take()
            if outcomes:
                self._deliver(outcomes)
                for _ in outcomes:
                    self._waiting.task_done()

    def _take(self) -> list[Outcome]:
        """Return up to a batch of outcomes; the first is waited for."""
        try:
            outcomes = [self._waiting.get(timeout=self._interval_s / 10)]
        except queue.Empty:
            return []
        if len(outcomes) + self._waiting.qsize() < self._batch:
            self._is_closing.wait(self._interval_s)
        while len(outcomes) < self._batch and not self._waiting.empty():
            outcomes.append(self._waiting.get_nowait())
        return outcomes

    def _deliver(self, outcomes: list[Outcome]) -> None:
        while True:
            is_last = self._is_closing.is_set()
            try:
                self._send(*outcomes)
                return
            except (Unavailable, TooManyRequests) as error:
                if is_last or error.code == NO_REPLY:  # which may have been counted
                    return self._give_up(outcomes, error)
                self._is_closing.wait(error.retry_after_s or self._patience_s)
            except Exception as error:  # else later outcomes would wait for ever
                return self._give_up(outcomes, error)

    def _give_up(self, outcomes: list[Outcome], error: Exception) -> None:
        logger.error("feedback not sent outcomes=%d error=%s", len(outcomes), error)
        kept = outcomes[: self._capacity - len(self.unsent)]
        self.unsent += kept
        if len(kept) < len(outcomes):
            logger.error("feedback lost outcomes=%d, since unsent is full", len(outcomes) - len(kept))
