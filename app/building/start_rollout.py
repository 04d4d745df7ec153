"""Start of the rollout of a version."""

from collections.abc import Collection, Mapping
from uuid import uuid4

from app.store.pointers import Id
from app.store.repositories import Repositories
from app.store.rollouts import StoredRollout, make_start_event
from models import ArtifactRecord, Fault, InvalidRequest
from models.conversation import read_embedding_rule
from models.errors import Conflict, UnknownRollout
from models.rollout import RolloutRequest
from models.word_embedding import WORDS
from solvers import KINDS
from solvers.base import Plan
from solvers.rollout_evidence import RolloutEvidence

COST_BOUND_FACTOR = 10.0
"""Default bound on the cost of an item, as a multiple of the cost of calling every classifier once."""


def start_rollout(
    repos: Repositories, artifact: Id, rules: RolloutRequest, by: str, rollout_id: str | None = None
) -> bool:
    """Start a rollout, which replaces an earlier one; return whether it is the first.

    Args:
        rollout_id: id of the rollout. If a rollout has this id already, it keeps its state. None for a new id.
    Raises:
        UnknownArtifact, UnknownVersion: the artifact or the version was not found.
        Conflict: the version is active.
        InvalidRequest: the versions have different units, only the candidate lacks an endpoint, a shadow has another
            embedder, or no bound on costs is known.
    """
    if rollout_id is not None and _has_started(repos, artifact, rollout_id):
        return False
    active, candidate = repos.artifacts.get_record(*artifact), repos.artifacts.get_record(*artifact, rules.version)
    if candidate.version == active.version:
        raise Conflict(f"version {active.version} of {active.kind} {active.name!r} is active already")
    if candidate.unit != active.unit:
        raise InvalidRequest.from_faults(
            Fault(("version",), f"must have the unit of the active version, {active.unit!r}; got {candidate.unit!r}")
        )
    plans = {one.version: repos.artifacts.load_plan(one) for one in (active, candidate)}
    _refuse_missing_endpoints(repos.endpoints.get_all(), plans, active, candidate)
    _refuse_other_embedder(rules, active, candidate)
    highest = max(_total_cost(plans[one.version], one) for one in (active, candidate))
    bound = rules.max_item_cost or COST_BOUND_FACTOR * highest
    if not bound:
        raise InvalidRequest.from_faults(Fault(("max_item_cost",), "is required: both versions cost nothing"))
    rollout = StoredRollout(
        id=rollout_id or uuid4().hex,
        active_version=active.version,
        sha256=candidate.sha256,
        rules=rules,
        mode=rules.mode,
        status="running",
        unit=active.unit,
        cost_bound=bound,
        evidence=RolloutEvidence(),
        events=(make_start_event(by, rules),),
        senders={},
    )
    return repos.rollouts.start_rollout(artifact, rollout)


def _refuse_missing_endpoints(
    registered: Collection[str], plans: Mapping[int, Plan], active: ArtifactRecord, candidate: ArtifactRecord
) -> None:
    """Raise InvalidRequest if only the candidate has classifiers without an endpoint."""
    before, after = (_list_called(plans[one.version], one).difference(registered) for one in (active, candidate))
    if after and not before:
        message = f"must have an endpoint for each classifier, as version {active.version} has; lacks"
        raise InvalidRequest.from_faults(Fault(("version",), f"{message} {', '.join(sorted(after))}"))


def _refuse_other_embedder(rules: RolloutRequest, active: ArtifactRecord, candidate: ArtifactRecord) -> None:
    """Raise InvalidRequest for a shadow that needs other embeddings than the active version."""
    before, after = (read_embedding_rule(one.params) for one in (active, candidate))
    if rules.mode == "shadow" and before != after:
        message = (
            f"must be canary: version {candidate.version} has the embedder and window of conversations {after}, "
            f"version {active.version} has {before}"
        )
        raise InvalidRequest.from_faults(Fault(("mode",), message))


def _list_called(plan: Plan, record: ArtifactRecord) -> set[str]:
    """Return the names that runs of a version call.

    These are its classifiers or features, and its embedder.
    """
    kind = KINDS[record.kind]
    embedder = record.params.get("embedder") if kind.embedding_dimensions(plan) else None
    embedders = [] if embedder in (None, WORDS) else [str(embedder)]
    return {*kind.list_called_names(plan), *embedders}


def _has_started(repos: Repositories, artifact: Id, rollout_id: str) -> bool:
    """Return whether the last rollout of an artifact has an id; it may have ended."""
    try:
        return repos.rollouts.get(artifact).id == rollout_id
    except UnknownRollout:
        return False


def _total_cost(plan: Plan, record: ArtifactRecord) -> float:
    """Return the cost of calling every classifier of a version, or of its most expensive baseline."""
    kind = KINDS[record.kind]
    calls = sum(kind.mean_costs(plan).values()) + kind.embedding_cost(plan)
    baselines = () if record.savings is None else record.savings.baselines
    return max([calls, *(one.cost for one in baselines)])
