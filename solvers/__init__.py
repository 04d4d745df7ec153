"""The five artifact kinds of Parsimony: each fits a plan offline, and the plan decides at request time.

Read ``kind.py`` first: it has the interface, ``ArtifactKind``. A sixth kind is one module in ``models``, one
package here, and one line in ``_NAMES``; storing, versions, builds, progress, decisions, runs, chat, batches, metrics,
command line, and contract tests need no change.

Imports are lazy: a kind is imported at its first look-up, and SciPy, joblib, and scikit-learn by the functions that use
them, so a process that only decides does not load these libraries.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from solvers.base import BuildContext, Fitted, Plan, Progress, no_progress
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

__all__ = ["KINDS", "AnyKind", "ArtifactKind", "BuildContext", "Fitted", "Plan", "Progress", "no_progress"]
