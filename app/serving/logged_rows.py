"""Logged rows for the comparison of versions."""

from app.serving.catalog import LoadedArtifact
from app.store.repositories import Repositories
from models import Dataset, Fault, InvalidRequest
from solvers.base import Plan


def load_logged_rows(repos: Repositories, name: str, *versions: LoadedArtifact[Plan]) -> Dataset:
    """Return the rows of a dataset from which none of the versions was built.

    Raises:
        UnknownDataset: no dataset of this name.
        InvalidRequest: a version was built from these rows, so its figures on them are optimistic.
    """
    info = repos.datasets.get_info(name)
    require_unseen_rows(info.sha256, f"dataset {name!r}", *versions)
    return repos.datasets.load(info)


def require_unseen_rows(sha256: str, rows: str, *versions: LoadedArtifact[Plan]) -> None:
    """Raise InvalidRequest if a version was built from the dataset with this SHA-256.

    Args:
        rows: description of the rows, for the message.
    """
    learned = sorted({one.ref.full_name for one in versions if one.record.dataset_sha256 == sha256})
    if learned:
        message = f"{rows} must be rows that the versions did not learn from, but {', '.join(learned)} did"
        raise InvalidRequest.from_faults(Fault(("on",), message))
