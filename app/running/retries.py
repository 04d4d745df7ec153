"""Retries of endpoint calls, with exponential backoff, jitter, and the reply's Retry-After.

A call is retried only if it cannot have been charged (``CallFailed.again``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import random

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.wait import wait_base

from app.running.protocols.message import ParsedResponse
from app.running.transport import CallFailed
from models.endpoint import Retries


@dataclass(slots=True)
class CallAttempts:
    """Attempts of a call: the number made, and the error of the last failed one."""

    made: int = 0
    last_error: str = ""


async def send_with_retries(
    send: Callable[[], Awaitable[ParsedResponse]], retries: Retries, attempts: CallAttempts
) -> ParsedResponse:
    """Send a request; repeat it if it fails and ``retries`` allows another attempt.

    Args:
        attempts: updated at each attempt, so that the number is known even after a timeout.
    Raises:
        CallFailed: the last attempt failed.
    """
    try:
        return await _attempt(send, attempts)
    except CallFailed as error:
        if not error.again or retries.attempts == 1:
            raise
        await asyncio.sleep(max(error.wait_s, retries.backoff_s * (1 + random())))
    again = AsyncRetrying(
        stop=stop_after_attempt(retries.attempts - 1),
        wait=_Wait(2 * retries.backoff_s),
        retry=retry_if_exception(lambda error: isinstance(error, CallFailed) and error.again),
        reraise=True,
    )
    response: ParsedResponse = await again(_attempt, send, attempts)
    return response


async def _attempt(send: Callable[[], Awaitable[ParsedResponse]], attempts: CallAttempts) -> ParsedResponse:
    attempts.made += 1
    try:
        return await send()
    except CallFailed as error:
        attempts.last_error = str(error)
        raise


class _Wait(wait_base):
    """Exponential backoff with jitter, and at least the Retry-After of a reply."""

    def __init__(self, first_s: float) -> None:
        self._usual = wait_exponential(multiplier=first_s, max=60.0) + wait_random(0.0, first_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        waited = self._usual(retry_state)
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return max(waited, error.wait_s) if isinstance(error, CallFailed) else waited
