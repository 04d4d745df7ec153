"""Advice on a dataset: every method that it allows, built and compared on the same rows."""

from fastapi import Depends, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, PathName, error_responses, needs_store
from models import Build
from models.advice import Advice, AdviceRequest

router = JsonRouter(prefix="/v1/advice", tags=["advice"], dependencies=[Depends(needs_store)])


@router.post(
    "",
    summary="Ask which method to take",
    status_code=202,
    responses=error_responses(404, 413, 415, 429, 503),
)
def start_advice(request: AdviceRequest, context: InContext, response: Response) -> Build:
    """Queue the builds of all methods as one job; follow it as a build, then ask for the dataset's advice."""
    build = context.repos.builds.enqueue_advice(request)
    response.headers["Location"] = f"/v1/builds/{build.id}"
    return build


@router.get("/{name}", summary="The latest advice on a dataset", responses=error_responses(404, 503))
def show_advice(name: PathName, context: InContext) -> Advice:
    """Recommend an artifact kind within the given limits, and show what each kind reached on the same rows;
    404 until a job has ended well, and once the dataset is replaced."""
    return context.repos.datasets.get_advice(name)
