"""Entry point of batch jobs; imports are deferred to the batch's own process."""


def run_batch(job_id: str) -> None:
    """Run a queued batch to its end; continue where an earlier attempt stopped."""
    from app.running import batch_worker

    batch_worker.run_batch(job_id)
