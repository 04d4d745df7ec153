"""OpenAI's chat API: an artifact is a model, so that an application changes its base URL and its model name only."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from app.http.fast_router import FastPost
from app.http.json_bodies import JsonRouter
from app.http.problems import OpenAIError
from app.routes.dependencies import InContext, context_of, foreign_error_responses, plan_of
from app.routes.runs import tools_of, unless_gone
from app.running.embedding import takes_embeddings
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies, embedding_of, refuse_infeasible_item, run_query
from app.running.protocols.openai_chat import Chat, last_text
from app.running.runs import CompletedItem, new_item_run, run_item, to_run_reply
from app.serving.answers import count_decision, decision_facts, unavailable_names
from app.serving.catalog import LoadedArtifact
from models import Fault, InvalidRequest
from models.base import LIMITS
from models.chat import ChatAnswer, ChatChoice, ChatCompletion, ChatModel, ChatModels, ChatRequest, ChatUsage
from models.errors import ParsimonyError
from models.run import RunItem, RunLimits
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query
from solvers.running import CallResult

_PASSED = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "max_completion_tokens",
        "max_tokens",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "top_p",
        "user",
    }
)
"""What of a request is passed on to the models that are called."""
_IGNORED = frozenset({"stream_options", "store", "metadata", "service_tier", "logprobs", "top_logprobs"})
"""Further fields that are accepted; they affect the stream only."""


router = JsonRouter(prefix="/v1", tags=["chat"])


@router.get(
    "/models", summary="The artifacts that can answer chats", responses=foreign_error_responses(OpenAIError, 503)
)
async def list_models(context: InContext) -> ChatModels:
    """List them as OpenAI's API lists models."""
    context.catalog.refuse_unless_loaded()
    lives = sorted(context.catalog.plans.items(), key=lambda each: each[0])
    data = [
        ChatModel(id=f"{kind}/{name}", created=int(datetime.fromisoformat(loaded.record.created_at).timestamp()))
        for (kind, name), loaded in lives
        if loaded.kind.answers_chats
    ]
    return ChatModels(data=data)


@router.post(
    "/chat/completions",
    summary="Answer a chat with an artifact",
    response_model=ChatCompletion,
    responses=foreign_error_responses(OpenAIError, 404, 409, 413, 415, 502, 503, 504),
)
async def create_completion(request: ChatRequest, http: Request, context: InContext) -> Response:
    """Run the messages through an artifact; errors are in OpenAI's form.

    ``model`` is ``cascade/NAME``, ``portfolio/NAME`` or ``policy/NAME``, with limits behind it:
    ``@budget=30%@deadline=500``. With ``"parsimony": {"route_only": true}`` nothing is called, and the reply reports
    what was decided, what each classifier was estimated at, and why the others were not taken.
    """
    kind, name, limits = _model(request)
    loaded = await plan_of(context, KINDS[kind], name, None)
    tools = tools_of(context)
    with count_decision(loaded, context.metrics):
        asked = new_item_run(loaded, _item(request, loaded), limits, tools)
        if request.parsimony.route_only:
            decided = await _decided(loaded, asked, tools)
            return _reply(_completion(request, None, _tokens(asked.progress.results), decided))
        if request.stream:
            return await _streaming(request, http, loaded, asked, tools)
        done = await unless_gone(http, run_item(loaded, asked, tools))
    return _reply(_answered(request, loaded, done), _headers(loaded, asked))


def _reply(completion: ChatCompletion, headers: dict[str, str] | None = None) -> Response:
    return Response(completion.model_dump_json(), headers=headers, media_type="application/json")


async def _plain(http: Request, request: ChatRequest, name: str) -> Response:
    return await create_completion(request, http, await context_of(http))


plain = FastPost("/v1/chat/completions", ChatRequest, _plain)


async def _streaming(
    request: ChatRequest, http: Request, loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies
) -> Response:
    """Answer by server-sent events, the last call's pieces as they come; refused as ever before there is any."""
    pieces: asyncio.Queue[str] = asyncio.Queue()
    running = asyncio.ensure_future(run_item(loaded, asked, tools, pieces.put_nowait))
    first = asyncio.ensure_future(pieces.get())
    either: set[asyncio.Future[Any]] = {running, first}
    try:
        await unless_gone(http, asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED))
        if not first.done():
            await running  # what it raises is still told by the status
        headers = _headers(loaded, asked)
    except BaseException:
        running.cancel()
        first.cancel()
        raise
    text = first.result() if first.done() else ""
    first.cancel()
    events = _events(request, loaded, running, pieces, text)
    ending = BackgroundTask(running.cancel)  # also where the caller leaves before the first event
    return StreamingResponse(events, media_type="text/event-stream", headers=headers, background=ending)


def _headers(loaded: LoadedArtifact[Plan], asked: ItemRun) -> dict[str, str]:
    """Return the artifact, the decision, and the calls so far: complete, unless pieces of the last answer follow."""
    embedders = [one.name for one in asked.progress.results if one.name not in asked.progress.started_calls]
    return {
        "X-Parsimony-Artifact": loaded.ref.spelt,
        "X-Parsimony-Decision": asked.progress.facts["decision"],
        "X-Parsimony-Called": json.dumps([*embedders, *asked.progress.started_calls]),
    }


def _item(request: ChatRequest, loaded: LoadedArtifact[Plan]) -> RunItem:
    """Make the item of a chat, with the text to embed where the artifact knows embeddings; raises InvalidRequest for
    what is not passed on."""
    more = request.model_extra or {}
    unknown = sorted(more.keys() - _PASSED - _IGNORED)
    if unknown:
        fault = f"is not passed on; {', '.join(sorted(_PASSED))} are"
        raise InvalidRequest.from_faults(*(Fault((name,), fault) for name in unknown))
    messages = [message.model_dump(exclude_unset=True) for message in request.messages]
    item: Any = Chat(messages, {name: value for name, value in more.items() if name in _PASSED})
    text = last_text(item) if takes_embeddings(loaded) else None
    return RunItem.model_construct(item=item, id=request.parsimony.id, text=text if isinstance(text, str) else None)


def _model(request: ChatRequest) -> tuple[str, str, RunLimits]:
    """Read kind, name and limits from a model's name; raises InvalidRequest."""
    artifact, *message = request.model.split("@")
    kind, _, name = artifact.partition("/")
    chatting = [each for each, one in KINDS.items() if one.answers_chats]
    if kind not in chatting or not name:
        fault = f"is {request.model!r}, must be one of {', '.join(f'{each}/NAME' for each in chatting)}"
        raise InvalidRequest.from_faults(Fault(("model",), fault))
    given: dict[str, Any] = {}
    for pair in message:
        key, _, text = pair.partition("=")
        if key not in LIMITS or key in given or not text:
            raise InvalidRequest.from_faults(
                Fault(("model",), f"has @{pair}, must be one value for each of {', '.join(LIMITS)}")
            )
        given[key] = _value(text)
    try:
        limits = make_query(RunLimits, timeout_s=request.parsimony.timeout_s, **given)
    except InvalidRequest as error:
        raise error.with_prefix("model", but="") from error
    return kind, name, limits


def _value(text: str) -> float | str:
    """Read a limit: a number, or a percentage, as which anything else is refused."""
    try:
        return float(text)
    except ValueError:
        return text


async def _decided(loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies) -> dict[str, Any]:
    """Return what would be called, and what a run would leave out because its circuit breaker is open; the embedder is
    called where one is needed."""
    refuse_infeasible_item(loaded, asked)
    embedding = await embedding_of(loaded, asked, tools) if takes_embeddings(loaded) else None
    unavailable = unavailable_names(loaded, asked.excluded)
    query, decision = loaded.kind.decide(loaded.plan, run_query(loaded, asked, embedding), unavailable)
    return {
        **decision.model_dump(mode="json"),
        **loaded.kind.explain(loaded.plan, query, decision, unavailable),
        "artifact": loaded.ref.model_dump(mode="json"),
        **decision_facts(loaded, query, decision),
        "open_circuits": unavailable,
    }


def _tokens(heard: Sequence[CallResult]) -> tuple[int, int]:
    """Add up what calls sent and what came."""
    return sum(one.tokens[0] for one in heard), sum(one.tokens[1] for one in heard)


def _answered(request: ChatRequest, loaded: LoadedArtifact[Plan], done: CompletedItem) -> ChatCompletion:
    answer = done.completed.answer
    text = answer.text if answer.text is not None else answer.label
    return _completion(
        request, text, _tokens(done.completed.results), to_run_reply(loaded, done).model_dump(mode="json")
    )


def _completion(
    request: ChatRequest, text: str | None, tokens: tuple[int, int], decided: dict[str, Any]
) -> ChatCompletion:
    return ChatCompletion(
        id=f"chatcmpl-{time.time_ns():x}",
        created=int(time.time()),
        model=request.model,
        choices=[] if request.parsimony.route_only else [ChatChoice(message=ChatAnswer(content=text))],
        usage=ChatUsage(prompt_tokens=tokens[0], completion_tokens=tokens[1], total_tokens=sum(tokens)),
        parsimony=decided,
    )


async def _events(
    request: ChatRequest,
    loaded: LoadedArtifact[Plan],
    running: "asyncio.Future[CompletedItem]",
    pieces: "asyncio.Queue[str]",
    first: str,
) -> AsyncIterator[str]:
    """Write an answer as server-sent events: its text as it comes, its end, and, if requested, the usage."""
    begun = {"id": f"chatcmpl-{time.time_ns():x}", "object": "chat.completion.chunk", "created": int(time.time())}
    begun |= {"model": request.model}

    def chunk(delta: dict[str, str], reason: str | None = None) -> str:
        return _event({**begun, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    following: asyncio.Future[str] | None = None
    try:
        if first:
            yield chunk({"role": "assistant", "content": first})
        while first and not (running.done() and pieces.empty()):
            following = asyncio.ensure_future(pieces.get())
            either: set[asyncio.Future[Any]] = {running, following}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                yield chunk({"content": following.result()})
            else:
                following.cancel()
        try:
            completion = _answered(request, loaded, await running)
        except ParsimonyError as error:
            yield _event({"error": {"message": str(error), "type": "endpoint-failed", "code": "endpoint-failed"}})
            return
        if not first:
            yield chunk({"role": "assistant", "content": completion.choices[0].message.content or ""})
        yield chunk({}, "stop")
        options = (request.model_extra or {}).get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            yield _event({**begun, "choices": [], "usage": completion.usage.model_dump()})
        yield "data: [DONE]\n\n"
    finally:
        running.cancel()
        if following is not None:
            following.cancel()


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
