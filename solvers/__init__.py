"""The five verbs of Parsimony: each subject fits a plan offline, and the plan decides at request time.

A further solver is one module in ``models``, one package here, one line in ``SOLVERS``, one module in ``app/routes``;
storing, versioning, building, progress, metrics, command line and the contract tests follow by themselves.

A solver is imported when it is first looked up, and SciPy, joblib, scikit-learn and the like by the functions that use
them: who only decides loads what decides, and nothing else.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from solvers.base import Fitted, Plan, Progress, Run, Solver, silent

_NAMES = (
    "cascade",
    "index",
    "portfolio",
    "pipeline",
    "policy",
)


class Solvers(Mapping[str, Solver[Any]]):
    """What the package of each name calls ``solver``."""

    def __getitem__(self, name: str) -> Solver[Any]:
        if name not in _NAMES:
            raise KeyError(name)
        solver: Solver[Any] = import_module(f"solvers.{name}").solver
        return solver

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


SOLVERS: Mapping[str, Solver[Any]] = Solvers()

__all__ = ["SOLVERS", "Fitted", "Plan", "Progress", "Run", "Solver", "silent"]
