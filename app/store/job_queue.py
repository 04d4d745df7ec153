"""The queue that workers take builds and batches from: a single one, so that any free worker takes the oldest job."""

from typing import TYPE_CHECKING

from app.store.client import Pipeline, Store, translate_errors

if TYPE_CHECKING:
    from rq import Queue

QUEUE_NAME = "parsimony-builds"
KEPT_S = 60
"""How long the queue remembers a job that has ended; builds and batches have records of their own."""


class JobQueue:
    """Jobs by their ids, each a call of a function of ours with its own id. RQ is imported by what queues or stops
    something, for most commands do neither."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enqueue_job(self, pipe: Pipeline, function: str, job: str, timeout_s: int) -> None:
        """Queue a job within a transaction; function: its dotted name; timeout_s: what it may take."""
        self._queue().enqueue_call(
            function, (job,), job_id=job, timeout=timeout_s, result_ttl=KEPT_S, failure_ttl=KEPT_S, pipeline=pipe
        )

    def stop(self, job: str) -> None:
        """Take a job out of the queue, or stop the worker that has it; none may have it, for it waited or has ended, or
        it will see for itself that it is not wanted."""
        from rq.command import send_stop_job_command
        from rq.exceptions import InvalidJobOperation, NoSuchJobError
        from rq.serializers import JSONSerializer

        with translate_errors():
            try:
                self._queue().remove(job)
                send_stop_job_command(self._store.client, job, serializer=JSONSerializer)
            except (InvalidJobOperation, NoSuchJobError):
                pass

    def has_job(self, job: str) -> bool:
        """Whether a job waits to be taken."""
        return self._store.execute("lpos", self._queue().key, job) is not None

    def _queue(self) -> "Queue":
        from rq import Queue
        from rq.serializers import JSONSerializer

        return Queue(QUEUE_NAME, connection=self._store.client, serializer=JSONSerializer)
