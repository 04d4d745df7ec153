"""Checks uploaded tables of any size, in a sandbox with limited memory, and stores samples of their rows."""

from contextlib import closing
from functools import partial

from app.building.build_progress import make_progress_reporter
from app.processes.clock import current_timestamp
from app.processes.sandbox import Sandbox
from app.settings import Settings
from app.sources.read_upload import read_uploaded_table
from app.store.disk_space import require_disk_space
from app.store.repositories import Repositories, open_repositories
from app.store.resumable_uploads import ResumableUploads
from app.store.uploads import Spec, limit_memory, run_in_reader
from models import Build, Dataset
from models.dataset_source import DatasetSource, SourceFacts


def store_uploaded_table(repos: Repositories, build: Build, spec: Spec, source: DatasetSource) -> None:
    """Check an upload in a sandbox, store a sample of its rows as a dataset, and delete the upload.

    After a failure, the upload remains, so that a corrected spec can be sent.

    Raises:
        InvalidRequest: the table is invalid, or reading it ended the sandbox.
    """
    imports = ("app.building.upload_check",)
    uploads = ResumableUploads(repos.settings.find_upload_dir(), repos.settings.max_upload_bytes)
    try:
        with closing(Sandbox(repos.settings.build_timeout_s, imports)) as sandbox:
            run_in_reader(sandbox, partial(_check_upload, build, spec, source))
    finally:
        uploads.clear_scratch(str(source.upload))  # if the sandbox ended early
    repos.builds.end_build(build.id, "succeeded", None)


def put_sampled_dataset(repos: Repositories, build: Build, dataset: Dataset, facts: SourceFacts) -> None:
    """Store the sample of a source as a dataset; raises Cancelled if its build is not running."""

    def refuse_cancelled(replaced: str | None) -> None:
        repos.builds.require_running(repos.builds.get(build.id))

    repos.datasets.put(build.name, dataset, created_at=current_timestamp(), allow=refuse_cancelled, source=facts)


def _check_upload(build: Build, spec: Spec, source: DatasetSource) -> None:
    """Check an upload, store its dataset, and delete it; runs in the sandbox."""
    settings = Settings()
    most = settings.max_upload_bytes
    uploads = ResumableUploads(settings.find_upload_dir(), most)
    with (
        limit_memory(settings.max_body_bytes),
        open_repositories(settings, client_name="parsimony-upload") as repos,
        uploads.hold_upload(str(source.upload)) as held,
    ):
        progress = make_progress_reporter(repos, build.id)
        with require_disk_space(held.scratch):
            dataset, facts = read_uploaded_table(
                held.path, source, spec, progress, scratch=held.scratch, max_bytes=most
            )
        put_sampled_dataset(repos, build, dataset, facts)
        held.delete()
