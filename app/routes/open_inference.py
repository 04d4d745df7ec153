"""The Open Inference Protocol (KServe v2): an artifact is a model, called ``SOLVER.NAME``."""

from importlib.metadata import version as version_of
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.http.problems import InferenceError
from app.routes.dependencies import Context, InContext, each_name_once, errors_as, json_only, plan_of
from app.routes.runs import tools_of, unless_gone
from app.running.protocols.open_inference import flat
from app.running.runs import Done, Undone, run_each
from app.running.start import STARTS, query_of
from app.running.templates import WrongShape
from app.serving.catalog import Live
from models import Fault, InvalidRequest
from models.errors import UnknownArtifact
from models.run import MOST_ITEMS, RunItem, RunLimits
from solvers import SOLVERS

router = APIRouter(prefix="/v2", tags=["open inference"])
ModelName = Annotated[
    str, Path(description="the artifact, as SOLVER.NAME", examples=["cascade.digits"], max_length=120)
]
_LIMITS = ("deadline", "budget", "min_accuracy", "timeout_s")


class Tensor(BaseModel):
    """A tensor of the protocol."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=200)] = Field(description="its name")
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=8)] = Field(
        description="its shape; the first dimension counts the items", examples=[[1, 3]]
    )
    datatype: str = Field(description="the type of its elements", examples=["FP64"])
    data: list[JsonValue] = Field(description="its elements, row by row, nested or flat", examples=[[0.0, 1.0, 2.0]])


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
    parameters: dict[str, JsonValue] = Field(
        default={}, description="the limits of each item: deadline, budget, min_accuracy, timeout_s", examples=[{}]
    )


class InferReply(BaseModel):
    """The answers."""

    model_name: str = Field(description="the artifact, as it was asked for")
    model_version: str = Field(description="its version")
    id: str | None = Field(default=None, description="the request's id")
    outputs: list[Tensor] = Field(description="label, and confidence where each answer has one")


class ModelMetadata(BaseModel):
    """What there is to know of a model."""

    name: str = Field(description="the artifact, as SOLVER.NAME")
    versions: list[str] = Field(description="the version in service")
    platform: str = Field(default="parsimony", description="always this")
    inputs: list[dict[str, Any]] = Field(description="one tensor of any type: a row for each item")
    outputs: list[dict[str, Any]] = Field(description="label and confidence")


class ServerMetadata(BaseModel):
    """What there is to know of the server."""

    name: Literal["parsimony"] = Field(default="parsimony", description="always this")
    version: str = Field(description="its version")
    extensions: list[str] = Field(default=[], description="none")


@router.get("", summary="Metadata of the server", responses=errors_as(InferenceError))
async def server() -> ServerMetadata:
    """Say what this is."""
    return ServerMetadata(version=version_of("parsimony"))


@router.get("/health/live", summary="Whether the process answers", responses=errors_as(InferenceError))
async def live() -> dict[str, bool]:
    """Answer as long as the process does."""
    return {"live": True}


@router.get("/health/ready", summary="Whether artifacts are loaded", responses=errors_as(InferenceError, 503))
async def ready(context: InContext) -> dict[str, bool]:
    """503 until the artifacts have been loaded."""
    context.catalog.refuse_unless_loaded()
    return {"ready": True}


@router.get("/models/{name}", summary="An artifact's metadata", responses=errors_as(InferenceError, 404, 503))
async def metadata(name: ModelName, context: InContext) -> ModelMetadata:
    """Tell an artifact's name, version, inputs and outputs."""
    serving = await _live(context, name)
    outputs: list[dict[str, Any]] = [
        {"name": "label", "datatype": "BYTES", "shape": [-1]},
        {"name": "confidence", "datatype": "FP64", "shape": [-1]},
    ]
    inputs: list[dict[str, Any]] = [{"name": "input-0", "datatype": "FP64", "shape": [-1, -1]}]
    return ModelMetadata(name=name, versions=[str(serving.ref.version)], inputs=inputs, outputs=outputs)


@router.get("/models/{name}/ready", summary="Whether it answers", responses=errors_as(InferenceError, 404, 503))
async def model_ready(name: ModelName, context: InContext) -> dict[str, bool | str]:
    """404 if there is no such artifact."""
    await _live(context, name)
    return {"name": name, "ready": True}


@router.post(
    "/models/{name}/infer",
    summary="Run items through an artifact",
    response_model=InferReply,
    dependencies=[Depends(json_only), Depends(each_name_once)],
    responses=errors_as(InferenceError, 404, 409, 413, 415, 502, 503, 504),
)
async def infer(name: ModelName, request: InferRequest, http: Request, context: InContext) -> JSONResponse:
    """Run each row of the input; the first item without an answer fails the request, as the protocol has it.

    Errors are in the protocol's form.
    """
    serving = await _live(context, name)
    limits = _limits(request.parameters)
    outcomes, _ = await unless_gone(http, run_each(serving, _items(request), limits, tools_of(context)))
    undone = next((one for one in outcomes if isinstance(one, Undone)), None)
    if undone is not None:
        raise undone.error
    runs = [one.run for one in outcomes if isinstance(one, Done)]
    outputs = [Tensor(name="label", shape=[len(runs)], datatype="BYTES", data=[run.label or "" for run in runs])]
    sure: list[JsonValue] = [run.confidence for run in runs]
    if None not in sure:
        outputs.append(Tensor(name="confidence", shape=[len(runs)], datatype="FP64", data=sure))
    reply = InferReply(model_name=name, model_version=str(serving.ref.version), id=request.id, outputs=outputs)
    return JSONResponse(reply.model_dump(mode="json"))


async def _live(context: Context, model: str) -> Live[Any]:
    solver, _, name = model.partition(".")
    if solver not in STARTS:
        raise UnknownArtifact(f"there is no model {model!r}: it must be SOLVER.NAME, one of {', '.join(STARTS)}")
    return await plan_of(context, SOLVERS[solver], name, None)


def _limits(parameters: dict[str, JsonValue]) -> RunLimits:
    """Read the limits; other parameters are clients' own."""
    limits: RunLimits = query_of(RunLimits, **{name: parameters.get(name) for name in _LIMITS})
    return limits


def _items(request: InferRequest) -> tuple[RunItem, ...]:
    """Cut the tensor into items; raises InvalidRequest if its elements do not fit its shape."""
    tensor = request.inputs[0]
    is_many = len(tensor.shape) > 1 or (tensor.datatype == "BYTES" and bool(tensor.shape))
    rows = tensor.shape[0] if is_many else 1
    try:
        elements = flat(tensor.data)
    except WrongShape as error:
        raise InvalidRequest.at(Fault(("inputs", 0, "data"), str(error))) from error
    width = len(elements) // rows if rows else 0
    if not rows or rows > MOST_ITEMS or width * rows != len(elements) or not width:
        fault = f"has {len(elements)} elements of shape {tensor.shape}, must be 1 to {MOST_ITEMS} rows of as many each"
        raise InvalidRequest.at(Fault(("inputs", 0), fault))
    ids = [None if request.id is None else f"{request.id}:{row}" for row in range(rows)]
    pieces = [elements[row * width : (row + 1) * width] for row in range(rows)]
    is_text = tensor.datatype == "BYTES" and width == 1
    return tuple(
        RunItem(item=piece[0] if is_text else piece, id=item_id) for piece, item_id in zip(pieces, ids, strict=True)
    )
