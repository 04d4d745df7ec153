"""Recordings of the caller's own classifiers: measured calls, exploration in the background, and truths.

Lines are appended to a file on this machine, and sent from there; so memory is bounded, and what was recorded survives
crashes of the process and times when the server is unavailable.
"""

import asyncio
import json
import logging
import queue
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import wraps
from math import inf
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from parsimony.errors import InvalidRequest, Unavailable
from parsimony.functions import (
    CallOutcome,
    Function,
    call_function,
    call_function_async,
    check_functions,
    is_async,
    make_answer,
    to_plain,
)
from parsimony.recorded_item import RecordedItem, find_running_loop
from parsimony.spool import Spool, default_folder
from parsimony.units import seconds_per_unit
from parsimony.uploads import make_path

if TYPE_CHECKING:
    from parsimony.client import Parsimony

logger = logging.getLogger("parsimony")
CREATE_S = 2.0
"""Time limit of the request that creates the recording, in seconds."""
LOOP_POLL_S = 0.2
"""Seconds between checks whether an event loop has ended."""
MAX_EXPLORING = 64
"""Items that may wait for exploration; of further ones, only the caller's own calls are recorded."""


class Recorder:
    """Records calls of your own classifiers, and calls the others for a share of the items in the background.

    Use it as a context manager, or call ``close``: then what was recorded is sent. With asynchronous classifiers, use
    ``async with``.

    Args:
        name: the recording, which is created if there is none; while the server is unavailable, before lines are sent.
        classifiers: functions of an item, or fitted classifiers with ``predict_proba``, by name. Exploration calls
            them in another thread.
        costs: cost of one call by name; None: the costs of ``Answer``, else the measured time.
        unit: unit of costs.
        explore: share of the items for which all other classifiers are called.
        keeps_items: whether items are recorded, too; they must be JSON values.
        folder: where lines wait for the server; None: ``default_folder``.
        options: ``max_bytes`` and ``interval_s`` of the ``Spool``.
    Raises:
        InvalidRequest: a classifier that can neither be called nor predict.
        Conflict: the recording has rows of an artifact, or costs in another unit.
    """

    def __init__(
        self,
        client: "Parsimony",
        name: str,
        classifiers: Mapping[str, Function],
        *,
        costs: Mapping[str, float] | None = None,
        unit: str = "ms",
        explore: float = 0.0,
        keeps_items: bool = False,
        folder: str | Path | None = None,
        **options: Any,
    ) -> None:
        self.name, self.explore, self.keeps_items = name, explore, keeps_items
        self._client, self._classifiers = client, dict(classifiers)
        self._costs, self._unit_s = dict(costs or {}), seconds_per_unit(unit)
        self._check()
        self._spec, self._is_created = {"unit": unit, "keeps_items": keeps_items}, False
        try:
            client.call("PUT", make_path("recordings", name), json=self._spec, timeout=CREATE_S)
            self._is_created = True
        except Unavailable as error:  # the application starts without it; lines wait until it is there
            logger.warning("recording will be created later name=%s error=%s", name, error)
        base = default_folder() if folder is None else Path(folder)
        self._spool = Spool(base / quote(client.url, safe="") / name, self._send, **options)
        self._is_closed, self._closing = False, threading.Lock()
        self._unlabeled = set[str]()
        self._exploring: queue.Queue[RecordedItem | None] = queue.Queue(MAX_EXPLORING)
        self._explorer = threading.Thread(target=self._explore_items, name="parsimony-explore", daemon=True)
        self._explorer.start()

    def _check(self) -> None:
        check_functions(self._classifiers)
        if not 0 <= self.explore <= 1:
            raise InvalidRequest(f"explore must be from 0 to 1, got {self.explore}", code="invalid-request")
        wrong = {name: cost for name, cost in self._costs.items() if not 0 <= cost < inf}
        if wrong:
            raise InvalidRequest(f"costs must be finite numbers of at least 0, got {wrong}", code="invalid-request")
        unknown = sorted(self._costs.keys() - self._classifiers.keys())
        if unknown:
            raise InvalidRequest(f"costs must name classifiers, got {unknown}", code="invalid-request")

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Recorder":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)  # exploration needs the event loop until it has ended

    def item(self, item: Any, *, item_id: str | None = None, embedding: Any = None) -> RecordedItem:
        """Return a context in which classifiers are called for one item, and recorded together.

        Args:
            item: passed to each classifier.
            item_id: names the item in ``add_truth``; None: a new one, ``RecordedItem.id``.
            embedding: (d,), the item's embedding.
        """
        return RecordedItem(self, item, uuid.uuid4().hex if item_id is None else item_id, embedding)

    def call(self, name: str, item: Any, *, item_id: str | None = None, embedding: Any = None) -> Any:
        """Call one classifier for an item, and record it; arguments are those of ``item``. Raises what it raises."""
        with self.item(item, item_id=item_id, embedding=embedding) as calls:
            return calls.call(name)

    async def call_async(self, name: str, item: Any, *, item_id: str | None = None, embedding: Any = None) -> Any:
        """Call one classifier, which may be asynchronous, and record it; arguments and errors are those of ``call``."""
        with self.item(item, item_id=item_id, embedding=embedding) as calls:
            return await calls.call_async(name)

    def wrap(self, name: str) -> Callable[..., Any]:
        """Return a function that calls a classifier as ``call`` does: ``forest = recorder.wrap("forest")``.

        It is asynchronous if the classifier is.
        """
        if is_async(self._classifiers[name]):

            async def recorded_async(item: Any, *, item_id: str | None = None, embedding: Any = None) -> Any:
                return await self.call_async(name, item, item_id=item_id, embedding=embedding)

            return recorded_async

        def recorded(item: Any, *, item_id: str | None = None, embedding: Any = None) -> Any:
            return self.call(name, item, item_id=item_id, embedding=embedding)

        return recorded

    def classifier(self, name: str, *, cost: float | None = None) -> Callable[[Function], Callable[..., Any]]:
        """Return a decorator that adds a function as a classifier, and records its calls."""

        def decorate(function: Function) -> Callable[..., Any]:
            self._classifiers[name] = function
            if cost is not None:
                self._costs[name] = cost
            self._check()
            return wraps(function)(self.wrap(name))

        return decorate

    def add_truth(self, item_id: str, truth: Any = None, **grades: Any) -> None:
        """Record what is known of an item: its class, or by classifier ``correct`` or ``quality``.

        It may come before or after the calls, from another process, and days later.

        Raises InvalidRequest for a class that is neither a text nor an integer.
        """
        try:
            known = {} if truth is None else {"truth": make_answer(truth, None).label}
        except TypeError:
            message = f"truth must be a text or an integer, got {truth!r:.100}"
            raise InvalidRequest(message, code="invalid-request") from None
        self._append({"truth": {"id": item_id, **known, **grades}})

    def flush(self) -> None:
        """Wait until exploration has ended, and send what was recorded.

        Raises:
            Unavailable: the server is unavailable.
            InvalidRequest: the recorder is closed, or asynchronous classifiers need the event loop of this thread.
        """
        if self._is_closed:
            raise InvalidRequest("the recorder is closed", code="invalid-request")
        self._refuse_own_loop()
        self._exploring.join()
        self._spool.flush()

    def freeze(self, dataset: str, **times: Any) -> Any:
        """Send what was recorded, and make a dataset of it; ``since`` and ``until`` as for ``freeze_recording``."""
        self.flush()
        return self._client.freeze_recording(self.name, dataset, **times)

    def close(self) -> None:
        """End exploration, and send what was recorded. If the server is unavailable, the next recorder sends it.

        Raises InvalidRequest if asynchronous classifiers need the event loop of this thread.
        """
        if self._is_closed:
            return
        self._refuse_own_loop()
        with self._closing:
            self._is_closed = True
        self._exploring.put(None)
        self._explorer.join()
        self._spool.close()

    def _refuse_own_loop(self) -> None:
        """Raise InvalidRequest if items wait for an event loop that this thread would block."""
        waits = self._exploring.unfinished_tasks > 0 and any(map(is_async, self._classifiers.values()))
        if waits and find_running_loop() is not None:
            message = "exploration needs this event loop: use `async with`, or asyncio.to_thread(recorder.flush)"
            raise InvalidRequest(message, code="invalid-request")

    @property
    def waiting(self) -> int:
        """Number of items that wait for exploration."""
        return self._exploring.qsize()

    @property
    def dropped(self) -> int:
        """Number of lines that were dropped: refused by the server, or beyond ``max_bytes``."""
        return self._spool.dropped

    def _send(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not self._is_created:
            self._client.put_recording(self.name, self._spec)
            self._is_created = True
        rows = [line["row"] for line in lines if "row" in line]
        truths = [line["truth"] for line in lines if "truth" in line]
        if rows:
            self._client.add_rows(self.name, *rows)
        if truths:
            self._client.add_truths(self.name, *truths)

    def call_classifier(self, name: str, item: Any) -> CallOutcome:
        """Call a classifier; return its outcome."""
        return call_function(name, self._classifiers, item)

    async def call_classifier_async(self, name: str, item: Any) -> CallOutcome:
        """Call a classifier, and wait for it if it is asynchronous; return its outcome."""
        return await call_function_async(name, self._classifiers, item)

    def cost_of(self, outcome: CallOutcome) -> float:
        """Return the cost of a call: the stated one, else that of its answer, else its time; 0 if it failed.

        Raises InvalidRequest for an answer without a cost.
        """
        stated, answer = self._costs.get(outcome.name), outcome.answer
        if stated is not None:
            return stated
        if answer is not None and answer.cost is not None:
            return answer.cost
        if self._unit_s is None and outcome.raised is not None:
            return 0.0
        if self._unit_s is None:
            message = f"costs must have {outcome.name!r}, since its answers have none and the unit is not a time"
            raise InvalidRequest(message, code="invalid-request")
        return outcome.seconds / self._unit_s

    def check_answer(self, outcome: CallOutcome) -> CallOutcome:
        """Return the outcome of a call, failed if what it returned has no label, which is logged once by name."""
        checked = outcome.to_label()
        if checked.raised is not outcome.raised and outcome.name not in self._unlabeled:
            self._unlabeled.add(outcome.name)
            logger.error("recorded as failed classifier=%s error=%s", outcome.name, checked.error)
        return checked

    def end_item(self, ended: RecordedItem) -> None:
        """Explore an item if it was drawn, else record it."""
        if not ended.is_explored:
            self.write_row(ended)
            return
        with self._closing:
            is_queued = not self._is_closed and self._queue(ended)
        if not is_queued:  # as if there had been no exploration: whether it was full does not depend on the item
            ended.explore = 0.0
            self.write_row(ended)

    def _queue(self, ended: RecordedItem) -> bool:
        """Queue an item for exploration; return False if too many wait."""
        try:
            self._exploring.put_nowait(ended)
        except queue.Full:
            return False
        return True

    def write_row(self, ended: RecordedItem) -> None:
        """Append an item's row to the spool."""
        if ended.calls:
            row = ended.to_row(list(self._classifiers), self._spool.next_key())
            self._append({"row": row})

    def _append(self, line: Mapping[str, Any]) -> None:
        try:
            text = json.dumps(line, default=to_plain)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"what is recorded must be JSON values: {error}", code="invalid-request") from error
        self._spool.append(text)

    def _explore_items(self) -> None:
        while (explored := self._exploring.get()) is not None:
            try:
                self._explore(explored)
            except Exception as error:  # what must not end the exploration of other items
                logger.error("explored item not recorded id=%s error=%s", explored.id, error)
            finally:
                self._exploring.task_done()
        self._exploring.task_done()

    def _explore(self, explored: RecordedItem) -> None:
        called = {call["classifier"] for call in explored.calls}
        for name in sorted(self._classifiers.keys() - called):
            explored.add_outcome(self._call_in_loop(name, explored), self.explore, is_explored=True)
        self.write_row(explored)

    def _call_in_loop(self, name: str, explored: RecordedItem) -> CallOutcome:
        """Call a classifier, asynchronous ones in the event loop in which the item was recorded."""
        if not is_async(self._classifiers[name]):
            return self.call_classifier(name, explored.item)
        calling = self.call_classifier_async(name, explored.item)
        if explored.loop is None:
            return asyncio.run(calling)
        try:
            called = asyncio.run_coroutine_threadsafe(calling, explored.loop)
            while not wait([called], LOOP_POLL_S).done and explored.loop.is_running():
                pass
            return called.result(0)
        except (RuntimeError, CancelledError, FutureTimeoutError):  # the loop has ended
            calling.close()
            return CallOutcome(name, raised=RuntimeError("the event loop has ended"))
