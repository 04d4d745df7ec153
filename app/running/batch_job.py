"""Entry point of batch jobs; the batch's process imports the other modules."""


def run_batch(job_id: str) -> None:
    """Run a queued batch to its end; continue where an earlier attempt stopped."""
    from app.running import batch_worker

    batch_worker.run_batch(job_id)
