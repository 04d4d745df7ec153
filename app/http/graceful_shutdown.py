"""Graceful shutdown: on SIGTERM, readiness fails but requests are answered."""

import asyncio
import logging
import signal
import threading
from types import FrameType

logger = logging.getLogger("parsimony")


class GracefulShutdown:
    """State of the shutdown: whether SIGTERM was received, and the drain period."""

    def __init__(self, drain_s: float) -> None:
        self.asked_to_stop = False
        self._drain_s = drain_s

    def delay_sigterm(self) -> None:
        """Delay the installed SIGTERM handler by the drain period.

        A second signal is handled at once.
        """
        if not self._drain_s or threading.current_thread() is not threading.main_thread():
            return
        loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
        assert callable(stop), "the server must handle SIGTERM"

        def leave(number: int, frame: FrameType | None) -> None:
            if self.asked_to_stop:
                stop(number, frame)
                return
            self.asked_to_stop = True
            logger.info("SIGTERM received, draining drain_s=%g", self._drain_s)
            loop.call_soon_threadsafe(loop.call_later, self._drain_s, stop, number, frame)

        signal.signal(signal.SIGTERM, leave)
