"""Training on a Dask cluster with joblib's backend, robust to lost Dask workers."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import joblib
from distributed import Client, KilledWorker  # an optional dependency: only who has a cluster imports this module
from distributed.comm.core import connect
from joblib._dask import Batch, DaskDistributedBackend

from models.errors import ParsimonyError

CONNECT_TIMEOUT_S = 10
"""How long to wait for the scheduler."""
WORKER_WAIT_S = 120
"""How long to wait for the first worker, and for one after all have gone; restarts take 2 s, or 20 s if it is busy."""


class _Whole(Batch):  # type: ignore[misc]
    """Work that is not divided further: nested parallel parts run sequentially."""

    def __call__(self, tasks: list[tuple[Callable[..., Any], Any, Any]]) -> list[Any]:
        with joblib.parallel_config(backend="sequential"):
            return [work(*args, **named) for work, args, named in tasks]


class _Backend(DaskDistributedBackend):  # type: ignore[misc]
    """Sends the data with the work, so that the scheduler can move both to another worker.

    joblib's own backend puts arrays on one of the workers. If this worker dies, the arrays are lost and the build
    fails.
    """

    async def _to_func_args(self, func: Any) -> tuple[Batch, list[Any]]:
        return _Whole(func.items), list(func.items)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return the number of the cluster's threads, at least 2; with 1, joblib works locally."""
        return max(2, int(super().effective_n_jobs(n_jobs)))

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Send work; ``callback`` receives its result or, after a failure, the exception."""
        sent = super().submit(func, callback)
        sent.add_done_callback(lambda done: callback(done.exception()) if done.exception() else None)
        return sent

    def start_call(self) -> None:
        """Start training, and watch whether the cluster has workers."""
        super().start_call()
        self.client.loop.add_callback(self._watch)

    async def _watch(self) -> None:
        """Abort all work if the cluster has had no worker for ``WORKER_WAIT_S``.

        Nothing else would report this.
        """
        seen = time.monotonic()
        while self._continue:
            await asyncio.sleep(WORKER_WAIT_S / 10)
            if await self._has_workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > WORKER_WAIT_S:
                for waiting in list(self._results.values()):
                    waiting.set_exception(TimeoutError())
                return

    async def _has_workers(self) -> bool:
        try:
            return bool((await self.client.scheduler.identity())["workers"])
        except OSError:  # the scheduler has gone, which who waits for the work hears from Dask
            return True


@contextmanager
def dask_backend(scheduler: str) -> Iterator[None]:
    """Let joblib train on a Dask cluster within the block.

    Raises ParsimonyError if the cluster cannot be reached or is lost, or if training kills its workers.
    """
    try:
        asyncio.run(_reach(scheduler))
        client = Client(scheduler, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ParsimonyError(f"cannot connect to Dask at {scheduler} (PARSIMONY_DASK_SCHEDULER): {error}") from error
    with client, joblib.parallel_config(backend=_Backend(client=client, wait_for_workers_timeout=WORKER_WAIT_S)):
        try:
            yield
        except TimeoutError as error:
            raise ParsimonyError(f"Dask at {scheduler} had no worker for {WORKER_WAIT_S} s; start one") from error
        except CancelledError as error:
            raise ParsimonyError(f"lost the connection to the Dask scheduler {scheduler} during training") from error
        except KilledWorker as error:
            raise ParsimonyError(
                "training killed every Dask worker process that ran it; they may be out of memory"
            ) from error


async def _reach(scheduler: str) -> None:
    """Connect once; raises OSError if no scheduler answers, ValueError if the address is malformed.

    If the creation of a Dask client fails, its garbage collection takes a Dask lock at any later time. If the next
    client holds this lock in the same thread, both wait forever. So the connection is tested before a client is
    created.
    """
    comm = await connect(scheduler, timeout=CONNECT_TIMEOUT_S)
    await comm.close()
