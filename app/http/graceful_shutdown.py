"""Graceful shutdown: on SIGTERM readiness fails first, while in-flight and new requests are still answered."""

import asyncio
import logging
import signal
import threading
from types import FrameType

logger = logging.getLogger("parsimony")


class GracefulShutdown:
    """Whether SIGTERM was received, and the drain period."""

    def __init__(self, drain_s: float) -> None:
        self.asked_to_stop = False
        self._drain_s = drain_s

    def answer_on_when_told(self) -> None:
        """Put off the handler of SIGTERM that is set now; a second signal is not put off."""
        if not self._drain_s or threading.current_thread() is not threading.main_thread():
            return
        loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
        assert callable(stop), "the server must handle SIGTERM"

        def leave(number: int, frame: FrameType | None) -> None:
            if self.asked_to_stop:
                stop(number, frame)
                return
            self.asked_to_stop = True
            logger.info("SIGTERM received; draining for %g s", self._drain_s)
            loop.call_soon_threadsafe(loop.call_later, self._drain_s, stop, number, frame)

        signal.signal(signal.SIGTERM, leave)
