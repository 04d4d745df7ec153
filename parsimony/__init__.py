"""Client of Parsimony: decisions, runs with your own functions, and feedback.

- ``Parsimony``, ``AsyncParsimony``: clients of a server
- ``Decision``: a decision; clients reuse it while the server is unavailable
- ``Answer``, ``RunResult``: the answer of a function, and of a run
- ``Recorder``: calls of your own classifiers, from which a dataset is made
- ``load``: an exported artifact that decides in this process
- ``ParsimonyError`` and its subclasses: errors, with the server's code
"""

from parsimony.client import AsyncParsimony, Parsimony
from parsimony.decisions import Decision
from parsimony.errors import (
    Conflict,
    Infeasible,
    InvalidRequest,
    NotFound,
    NotPermitted,
    ParsimonyError,
    RunFailed,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from parsimony.feedback import FeedbackSender
from parsimony.function_run import RunResult
from parsimony.functions import Answer
from parsimony.local import LocalArtifact, load
from parsimony.recorder import Recorder

__all__ = [
    "Answer",
    "AsyncParsimony",
    "Conflict",
    "Decision",
    "FeedbackSender",
    "Infeasible",
    "InvalidRequest",
    "LocalArtifact",
    "NotFound",
    "NotPermitted",
    "Parsimony",
    "ParsimonyError",
    "Recorder",
    "RunFailed",
    "RunResult",
    "ServerError",
    "TooManyRequests",
    "Unavailable",
    "load",
]
