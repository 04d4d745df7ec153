"""Exported artifacts that decide in this process, without a server."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parsimony.decisions import Decision
from parsimony.errors import Infeasible, InvalidRequest, ParsimonyError


class LocalArtifact:
    """An artifact in this process; decisions take microseconds.

    Args:
        plan: the server package's plan.

    Attributes:
        kind: artifact kind.
        name: name of the artifact.
        unit: unit of its costs.
    """

    def __init__(self, plan: Any) -> None:
        self.kind: str = plan.kind
        self.name: str = plan.name
        self.unit: str = plan.unit
        self._plan = plan

    def decide(self, **query: Any) -> Decision:
        """Return the decision for limits such as ``budget=5``, and for known values of the item.

        Raises InvalidRequest or Infeasible.
        """
        from models.errors import Infeasible as NoDecision
        from models.errors import ParsimonyError as Refusal

        try:
            return Decision(json.loads(self._plan.decide(query)))
        except NoDecision as error:
            raise Infeasible(str(error), code="infeasible") from error
        except Refusal as error:
            raise InvalidRequest(str(error), code="invalid-request") from error


def load(path: str | Path) -> LocalArtifact:
    """Load an exported artifact (``parsimony artifact export``). Nothing in it can run code.

    Raises:
        ParsimonyError: ``parsimony-server`` is not installed, or a package of the caller hides one of its modules.
        InvalidRequest: the file is damaged, or is not an artifact.
    """
    try:
        from app.serving.local import LocalPlan
        from models.errors import CorruptArtifact
    except ImportError as error:
        raise ParsimonyError(_explain_import(error), code="server-missing") from error
    try:
        return LocalArtifact(LocalPlan(Path(path).read_bytes()))
    except CorruptArtifact as error:
        raise InvalidRequest(f"{path}: {error}", code="corrupt-artifact") from error


def _explain_import(error: ImportError) -> str:
    """Return why the server's modules cannot be imported: not installed, or hidden by the caller's."""
    for name in ("app", "solvers", "models"):
        found = find_spec(name)
        if found is not None and not _is_ours(found.origin):
            place = found.origin or ", ".join(found.submodule_search_locations or ())
            return f"load needs the package {name!r} of parsimony-server, but {place} hides it; rename that package"
    return f"load requires parsimony-server: pip install parsimony-server ({error})"


def _is_ours(origin: str | None) -> bool:
    """Return whether a package's ``__init__`` is that of the server."""
    return origin is not None and (Path(origin).parent / "py.typed").exists()
