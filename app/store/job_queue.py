"""Job queues of builds and batches: workers take the oldest job, and background jobs only if no other waits."""

from typing import TYPE_CHECKING

from app.store.client import Pipeline, Store, translate_errors

if TYPE_CHECKING:
    from rq import Queue

QUEUE_NAME, BACKGROUND_QUEUE_NAME = "parsimony-builds", "parsimony-background"
QUEUE_NAMES = (QUEUE_NAME, BACKGROUND_QUEUE_NAME)
"""By priority."""
ENDED_JOB_TTL_S = 60
"""How long the queue remembers a job that has ended; builds and batches have records of their own."""


class JobQueue:
    """Queue of jobs (RQ); each job calls a function with the job's id.

    RQ is imported only when a job is queued or stopped, because most commands do neither.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def enqueue_job(
        self, pipe: Pipeline, function: str, job: str, timeout_s: int, *, in_background: bool = False
    ) -> None:
        """Queue a job within a transaction.

        Args:
            pipe: the transaction.
            function: dotted name of the function.
            job: job id, the function's argument.
            timeout_s: maximum duration in seconds.
            in_background: whether all other jobs have priority.
        """
        self._queue(QUEUE_NAMES[in_background]).enqueue_call(
            function,
            (job,),
            job_id=job,
            timeout=timeout_s,
            result_ttl=ENDED_JOB_TTL_S,
            failure_ttl=ENDED_JOB_TTL_S,
            pipeline=pipe,
        )

    def stop(self, job: str) -> None:
        """Remove a job from the queue, or stop the worker that runs it.

        No effect if the job has ended.
        """
        from rq.command import send_stop_job_command
        from rq.exceptions import InvalidJobOperation, NoSuchJobError
        from rq.serializers import JSONSerializer

        with translate_errors():
            try:
                for name in QUEUE_NAMES:
                    self._queue(name).remove(job)
                send_stop_job_command(self._store.client, job, serializer=JSONSerializer)
            except (InvalidJobOperation, NoSuchJobError):
                pass

    def has_job(self, job: str) -> bool:
        """Return whether a job is waiting."""
        return job in self.list_waiting()

    def list_waiting(self) -> list[str]:
        """Return the ids of waiting jobs, in the order in which workers take them."""
        every = [self._store.execute("lrange", self._queue(name).key, 0, -1) for name in QUEUE_NAMES]
        return [job.decode() for waiting in every for job in waiting]

    def _queue(self, name: str) -> "Queue":
        from rq import Queue
        from rq.serializers import JSONSerializer

        return Queue(name, connection=self._store.client, serializer=JSONSerializer)
