"""Logged rows for the comparison of versions."""

from app.serving.catalog import LoadedArtifact
from app.store.repositories import Repositories
from models import Dataset, Fault, InvalidRequest
from solvers.base import Plan


def load_logged_rows(repos: Repositories, name: str, *versions: LoadedArtifact[Plan]) -> Dataset:
    """Return the rows of a dataset that none of the versions learned from.

    Raises:
        UnknownDataset: no dataset of this name.
        InvalidRequest: a version was built from these rows, on which it seems better than it is.
    """
    info = repos.datasets.get_info(name)
    refuse_learned_rows(info.sha256, f"dataset {name!r}", *versions)
    return repos.datasets.load(info)


def refuse_learned_rows(sha256: str, rows: str, *versions: LoadedArtifact[Plan]) -> None:
    """Raise InvalidRequest if a version was built from the dataset with a SHA-256.

    Args:
        rows: the rows, as the message calls them.
    """
    learned = sorted({one.ref.spelt for one in versions if one.record.dataset_sha256 == sha256})
    if learned:
        message = f"{rows} must be rows that the versions did not learn from, but {', '.join(learned)} did"
        raise InvalidRequest.from_faults(Fault(("on",), message))
