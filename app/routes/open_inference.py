"""Routes of the Open Inference Protocol (KServe v2).

An artifact is the model ``KIND.NAME``.
"""

from importlib.metadata import version as version_of
from typing import Annotated, Any, Literal

import orjson
from fastapi import Depends, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from app.http.json_bodies import JsonRouter, decode_json, require_media_type, validate_body
from app.http.protocol_errors import InferenceErrorReply
from app.routes.dependencies import AppContext, InContext, describe_body, describe_protocol_errors, get_loaded_artifact
from app.routes.runs import cancel_on_disconnect, get_run_dependencies
from app.running.protocols.binary_tensors import (
    EXTENSION,
    LENGTH_HEADER,
    elements_as_bytes,
    read_elements,
    split_message,
)
from app.running.protocols.open_inference import flatten
from app.running.request_templates import TemplateMismatch
from app.running.rollout_runs import run_with_rollout
from app.running.runs import CompletedItem, FailedItem
from app.serving.catalog import LoadedArtifact
from models import Fault, InvalidRequest
from models.base import LIMITS, require_finite
from models.errors import UnknownArtifact
from models.run import MAX_ITEMS, RunItem, RunLimits
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query

router = JsonRouter(prefix="/v2", tags=["open inference"])
ModelName = Annotated[str, Path(description="the artifact, as KIND.NAME", examples=["cascade.digits"], max_length=120)]


class Tensor(BaseModel):
    """A named tensor: shape, datatype, and elements."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=200)] = Field(description="name")
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=8)] = Field(
        description="shape; the first dimension is the number of items", examples=[[1, 3]]
    )
    datatype: str = Field(description="data type of the elements", examples=["FP64"])
    data: Annotated[list[JsonValue], AfterValidator(require_finite)] = Field(
        default=[], description="elements, row by row, nested or flat", examples=[[0.0, 1.0, 2.0]]
    )
    parameters: dict[str, JsonValue] = Field(
        default={},
        description="binary_data_size: number of bytes after the JSON that contain the elements",
        examples=[{}],
    )


class RequestedOutput(BaseModel):
    """An output tensor that the client requests."""

    model_config = ConfigDict(extra="ignore")

    name: Literal["label", "confidence"] = Field(description="name")
    parameters: dict[str, JsonValue] = Field(
        default={}, description="binary_data: true: return the elements as bytes after the JSON", examples=[{}]
    )


class InferRequest(BaseModel):
    """Inference request: one input tensor with a row for each item."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {"inputs": [{"name": "input-0", "shape": [1, 3], "datatype": "FP64", "data": [0.0, 1.0, 2.0]}]}
            ]
        },
    )

    id: Annotated[str, Field(min_length=1, max_length=150)] | None = Field(
        default=None, description="id of the request; the id of an item is this id with the item's index"
    )
    inputs: Annotated[list[Tensor], Field(min_length=1, max_length=1)] = Field(
        description="one tensor with a row per item"
    )
    outputs: Annotated[list[RequestedOutput], Field(max_length=2)] = Field(
        default=[], description="requested outputs; empty: all", examples=[[]]
    )
    parameters: dict[str, JsonValue] = Field(
        default={},
        description="limits of each item, named as in `runs`, and timeout_s; binary_data_output: true: return all "
        "outputs as bytes after the JSON",
        examples=[{}],
    )


bodies = (InferRequest,)


class InferReply(BaseModel):
    """Reply of an inference request: one output tensor per field of the answers."""

    model_name: str = Field(description="the requested artifact")
    model_version: str = Field(description="version; the active one if a rollout divides the items between two")
    id: str | None = Field(default=None, description="id of the request")
    outputs: list[Tensor] = Field(description="label, and confidence if every answer has one")


class ModelMetadata(BaseModel):
    """Metadata of a model: versions, inputs, and outputs."""

    name: str = Field(description="the artifact, as KIND.NAME")
    versions: list[str] = Field(description="the active version")
    platform: str = Field(default="parsimony", description="always the same value")
    inputs: list[dict[str, Any]] = Field(description="one tensor of any type with a row per item")
    outputs: list[dict[str, Any]] = Field(description="label and confidence")


class ServerMetadata(BaseModel):
    """Metadata of the server: name, version, and protocol extensions."""

    name: Literal["parsimony"] = Field(default="parsimony", description="always the same value")
    version: str = Field(description="version")
    extensions: list[str] = Field(default=[EXTENSION], description="supported extensions of the protocol")


async def _no_form(request: Request) -> None:
    """Reject requests that a page of another site could send without a preflight.

    Clients of the protocol may omit the media type. Such a page can do so, too, but then the browser sends its origin.
    """
    if "content-type" in request.headers or "origin" in request.headers:
        require_media_type(request, "application/json", "application/octet-stream")


@router.get("", summary="Show the server's metadata", responses=describe_protocol_errors(InferenceErrorReply))
async def server_metadata() -> ServerMetadata:
    """Return the server's metadata."""
    return ServerMetadata(version=version_of("parsimony-server"))


@router.get("/health/live", summary="Check liveness", responses=describe_protocol_errors(InferenceErrorReply))
async def check_liveness() -> dict[str, bool]:
    """Return 200 while the process is running."""
    return {"live": True}


@router.get("/health/ready", summary="Check readiness", responses=describe_protocol_errors(InferenceErrorReply, 503))
async def check_readiness(context: InContext) -> dict[str, bool]:
    """Return 503 until the artifacts have been loaded."""
    context.catalog.require_loaded()
    return {"ready": True}


@router.get(
    "/models/{name}",
    summary="Show an artifact's metadata",
    responses=describe_protocol_errors(InferenceErrorReply, 404, 503),
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
    "/models/{name}/ready",
    summary="Check whether an artifact is loaded",
    responses=describe_protocol_errors(InferenceErrorReply, 404, 503),
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
    responses=describe_protocol_errors(InferenceErrorReply, 404, 409, 413, 415, 502, 503, 504),
    openapi_extra=describe_body(InferRequest),
)
async def infer_items(name: ModelName, http: Request, context: InContext) -> Response:
    """Run each row of the input tensor.

    During a canary, an item's id determines its version; items without an id get the active version. The first item
    without an answer fails the request, as the protocol requires. Tensors may be sent as bytes after the JSON
    (extension ``binary_tensor_data``). Errors are in the protocol's format.
    """
    request = _request(await http.body(), http.headers.get(LENGTH_HEADER))
    serving = await _live(context, name)
    limits = _limits(request.parameters)
    outcomes, _ = await cancel_on_disconnect(
        http, run_with_rollout(serving, _items(request), limits, get_run_dependencies(context))
    )
    undone = next((one for _, one in outcomes if isinstance(one, FailedItem)), None)
    if undone is not None:
        raise undone.error
    runs = [one.run for _, one in outcomes if isinstance(one, CompletedItem)]
    outputs = [Tensor(name="label", shape=[len(runs)], datatype="BYTES", data=[run.label or "" for run in runs])]
    sure: list[JsonValue] = [run.confidence for run in runs]
    if None not in sure:
        outputs.append(Tensor(name="confidence", shape=[len(runs)], datatype="FP64", data=sure))
    versions = {loaded.ref.version for loaded, _ in outcomes}
    version = versions.pop() if len(versions) == 1 else serving.ref.version
    reply = InferReply(model_name=name, model_version=str(version), id=request.id, outputs=outputs)
    return _encoded(reply, request)


def _request(body: bytes, length: str | None) -> InferRequest:
    """Parse a request, including a tensor sent as bytes after the JSON."""
    try:
        text, behind = split_message(body, length)
    except TemplateMismatch as error:
        raise InvalidRequest.from_faults(Fault((LENGTH_HEADER,), str(error))) from error
    content = decode_json(text)
    request = validate_body(InferRequest, content)
    size = request.inputs[0].parameters.get("binary_data_size", 0)
    if size != len(behind):
        fault = Fault(
            ("inputs", 0, "parameters", "binary_data_size"),
            f"must be at most {len(behind)}, got {size}",
        )
        raise InvalidRequest.from_faults(fault)
    if behind:
        try:
            request.inputs[0].data = read_elements(request.inputs[0].datatype, behind)
        except TemplateMismatch as error:
            raise InvalidRequest.from_faults(Fault(("inputs", 0), str(error))) from error
    return request


def _encoded(reply: InferReply, request: InferRequest) -> Response:
    """Write the requested outputs as JSON, or as bytes after the JSON."""
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


async def _live(context: AppContext, model: str) -> LoadedArtifact[Plan]:
    kind, _, name = model.partition(".")
    if kind not in KINDS:
        raise UnknownArtifact(f"model {model!r} not found; must be KIND.NAME with a kind of {', '.join(KINDS)}")
    return await get_loaded_artifact(context, KINDS[kind], name, None)


def _limits(parameters: dict[str, JsonValue]) -> RunLimits:
    """Parse the limits; clients' other parameters are ignored."""
    return make_query(RunLimits, **{name: parameters.get(name) for name in (*LIMITS, "timeout_s")})


def _items(request: InferRequest) -> tuple[RunItem, ...]:
    """Split the tensor into items; raises InvalidRequest if elements do not fit its shape."""
    tensor = request.inputs[0]
    is_many = len(tensor.shape) > 1 or (tensor.datatype == "BYTES" and bool(tensor.shape))
    rows = tensor.shape[0] if is_many else 1
    try:
        elements = flatten(tensor.data)
    except TemplateMismatch as error:
        raise InvalidRequest.from_faults(Fault(("inputs", 0, "data"), str(error))) from error
    width = len(elements) // rows if rows else 0
    if not rows or rows > MAX_ITEMS or width * rows != len(elements) or not width:
        fault = f"must have 1 to {MAX_ITEMS} rows of equal length, got {len(elements)} elements of shape {tensor.shape}"
        raise InvalidRequest.from_faults(Fault(("inputs", 0), fault))
    ids = [None if request.id is None else f"{request.id}:{row}" for row in range(rows)]
    pieces = [elements[row * width : (row + 1) * width] for row in range(rows)]
    is_text = tensor.datatype == "BYTES" and width == 1
    return tuple(
        RunItem(item=piece[0] if is_text else piece, id=item_id) for piece, item_id in zip(pieces, ids, strict=True)
    )
