"""The Open Inference Protocol (KServe v2): an artifact is a model, called ``KIND.NAME``."""

from importlib.metadata import version as version_of
from typing import Annotated, Any, Literal

import orjson
from fastapi import Depends, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from app.http.json_bodies import JsonRouter, decode_json, refuse_other_types, validate_body
from app.http.problems import InferenceError
from app.routes.dependencies import Context, InContext, body_of, foreign_error_responses, plan_of
from app.routes.runs import tools_of, unless_gone
from app.running.protocols.binary_tensors import (
    EXTENSION,
    LENGTH_HEADER,
    elements_as_bytes,
    read_elements,
    split_message,
)
from app.running.protocols.open_inference import flatten
from app.running.runs import CompletedItem, FailedItem, run_each
from app.running.templates import WrongShape
from app.serving.catalog import LoadedArtifact
from models import Fault, InvalidRequest
from models.base import LIMITS, refuse_infinite
from models.errors import UnknownArtifact
from models.run import MOST_ITEMS, RunItem, RunLimits
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query

router = JsonRouter(prefix="/v2", tags=["open inference"])
ModelName = Annotated[str, Path(description="the artifact, as KIND.NAME", examples=["cascade.digits"], max_length=120)]


class Tensor(BaseModel):
    """A tensor of the protocol."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=200)] = Field(description="its name")
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=8)] = Field(
        description="its shape; the first dimension counts the items", examples=[[1, 3]]
    )
    datatype: str = Field(description="the type of its elements", examples=["FP64"])
    data: Annotated[list[JsonValue], AfterValidator(refuse_infinite)] = Field(
        default=[], description="its elements, row by row, nested or flat", examples=[[0.0, 1.0, 2.0]]
    )
    parameters: dict[str, JsonValue] = Field(
        default={}, description="binary_data_size: so many bytes behind the JSON are its elements", examples=[{}]
    )


class RequestedOutput(BaseModel):
    """A requested output."""

    model_config = ConfigDict(extra="ignore")

    name: Literal["label", "confidence"] = Field(description="its name")
    parameters: dict[str, JsonValue] = Field(
        default={}, description="binary_data: true puts its elements behind the JSON, as bytes", examples=[{}]
    )


class InferRequest(BaseModel):
    """Items to run."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {"inputs": [{"name": "input-0", "shape": [1, 3], "datatype": "FP64", "data": [0.0, 1.0, 2.0]}]}
            ]
        },
    )

    id: Annotated[str, Field(min_length=1, max_length=150)] | None = Field(
        default=None, description="the request's id; items are called by it and their place"
    )
    inputs: Annotated[list[Tensor], Field(min_length=1, max_length=1)] = Field(
        description="one tensor: a row for each item"
    )
    outputs: Annotated[list[RequestedOutput], Field(max_length=2)] = Field(
        default=[], description="which outputs are wanted; none: all there are", examples=[[]]
    )
    parameters: dict[str, JsonValue] = Field(
        default={},
        description="the limits of each item, by their names in `runs`, and timeout_s; binary_data_output: true puts "
        "all outputs behind the JSON, as bytes",
        examples=[{}],
    )


bodies = (InferRequest,)


class InferReply(BaseModel):
    """The answers."""

    model_name: str = Field(description="the requested artifact")
    model_version: str = Field(description="its version")
    id: str | None = Field(default=None, description="the request's id")
    outputs: list[Tensor] = Field(description="label, and confidence where each answer has one")


class ModelMetadata(BaseModel):
    """What there is to know of a model."""

    name: str = Field(description="the artifact, as KIND.NAME")
    versions: list[str] = Field(description="the version in service")
    platform: str = Field(default="parsimony", description="always this")
    inputs: list[dict[str, Any]] = Field(description="one tensor of any type: a row for each item")
    outputs: list[dict[str, Any]] = Field(description="label and confidence")


class ServerMetadata(BaseModel):
    """What there is to know of the server."""

    name: Literal["parsimony"] = Field(default="parsimony", description="always this")
    version: str = Field(description="its version")
    extensions: list[str] = Field(default=[EXTENSION], description="tensors may be bytes behind the JSON")


async def _no_form(request: Request) -> None:
    """Refuse what a page of another site could send unasked: clients of the protocol may state no type, which such a
    page can, too, but then the browser sends its origin."""
    if "content-type" in request.headers or "origin" in request.headers:
        refuse_other_types(request, "application/json", "application/octet-stream")


@router.get("", summary="Metadata of the server", responses=foreign_error_responses(InferenceError))
async def server_metadata() -> ServerMetadata:
    """Return the server's metadata."""
    return ServerMetadata(version=version_of("parsimony"))


@router.get("/health/live", summary="Whether the process answers", responses=foreign_error_responses(InferenceError))
async def check_liveness() -> dict[str, bool]:
    """Answer as long as the process does."""
    return {"live": True}


@router.get(
    "/health/ready", summary="Whether artifacts are loaded", responses=foreign_error_responses(InferenceError, 503)
)
async def check_readiness(context: InContext) -> dict[str, bool]:
    """503 until the artifacts have been loaded."""
    context.catalog.refuse_unless_loaded()
    return {"ready": True}


@router.get(
    "/models/{name}", summary="An artifact's metadata", responses=foreign_error_responses(InferenceError, 404, 503)
)
async def model_metadata(name: ModelName, context: InContext) -> ModelMetadata:
    """Return an artifact's name, version, inputs, and outputs."""
    serving = await _live(context, name)
    outputs: list[dict[str, Any]] = [
        {"name": "label", "datatype": "BYTES", "shape": [-1]},
        {"name": "confidence", "datatype": "FP64", "shape": [-1]},
    ]
    inputs: list[dict[str, Any]] = [{"name": "input-0", "datatype": "FP64", "shape": [-1, -1]}]
    return ModelMetadata(name=name, versions=[str(serving.ref.version)], inputs=inputs, outputs=outputs)


@router.get(
    "/models/{name}/ready", summary="Whether it answers", responses=foreign_error_responses(InferenceError, 404, 503)
)
async def model_ready(name: ModelName, context: InContext) -> dict[str, bool | str]:
    """Return 404 if the artifact is not found."""
    await _live(context, name)
    return {"name": name, "ready": True}


@router.post(
    "/models/{name}/infer",
    summary="Run items through an artifact",
    response_model=InferReply,
    dependencies=[Depends(_no_form)],
    responses=foreign_error_responses(InferenceError, 404, 409, 413, 415, 502, 503, 504),
    openapi_extra=body_of(InferRequest),
)
async def infer_items(name: ModelName, http: Request, context: InContext) -> Response:
    """Run each row of the input; the first item without an answer fails the request, as the protocol has it.

    Tensors may be bytes behind the JSON, as the extension ``binary_tensor_data`` has them. Errors are in the protocol's
    form.
    """
    request = _request(await http.body(), http.headers.get(LENGTH_HEADER))
    serving = await _live(context, name)
    limits = _limits(request.parameters)
    outcomes, _ = await unless_gone(http, run_each(serving, _items(request), limits, tools_of(context)))
    undone = next((one for one in outcomes if isinstance(one, FailedItem)), None)
    if undone is not None:
        raise undone.error
    runs = [one.run for one in outcomes if isinstance(one, CompletedItem)]
    outputs = [Tensor(name="label", shape=[len(runs)], datatype="BYTES", data=[run.label or "" for run in runs])]
    sure: list[JsonValue] = [run.confidence for run in runs]
    if None not in sure:
        outputs.append(Tensor(name="confidence", shape=[len(runs)], datatype="FP64", data=sure))
    reply = InferReply(model_name=name, model_version=str(serving.ref.version), id=request.id, outputs=outputs)
    return _encoded(reply, request)


def _request(body: bytes, length: str | None) -> InferRequest:
    """Read a request, its tensor from behind the JSON if it is there."""
    try:
        text, behind = split_message(body, length)
    except WrongShape as error:
        raise InvalidRequest.from_faults(Fault((LENGTH_HEADER,), str(error))) from error
    content = decode_json(text)
    request = validate_body(InferRequest, content)
    size = request.inputs[0].parameters.get("binary_data_size", 0)
    if size != len(behind):
        fault = Fault(("inputs", 0, "parameters", "binary_data_size"), f"is {size}, there are {len(behind)} bytes")
        raise InvalidRequest.from_faults(fault)
    if behind:
        try:
            request.inputs[0].data = read_elements(request.inputs[0].datatype, behind)
        except WrongShape as error:
            raise InvalidRequest.from_faults(Fault(("inputs", 0), str(error))) from error
    return request


def _encoded(reply: InferReply, request: InferRequest) -> Response:
    """Write the requested outputs, each as JSON or as bytes after it."""
    every = request.parameters.get("binary_data_output") is True
    asked: dict[str, bool] = {each.name: each.parameters.get("binary_data", every) is True for each in request.outputs}
    outputs, behind = list[dict[str, Any]](), b""
    for output in reply.outputs:
        if asked and output.name not in asked:
            continue
        described = output.model_dump(mode="json", exclude={"parameters"})
        if asked.get(output.name, every):
            data = elements_as_bytes(output.datatype, described.pop("data"))
            described["parameters"], behind = {"binary_data_size": len(data)}, behind + data
        outputs.append(described)
    text = orjson.dumps(reply.model_dump(mode="json", exclude={"outputs"}) | {"outputs": outputs})
    if not behind:
        return Response(text, media_type="application/json")
    headers = {LENGTH_HEADER: str(len(text))}
    return Response(text + behind, media_type="application/octet-stream", headers=headers)


async def _live(context: Context, model: str) -> LoadedArtifact[Plan]:
    kind, _, name = model.partition(".")
    if kind not in KINDS:
        raise UnknownArtifact(f"model {model!r} not found: it must be KIND.NAME, with a kind of {', '.join(KINDS)}")
    return await plan_of(context, KINDS[kind], name, None)


def _limits(parameters: dict[str, JsonValue]) -> RunLimits:
    """Read the limits; other parameters are clients' own."""
    return make_query(RunLimits, **{name: parameters.get(name) for name in (*LIMITS, "timeout_s")})


def _items(request: InferRequest) -> tuple[RunItem, ...]:
    """Cut the tensor into items; raises InvalidRequest if its elements do not fit its shape."""
    tensor = request.inputs[0]
    is_many = len(tensor.shape) > 1 or (tensor.datatype == "BYTES" and bool(tensor.shape))
    rows = tensor.shape[0] if is_many else 1
    try:
        elements = flatten(tensor.data)
    except WrongShape as error:
        raise InvalidRequest.from_faults(Fault(("inputs", 0, "data"), str(error))) from error
    width = len(elements) // rows if rows else 0
    if not rows or rows > MOST_ITEMS or width * rows != len(elements) or not width:
        fault = f"has {len(elements)} elements of shape {tensor.shape}, must be 1 to {MOST_ITEMS} rows of as many each"
        raise InvalidRequest.from_faults(Fault(("inputs", 0), fault))
    ids = [None if request.id is None else f"{request.id}:{row}" for row in range(rows)]
    pieces = [elements[row * width : (row + 1) * width] for row in range(rows)]
    is_text = tensor.datatype == "BYTES" and width == 1
    return tuple(
        RunItem(item=piece[0] if is_text else piece, id=item_id) for piece, item_id in zip(pieces, ids, strict=True)
    )
