"""A small server of the demo's classifiers, so that its artifacts can be run: what anybody's model server might be."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.demo.images import SEED, DigitClassifier, load_split, train_all
from models.endpoint import JsonEndpoint

if TYPE_CHECKING:
    from app.store.repositories import Repositories
    from solvers import Progress

PIXELS = 64
_PATH = "/classifiers/"


def serve_models(repos: "Repositories", port: int, progress: "Progress") -> None:
    """Train the demo's classifiers, register where they are, and answer for them until the process is told to end."""
    classifiers = train_all(load_split(np.random.default_rng(SEED)).train, progress)
    for name, endpoint in endpoints(classifiers, port).items():
        kept = repos.endpoints.get_all().get(name)
        if kept is None or _is_ours(kept.url):
            repos.endpoints.put(name, endpoint)
    config = uvicorn.Config(application(classifiers), host="127.0.0.1", port=port, log_level="warning", ws="none")
    uvicorn.Server(config).run()


def endpoints(classifiers: list[DigitClassifier], port: int) -> dict[str, JsonEndpoint]:
    """Give the endpoint of each."""
    return {
        one.name: JsonEndpoint(
            protocol="json",
            url=f"http://127.0.0.1:{port}{_PATH}{one.name}",
            body={"image": "{{item}}"},
            label="/label",
            confidence="/confidence",
        )
        for one in classifiers
    }


def _is_ours(url: str) -> bool:
    return url.startswith("http://127.0.0.1:") and _PATH in url


def application(classifiers: list[DigitClassifier]) -> Starlette:
    """Answer POST /classifiers/NAME with {"image": 64 numbers from 0 to 1, row by row, or their JSON as text}."""
    by_name = {one.name: one for one in classifiers}

    async def classify(request: Request) -> JSONResponse:
        body = await request.json()
        classifier = by_name.get(request.path_params["name"])
        if classifier is None:
            return JSONResponse({"error": f"there are {', '.join(by_name)}"}, 404)
        try:
            image = _image(body.get("image") if isinstance(body, dict) else None)
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": f"the image must be {PIXELS} numbers from 0 to 1: {error}"}, 422)
        label, confidence = classifier.answer(image)  # here, one at a time, as they were measured
        return JSONResponse({"label": str(label), "confidence": confidence})

    return Starlette(routes=[Route(_PATH + "{name}", classify, methods=["POST"])])


def _image(sent: Any) -> Any:
    pixels = np.asarray(json.loads(sent) if isinstance(sent, str) else sent, dtype=float)
    if pixels.size != PIXELS or not np.all((pixels >= 0) & (pixels <= 1)):
        raise ValueError(f"there are {pixels.size}")
    return pixels.reshape(8, 8)
