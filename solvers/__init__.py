"""The five artifact kinds of Parsimony: each fits a plan offline, and the plan decides at request time.

Read ``kind.py`` first: it defines the interface ``ArtifactKind``. To add a kind, add one module in ``models``, one
package here, and one line in ``_NAMES``. Storage, versions, builds, decisions, runs, chat, batches, metrics, the
command line, and contract tests need no change.

Imports are lazy: a kind is imported at its first look-up. SciPy, joblib, and scikit-learn are imported by the functions
that use them. So a process that only decides does not load these libraries.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from solvers.base import BuildContext, FitResult, Plan, Progress, no_progress
from solvers.kind import AnyKind, ArtifactKind

_NAMES = (
    "cascade",
    "index",
    "portfolio",
    "pipeline",
    "policy",
)


class Kinds(Mapping[str, AnyKind]):
    """Lazy registry of artifact kinds by name."""

    def __getitem__(self, name: str) -> AnyKind:
        if name not in _NAMES:
            raise KeyError(name)
        kind: AnyKind = import_module(f"solvers.{name}").kind
        return kind

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


KINDS: Mapping[str, AnyKind] = Kinds()

__all__ = ["KINDS", "AnyKind", "ArtifactKind", "BuildContext", "FitResult", "Plan", "Progress", "no_progress"]
