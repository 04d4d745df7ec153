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

PATIENCE_S = 10
"""How long to wait for the scheduler, for a worker that takes the first work, and for one after all have gone."""


class _Whole(Batch):  # type: ignore[misc]
    """Work that is not cut up further: a learner with parallel parts of its own does them one after the other."""

    def __call__(self, tasks: list[tuple[Callable[..., Any], Any, Any]]) -> list[Any]:
        with joblib.parallel_config(backend="sequential"):
            return [work(*args, **named) for work, args, named in tasks]


class _Backend(DaskDistributedBackend):  # type: ignore[misc]
    """Sends the data along with the work, so that the scheduler can give both to another worker.

    joblib's own puts arrays on one of the workers: they die with it, and with them the build.
    """

    async def _to_func_args(self, func: Any) -> tuple[Batch, list[Any]]:
        return _Whole(func.items), list(func.items)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return the number of the cluster's threads, at least 2: for 1 joblib would work locally."""
        return max(2, int(super().effective_n_jobs(n_jobs)))

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Send work; ``callback`` receives its result or, after a failure, the exception."""
        sent = super().submit(func, callback)
        sent.add_done_callback(lambda done: callback(done.exception()) if done.exception() else None)
        return sent

    def start_call(self) -> None:
        """Start training, and watch that the cluster has workers."""
        super().start_call()
        self.client.loop.add_callback(self._watch)

    async def _watch(self) -> None:
        """Abort all work once the cluster has had no worker for a while: nothing else would report it."""
        seen = time.monotonic()
        while self._continue:
            await asyncio.sleep(PATIENCE_S / 10)
            if await self._has_workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE_S:
                for waiting in list(self._results.values()):
                    waiting.set_exception(TimeoutError())
                return

    async def _has_workers(self) -> bool:
        try:
            return bool((await self.client.scheduler.identity())["workers"])
        except OSError:  # the scheduler has gone, which who waits for the work hears from Dask
            return True


@contextmanager
def training_on_cluster(scheduler: str) -> Iterator[None]:
    """Make joblib train on a Dask cluster within the block.

    Raises ParsimonyError if the cluster cannot be reached or is lost, or if training kills its workers.
    """
    try:
        asyncio.run(_reach(scheduler))
        client = Client(scheduler, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ParsimonyError(f"cannot connect to Dask at {scheduler} (PARSIMONY_DASK_SCHEDULER): {error}") from error
    with client, joblib.parallel_config(backend=_Backend(client=client, wait_for_workers_timeout=PATIENCE_S)):
        try:
            yield
        except TimeoutError as error:
            raise ParsimonyError(f"Dask at {scheduler} had no worker for {PATIENCE_S} s; start one") from error
        except CancelledError as error:
            raise ParsimonyError(f"lost the connection to the Dask scheduler {scheduler} during training") from error
        except KilledWorker as error:
            raise ParsimonyError(
                "training killed every Dask worker process that ran it; they may be out of memory"
            ) from error


async def _reach(scheduler: str) -> None:
    """Connect once; raises OSError if no scheduler answers, ValueError if the address is malformed.

    A client that does not come to be takes a lock of Dask's when it is collected, at any time. If the next client holds
    it then, in the same thread, both wait for ever: so none is made before it is known that it can be.
    """
    comm = await connect(scheduler, timeout=PATIENCE_S)
    await comm.close()
