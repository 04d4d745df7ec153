"""Dependencies of routes: the store, the catalog, metrics, and validation.

Dependencies that never block are ``async``. FastAPI runs plain functions in a pool of forty threads, which slow
listings may occupy.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar, cast, get_args, get_origin

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel

from app.http.api_key_auth import identify_client, identify_payer
from app.http.graceful_shutdown import GracefulShutdown
from app.http.json_bodies import decode_json, find_batch_items, require_media_type, validate_in_chunks
from app.http.problem_details import Problem
from app.observability.metrics import Metrics
from app.processes.sandbox import Sandbox
from app.running.budget_guard import BudgetGuard
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.endpoint_caller import EndpointCaller
from app.running.item_queue import ItemQueue
from app.running.run_recorder import RunRecorder
from app.running.spend_recorder import SpendRecorder
from app.serving.catalog import Catalog, LoadedArtifact
from app.serving.classifier_names import ClassifierNames
from app.serving.rollouts import RolloutSplitter
from app.settings import Settings
from app.store.budgets import StoredBudget
from app.store.build_owners import BuildOwner
from app.store.conversations import Conversations
from app.store.demo_progress import DemoProgress
from app.store.item_tables import check_item_count
from app.store.ledgers import Ledgers
from app.store.recordings import StoredRecording
from app.store.repositories import Repositories
from app.store.table_types import JSON
from models import ArtifactRef, Fault, InvalidRequest, Value
from models.base import LEFT_OUT, NAME_PATTERN, Label
from models.budget import NO_PAYER, Payer
from models.endpoint import Endpoint
from models.errors import SolverTimeout, StoreRefused, UnknownArtifact
from models.limits import HasBudget
from solvers.base import Plan
from solvers.kind import ArtifactKind

T = TypeVar("T")
P = TypeVar("P", bound=Plan)
V = TypeVar("V", bound=Value)
Q = TypeVar("Q", bound=Value)


class StoreStatus(Protocol):
    """State of the store at the last poll."""

    workers: int
    """How many build workers there are."""
    refusal: str | None
    """Why the store takes no writes, if it takes none."""
    hazards: list[str]
    """Settings by which the store forgets what it holds."""
    confidence_reports: Mapping[tuple[ArtifactRef, str], str]
    """Problems of confidences that batches found, by artifact version and endpoint."""
    demo: DemoProgress | None
    """How far the demo is, if it was begun."""
    endpoints: Mapping[str, Endpoint]
    """Where classifiers are."""
    budgets: Sequence[StoredBudget]
    recordings: Sequence[StoredRecording]

    def refresh_budgets(self) -> None:
        """Read the budgets again."""

    def refresh_recordings(self) -> None:
        """Read the recordings again."""

    def refresh_endpoints(self) -> None:
        """Read the endpoints again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """All objects with the lifetime of the application."""

    settings: Settings
    repos: Repositories
    catalog: Catalog
    metrics: Metrics
    solving: ThreadPoolExecutor
    """For what takes over a millisecond, so that look-ups do not wait for it."""
    sandbox: Sandbox
    """For what may end the process that does it."""
    upload_sandbox: Sandbox
    """Checks and stores datasets that are uploaded, one at a time."""
    table_sandbox: Sandbox
    """Reads items and queries in Parquet."""
    ledgers: Ledgers
    seen: StoreStatus
    caller: EndpointCaller
    """Calls the endpoints of runs."""
    leaving: GracefulShutdown
    queue: ItemQueue
    """Starts the items of runs."""
    confidences: ConfidenceMonitor = field(default_factory=ConfidenceMonitor)
    """Compares confidences of endpoints with those that artifacts were built from."""
    budgets: BudgetGuard
    """Holds items to the budgets of their payers."""
    conversations: Conversations
    """What earlier turns of chats left."""
    spending: SpendRecorder
    """Records what calls have cost."""
    rollouts: RolloutSplitter
    """Divides traffic between two versions."""
    recorder: RunRecorder
    """Records runs of artifacts with a recording."""
    classifier_names: ClassifierNames
    """Names that posted rows and truths may have."""
    client: str = ""
    """Who sent the request."""
    payer: Payer = NO_PAYER
    """Who pays for the request's items."""
    log_fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request's log line."""


async def get_request_context(request: Request) -> AppContext:
    """Return the context of a request, with its log fields."""
    context: AppContext = request.state.context
    scope = request.scope
    return replace(context, client=identify_client(scope), payer=identify_payer(scope), log_fields=scope["state"])


async def require_store(request: Request) -> None:
    """Raise StoreUnavailable or StoreRefused immediately if the store is down or full."""
    context: AppContext = request.state.context
    if request.method in ("PUT", "POST"):
        declared = request.headers.get("content-length", "")
        lacking = context.repos.describe_full_disk(int(declared) if declared.isdecimal() else 0)
        if lacking is not None:
            raise StoreRefused(lacking)
    context.catalog.require_reachable_store()


async def require_json_body(request: Request) -> None:
    """Raise UnsupportedMediaType for a body without a JSON content type."""
    require_media_type(request, JSON)


def query_field(kind: type[Value], name: str, prefix: str = "") -> Any:
    """Return a query parameter with the description and bounds of a model's field."""
    field = kind.model_fields[name]
    constraints = [*annotations_in(field.annotation), *field.metadata]
    limits = {word: getattr(each, word) for each in constraints for word in _LIMITS if hasattr(each, word)}
    finite = {"allow_inf_nan": False} if float in constraints else {}
    options: dict[str, Any] = {"examples": field.examples, **limits, **finite}
    return Query(description=f"{prefix}{field.description}", **options)


def budget_field(kind: type[HasBudget], prefix: str = "") -> Any:
    """Return a query parameter for a budget: a number or a percentage."""
    field = kind.model_fields["budget"]
    return Query(description=f"{prefix}{field.description}", examples=field.examples)


_LIMITS = ("gt", "ge", "lt", "le", "min_length", "max_length")


def annotations_in(annotation: Any) -> Iterator[Any]:
    """Yield the types and constraints in an annotation."""
    yield annotation
    yield from getattr(annotation, "metadata", ())
    for inner in get_args(annotation):
        yield from annotations_in(inner)


def describe_body(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a body that a route parses itself.

    The route's ``KindRoutes`` must also list the type of the body.
    """
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def read_batch(context: AppContext, kind: type[V], body: bytes, what: str = "items", most: float = math.inf) -> V:
    """Parse a batch from JSON; raises PayloadTooLarge before validation.

    Args:
        most: maximum number of items, in addition to the limit in the settings.
    """
    content = decode_json(body)
    count = len(find_batch_items(content))
    if count <= most:
        check_batch_size(context, count, what)
    return validate_in_chunks(kind, content, len(body), most)


def find_build_owner(context: AppContext) -> BuildOwner:
    """Return the team of a request, and how many open builds it may have."""
    team = context.payer.team
    return BuildOwner(team, context.settings.find_quota(team).open_builds)


def check_batch_size(context: AppContext, count: int, what: str) -> None:
    """Raise PayloadTooLarge if a batch exceeds the maximum number of items."""
    check_item_count(count, context.settings.max_batch, what)


async def require_known_parameters(request: Request) -> None:
    """Raise InvalidRequest for unknown or duplicate query parameters."""
    parameters = request.scope["route"].dependant.query_params
    known = {parameter.alias for parameter in parameters}
    repeatable = {parameter.alias for parameter in parameters if _is_list(parameter.field_info.annotation)}
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            there = f"available: {', '.join(sorted(known))}" if known else "available: none"
            raise InvalidRequest.from_faults(Fault((name,), f"is not a query parameter; {there}"))
        if name in seen and name not in repeatable:
            raise InvalidRequest.from_faults(Fault((name,), "is repeated; send it once"))
        seen.add(name)


def _is_list(annotation: Any) -> bool:
    """Whether a parameter may be repeated.

    >>> _is_list(list[float] | None), _is_list(float | None)
    (True, False)
    """
    return get_origin(annotation) is list or any(get_origin(kind) is list for kind in get_args(annotation))


async def get_loaded_artifact(
    context: AppContext, kind: ArtifactKind[P, Q], name: str, version: int | None
) -> LoadedArtifact[P]:
    """Return the loaded artifact: the active version, or another from the store.

    Versions are loaded in a thread, so that other requests do not wait.
    """
    try:
        if version is None:
            loaded = context.catalog.get(kind.name, name)
        else:
            loaded = await asyncio.to_thread(context.catalog.get_version, kind.name, name, version)
    except UnknownArtifact as error:
        demo = context.seen.demo
        if demo is None or demo.state == "done":
            raise
        raise UnknownArtifact(f"{error}; {demo.text}") from error
    context.log_fields["artifact"] = loaded.ref
    return cast(LoadedArtifact[P], loaded)  # the catalog holds plans of this kind under its name


async def get_deciding_artifact(
    context: AppContext, kind: ArtifactKind[P, Q], name: str, version: int | None, item: str | None
) -> LoadedArtifact[P]:
    """Return the artifact that decides for an item.

    It is that of ``get_loaded_artifact``, or for a share of items the candidate of a rollout.
    """
    loaded = await get_loaded_artifact(context, kind, name, version)
    if version is not None:
        return loaded
    chosen = context.rollouts.choose(loaded, item)
    context.log_fields["artifact"] = chosen.ref
    return cast(LoadedArtifact[P], chosen)  # both are versions of one artifact


async def run_in_solver(context: AppContext, work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Run work in the bounded thread pool; raises SolverTimeout after the time limit."""
    limit = context.settings.solve_timeout_s
    answer = asyncio.get_running_loop().run_in_executor(context.solving, partial(work, *args, **options))
    try:
        return await asyncio.wait_for(answer, limit)
    except TimeoutError as error:
        message = f"no answer within {limit:g} s (PARSIMONY_SOLVE_TIMEOUT_S)"
        raise SolverTimeout(f"{message}; send fewer items, evaluate on fewer rows, or raise it") from error


def path_name(example: str) -> Any:
    """Return a path parameter for a name."""
    return Path(pattern=NAME_PATTERN, description="the name", examples=[example])


PathName = Annotated[str, path_name("digits")]
InContext = Annotated[AppContext, Depends(get_request_context)]
ExcludedParameter = Annotated[list[Label] | None, Query(max_length=500, description=LEFT_OUT, examples=[["name"]])]
Version = Annotated[
    int | None, Query(ge=1, description="the version that answers; default: the active one", examples=[1])
]


def describe_protocol_errors(form: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI descriptions of errors in another API's format."""
    return {
        status: {"model": form, "description": _WORDS[int(status)]}
        for status in error_responses(401, 403, 429, *statuses)
    }


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI descriptions of a route's errors, including the common ones."""
    with_body = (408,) if 413 in statuses else ()
    return {
        status: {"model": Problem, "description": _WORDS[status], "content": {"application/problem+json": {}}}
        for status in sorted({422, 500, *with_body, *statuses})
    }


_WORDS = {
    400: "the request is invalid, or a provider rejects it",
    401: "no key, or an unknown one",
    402: "nothing remains of a budget",
    403: "the key lacks the role, or the name is not for its team",
    404: "it does not exist",
    408: "the body came too slowly",
    409: "it conflicts, a quota of the team is full, or nothing can satisfy the deadline or budget",
    412: "what is there is not what the caller takes it for",
    413: "the body is too large",
    415: "the body is of a type that this route does not read",
    422: "a field is missing, out of range, not finite or of the wrong shape",
    429: "too many builds are waiting, or too many requests came",
    500: "a bug",
    502: "no classifier that was called gave an answer",
    503: "the store cannot be reached, or refuses",
    504: "no answer inside the time limit",
}
