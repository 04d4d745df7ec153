"""OpenAI-compatible chat API: an artifact is a model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson
from fastapi import Request, Response

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.protocol_errors import OpenAIError
from app.routes.chat_events import stream_run
from app.routes.dependencies import (
    AppContext,
    InContext,
    describe_protocol_errors,
    get_deciding_artifact,
    get_request_context,
)
from app.routes.runs import cancel_on_disconnect, get_run_dependencies
from app.running.conversations import begin_turn, format_chat_for_embedding
from app.running.embedding import needs_embedding
from app.running.endpoint_caller import EndpointCaller
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies, make_embedded_query
from app.running.protocols.message import Chat
from app.running.protocols.openai_chat_client import list_changes
from app.running.protocols.openai_replies import ChatFormat, CompletionFormat
from app.running.runs import CompletedItem, new_item_run, run_item, to_run_reply
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decision_facts, list_unavailable_names, measure_decision
from models import Fault, InvalidRequest
from models.base import LIMITS
from models.chat import INDEX, ChatCompletion, ChatExtras, ChatModel, ChatModels, ChatRequest
from models.chat_options import DECIDE, STRONGEST
from models.endpoint import ChatEndpoint
from models.errors import UnknownArtifact
from models.run import RunItem, RunLimits
from parsimony.runs.steps import CallResult
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query

MAX_RUN_S = 600.0
"""Time limit of a chat to the first piece of its answer."""
CHAT_BYTES = "PARSIMONY_MAX_CHAT_BYTES"
"""The setting with the maximum size of chats."""
router = JsonRouter(prefix="/v1", tags=["chat"])


@router.get(
    "/models", summary="List the artifacts that answer chats", responses=describe_protocol_errors(OpenAIError, 400, 503)
)
async def list_models(context: InContext) -> ChatModels:
    """List the artifacts that answer chats, in OpenAI's format."""
    return ChatModels(data=_chat_models(context))


@router.get(
    "/models/{model:path}",
    summary="Show an artifact that answers chats",
    responses=describe_protocol_errors(OpenAIError, 400, 404, 503),
)
async def show_model(model: str, context: InContext) -> ChatModel:
    """Return an artifact in OpenAI's format; ``model`` is its id, as in the list, with or without limits."""
    name = model.partition("@")[0]
    found = next((one for one in _chat_models(context) if one.id == name), None)
    if found is None:
        raise UnknownArtifact(f"model {model!r} not found")
    return found


def _chat_models(context: AppContext) -> list[ChatModel]:
    context.catalog.require_loaded()
    lives = sorted(context.catalog.plans.items(), key=lambda each: each[0])
    return [
        ChatModel(id=f"{kind}/{name}", created=int(datetime.fromisoformat(loaded.record.created_at).timestamp()))
        for (kind, name), loaded in lives
        if loaded.kind.answers_chats
    ]


@router.post(
    "/chat/completions",
    summary="Answer a chat with an artifact",
    response_model=ChatCompletion,
    responses=describe_protocol_errors(OpenAIError, 400, 402, 404, 409, 413, 415, 429, 502, 503, 504),
)
async def create_completion(request: ChatRequest, http: Request, context: InContext) -> Response:
    """Run the messages through an artifact; errors are in OpenAI's format.

    ``model`` is ``cascade/NAME``, ``portfolio/NAME``, or ``policy/NAME``, with optional limits:
    ``@budget=30%@deadline=500``. Every other field is sent to the models, and every field of the answer is returned.
    With ``"parsimony": {"route_only": true}``, no model is called. The reply then has the decision, the estimate of
    each classifier, and why the others were not chosen.
    """
    return await answer_chat(request, CompletionFormat(request), http, context)


async def answer_chat(request: ChatRequest, chat_format: ChatFormat, http: Request, context: AppContext) -> Response:
    """Answer a chat in an API's format; raises ParsimonyError before the answer begins."""
    target = parse_model_name(request.model, request.parsimony)
    item = _conversation_of(request) if context.rollouts.is_running else None
    loaded = await get_deciding_artifact(context, KINDS[target.kind], target.name, None, item)
    tools = get_run_dependencies(context)
    with measure_decision(loaded, context.metrics):
        item_run = _new_run(request, loaded, target, tools)
        if request.parsimony.route_only:
            decided = await _decided(loaded, item_run, tools)
            return _reply(chat_format.write_reply(_route_only(item_run.progress.results, decided)))

        def complete(completed_item: CompletedItem) -> dict[str, Any]:
            return _completion(request, loaded, item_run, completed_item, tools.caller)

        if request.stream:
            has_limit = request.parsimony.timeout_s is not None or target.limits.deadline is not None
            return await stream_run(
                request,
                chat_format,
                http,
                loaded,
                item_run,
                tools,
                complete,
                has_limit=has_limit,
                make_headers=make_run_headers,
            )
        done = await cancel_on_disconnect(http, run_item(loaded, item_run, tools))
    return _reply(chat_format.write_reply(complete(done)), make_run_headers(loaded, item_run))


def _conversation_of(request: ChatRequest) -> str:
    """Return what identifies a conversation: its id, or its first message.

    All turns of a conversation are answered by one version.
    """
    metadata = (request.model_extra or {}).get("metadata")
    session = metadata.get("session_id") if isinstance(metadata, Mapping) else None
    if request.parsimony.id is not None or isinstance(session, str):
        return request.parsimony.id or str(session)
    first = next((k for k, message in enumerate(request.messages) if message.role == "user"), 0)
    return orjson.dumps([one.model_dump(mode="json") for one in request.messages[: first + 1]]).decode()


def _reply(completion: Mapping[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(completion), headers=headers, media_type="application/json")


async def _answer_plainly(http: Request, request: ChatRequest, name: str) -> Response:
    return await create_completion(request, http, await get_request_context(http))


def make_fast_route(max_bytes: int) -> FastPostRoute:
    """Return the fast route of chats; images require a higher limit on the body."""
    path = "/v1/chat/completions"
    return FastPostRoute(path, ChatRequest, _answer_plainly, body_limit_bytes=max_bytes, limit_name=CHAT_BYTES)


def make_run_headers(loaded: LoadedArtifact[Plan], item_run: ItemRun) -> dict[str, str]:
    """Return headers with the artifact, the decision, and the calls so far.

    While an answer is streamed, the calls are incomplete.
    """
    called = [one.name for one in item_run.progress.results if one.name not in item_run.progress.started_calls]
    return {
        "X-Parsimony-Artifact": loaded.ref.full_name,
        "X-Parsimony-Decision": item_run.progress.facts["decision"],
        "X-Parsimony-Called": json.dumps([*dict.fromkeys(called), *item_run.progress.started_calls]),
        **item_run.progress.headers,
    }


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """The parts of a model's name: artifact, limits, and the classifier that answers turns with tools."""

    kind: str
    name: str
    limits: RunLimits
    tools: str | None


def _new_run(
    request: ChatRequest, loaded: LoadedArtifact[Plan], target: ChatTarget, dependencies: RunDependencies
) -> ItemRun:
    """Return the run of a chat, with the text to embed if the artifact needs it."""
    messages = [_without_nulls(message.model_dump(exclude_unset=True)) for message in request.messages]
    options = {name: value for name, value in (request.model_extra or {}).items() if name != "stream_options"}
    if request.n != 1:
        options["n"] = request.n
    chat: Any = Chat(messages, options, request.parsimony.escalate_refusals)
    classifier = _tool_classifier(loaded, chat, target.tools)
    text = format_chat_for_embedding(loaded, chat) if needs_embedding(loaded) and classifier is None else None
    item = RunItem.model_construct(item=chat, id=request.parsimony.id, text=text if isinstance(text, str) else None)
    return replace(new_item_run(loaded, item, target.limits, dependencies), classifier=classifier)


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """Remove null fields, which clients send for absent ones; the content may be null."""
    return {name: value for name, value in message.items() if value is not None or name == "content"}


def _tool_classifier(loaded: LoadedArtifact[Plan], chat: Chat, requested: str | None) -> str | None:
    """Return the classifier for turns with tools.

    The rule is that of the request, else that of the artifact. Return None to use the decision.
    """
    names = loaded.kind.list_answering_names(loaded.plan)
    if requested is not None and requested not in (DECIDE, STRONGEST, *names):
        known = ", ".join((DECIDE, STRONGEST, *names))
        raise InvalidRequest.from_faults(Fault(("parsimony", "tools"), f"must be one of {known}, got {requested!r}"))
    rule = requested or str(loaded.record.params.get("tools", DECIDE))
    if rule == DECIDE or not _has_tools(chat):
        return None
    costs = loaded.kind.mean_costs(loaded.plan)
    return max(names, key=lambda name: costs.get(name, 0.0)) if rule == STRONGEST else rule


def _has_tools(chat: Chat) -> bool:
    """Return whether a turn has tools or tool results."""
    offers = "tools" in chat.options or "functions" in chat.options
    return offers or any(one.get("role") in ("tool", "function") or "tool_calls" in one for one in chat.messages)


def parse_model_name(model: str, extras: ChatExtras) -> ChatTarget:
    """Read a model's name; raises InvalidRequest."""
    artifact, *pairs = model.split("@")
    kind, _, name = artifact.partition("/")
    chatting = [each for each, one in KINDS.items() if one.answers_chats]
    if kind not in chatting or not name:
        fault = f"is {model!r}, must be one of {', '.join(f'{each}/NAME' for each in chatting)}"
        raise InvalidRequest.from_faults(Fault(("model",), fault))
    given: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in (*LIMITS, "tools") or key in given or not text:
            raise InvalidRequest.from_faults(
                Fault(("model",), f"limit @{pair} must be one of {', '.join(LIMITS)}, or tools, once, with a value")
            )
        given[key] = text if key == "tools" else _value(text)
    named_tools = given.pop("tools", None)
    tools = extras.tools or named_tools
    try:
        limits = make_query(RunLimits, timeout_s=extras.timeout_s or MAX_RUN_S, **given)
    except InvalidRequest as error:
        raise error.with_prefix("model", but="") from error
    return ChatTarget(kind, name, limits, tools)


def _value(text: str) -> float | str:
    """Parse a limit, a number or a percentage; raises InvalidRequest for other texts."""
    try:
        return float(text)
    except ValueError:
        return text


async def _decided(loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies) -> dict[str, Any]:
    """Return the calls that a run would make, and the names it would leave out.

    Names are left out if their circuit breaker is open. If a text must be embedded, the embedder is called.
    """
    item_run, _ = await begin_turn(loaded, item_run, dependencies)
    query = await make_embedded_query(loaded, item_run, dependencies)
    unavailable = list_unavailable_names(loaded, item_run.excluded)
    left_out = tuple(dict.fromkeys((*unavailable, *item_run.latched)))
    query, decision = loaded.kind.decide(loaded.plan, query, left_out)
    return {
        **decision.model_dump(mode="json"),
        **loaded.kind.explain(loaded.plan, query, decision, left_out),
        "artifact": loaded.ref.model_dump(mode="json"),
        **decision_facts(loaded, query, decision),
        "open_circuits": unavailable,
    }


def _completion(
    request: ChatRequest,
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    completed_item: CompletedItem,
    caller: EndpointCaller,
) -> dict[str, Any]:
    """Return the reply to a chat: all fields of the answering call, and the run."""
    reply = _answering_reply(completed_item)
    keeps_logprobs = bool((request.model_extra or {}).get("logprobs"))
    choices = [one if keeps_logprobs else {**one, "logprobs": None} for one in reply["choices"]]
    run = to_run_reply(loaded, completed_item).model_dump(mode="json") | {"changed": _changed_fields(item_run, caller)}
    return {**reply, "choices": choices, "parsimony": run}


def _answering_reply(completed_item: CompletedItem) -> Mapping[str, Any]:
    """Return the reply of the answering language model, else one with the run's answer."""
    answer, results = completed_item.completed.answer, completed_item.completed.results
    answering = (one for one in results if one.name == answer.answered_by and one.error is None)
    reply = next((one.reply for one in answering if one.reply is not None), None)
    if reply is not None:
        return reply if isinstance(reply.get("usage"), dict) else {**reply, "usage": _count_tokens(results)}
    text = answer.text if answer.text is not None else answer.label
    choice = {INDEX: 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": _count_tokens(results)}


def _changed_fields(item_run: ItemRun, caller: EndpointCaller) -> list[dict[str, Any]]:
    """Return the request fields that a called endpoint received changed or not at all."""
    chat: Any = item_run.item.item
    called = {name: caller.get_endpoint(name) for name in item_run.progress.started_calls}
    chats = [(name, one) for name, one in called.items() if isinstance(one, ChatEndpoint)]
    return [each.model_dump() for name, endpoint in chats for each in list_changes(name, endpoint, chat)]


def _count_tokens(results: Sequence[CallResult]) -> dict[str, int]:
    """Return the sums of sent and received tokens of calls."""
    sent, came = sum(one.tokens[0] for one in results), sum(one.tokens[1] for one in results)
    return {"prompt_tokens": sent, "completion_tokens": came, "total_tokens": sent + came}


def _route_only(results: Sequence[CallResult], decided: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [], "usage": _count_tokens(results), "parsimony": decided}
