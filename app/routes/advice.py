"""Advice routes: build all kinds on a dataset, compare them, and recommend one."""

from fastapi import Depends, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, PathName, error_responses, find_build_owner, require_store
from app.routes.team_names import require_own_names
from models import Build
from models.advice import Advice, AdviceRequest

router = JsonRouter(prefix="/v1/advice", tags=["advice"], dependencies=[Depends(require_store)])


@router.post(
    "",
    summary="Compare the kinds on a dataset",
    status_code=202,
    responses=error_responses(404, 413, 415, 429, 503),
)
def start_advice(request: AdviceRequest, context: InContext, response: Response) -> Build:
    """Queue the builds of all kinds as one job.

    Follow it as a build; then get the dataset's advice, which replaces earlier advice.
    """
    require_own_names(context, request.dataset)
    build = context.repos.builds.enqueue_advice(request, find_build_owner(context))
    response.headers["Location"] = f"/v1/builds/{build.id}"
    return build


@router.get("/{name}", summary="Show the latest advice on a dataset", responses=error_responses(404, 503))
def show_advice(name: PathName, context: InContext) -> Advice:
    """Return the recommended kind within the limits, and the results of each kind.

    All kinds are measured on the same rows. The reply is 404 before the first job has succeeded, and after the
    dataset was replaced.
    """
    return context.repos.datasets.get_advice(name)
