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
    learned = sorted({one.ref.spelt for one in versions if one.record.dataset_sha256 == info.sha256})
    if learned:
        message = f"dataset {name!r} must be one that the versions did not learn from, but {', '.join(learned)} did"
        raise InvalidRequest.from_faults(Fault(("on",), message))
    return repos.datasets.load(info)
