"""The five verbs of Parsimony: each subject fits a plan offline, and the plan decides at request time.

A further solver is one module in ``models``, one package here, one line in ``SOLVERS``, one module in ``app/routes``;
storing, versioning, building, progress, metrics, command line and the contract tests follow by themselves.

SciPy, joblib, scikit-learn and the like are imported by the functions that use them: who only decides loads none.
"""

from typing import Any

from solvers import cascade, index, pipeline, policy, portfolio
from solvers.base import Fitted, Plan, Progress, Run, Solver, silent

SOLVERS: dict[str, Solver[Any]] = {
    "cascade": cascade.solver,
    "index": index.solver,
    "portfolio": portfolio.solver,
    "pipeline": pipeline.solver,
    "policy": policy.solver,
}

__all__ = ["SOLVERS", "Fitted", "Plan", "Progress", "Run", "Solver", "silent"]
