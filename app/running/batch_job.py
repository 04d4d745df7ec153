"""What a worker calls to run a batch: all that this needs is imported then, in the batch's own process."""


def run_batch(job_id: str) -> None:
    """Run a queued batch to its end, or from where an earlier attempt has stopped."""
    from app.running import batch_worker

    batch_worker.run_batch(job_id)
