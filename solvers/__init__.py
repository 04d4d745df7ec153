"""The five artifact kinds of Parsimony: each fits a plan offline, and the plan decides at request time.

``kind.py`` has the interface, ``ArtifactKind``: start reading there. A sixth kind is one module in ``models``, one
package here, and one line in ``_NAMES``; storing, versions, builds, progress, decisions, runs, chat, batches, metrics,
command line, and contract tests follow by themselves.

A kind is imported when it is first looked up, and SciPy, joblib, scikit-learn and the like by the functions that use
them: what only decides loads what decides, and nothing else.
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
    """The ``kind`` of the package of each name."""

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
