"""Pages of the console, rendered by the server; their scripts use the public API."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

from fastapi import APIRouter, FastAPI, Response
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from app.http.content_security_policy import add_security_policy
from app.routes.dependencies import AppContext, InContext
from models.base import NAME_PATTERN
from models.errors import NotFound, ParsimonyError, UnknownArtifact
from models.log_import import FormatName
from solvers import KINDS

IN_PROCESS = Path(__file__).parent.parent / "console"
NAVIGATION = (
    ("/", "Overview"),
    ("/datasets", "Datasets"),
    ("/builds", "Builds"),
    ("/batches", "Batches"),
    ("/endpoints", "Endpoints"),
    ("/recordings", "Recordings"),
    ("/spend", "Spend"),
)
PAGE_LOOKUP_TIMEOUT_S = 1.0
"""How long a page waits to learn whether what it is about is there; its script finds out in any case."""
Name = Annotated[str, PathParameter(pattern=NAME_PATTERN)]
BuildId = Annotated[str, PathParameter(pattern=r"^[0-9A-Za-z-]{1,64}$")]


def add_pages(api: FastAPI) -> Callable[[str], Response]:
    """Add the pages and their files; return the renderer of the "not found" page."""
    pages = _Pages()
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @router.get("/")
    async def overview() -> Response:
        return pages.render("overview")

    @router.get("/datasets")
    async def datasets() -> Response:
        return pages.render("datasets")

    @router.get("/datasets/{name}")
    async def dataset(name: Name, context: InContext) -> Response:
        await _refuse_if_missing(context, context.repos.datasets.get_info, name)
        return pages.render("dataset", name=name)

    @router.get("/builds")
    async def builds() -> Response:
        return pages.render("builds")

    @router.get("/builds/{build_id}")
    async def build(build_id: BuildId, context: InContext) -> Response:
        await _refuse_if_missing(context, context.repos.builds.get, build_id)
        return pages.render("build", id=build_id)

    @router.get("/batches")
    async def batches() -> Response:
        return pages.render("batches")

    @router.get("/artifacts/{kind}/{name}")
    async def artifact(kind: str, name: Name, context: InContext) -> Response:
        if kind not in KINDS:
            raise UnknownArtifact(f"artifact kind {kind!r} not found; available: {', '.join(KINDS)}")
        await _refuse_if_missing(context, context.repos.artifacts.get_record, kind, name)
        return pages.render("artifact", kind=kind, name=name, collection=KINDS[kind].plural)

    @router.get("/endpoints")
    async def endpoints() -> Response:
        return pages.render("endpoints")

    @router.get("/recordings")
    async def recordings() -> Response:
        return pages.render("recordings")

    @router.get("/spend")
    async def spend() -> Response:
        return pages.render("spend")

    api.include_router(router)
    api.mount("/console", _Fresh(directory=IN_PROCESS / "static"), name="console")
    return pages.render_missing


async def _refuse_if_missing(context: AppContext, look: Callable[..., object], *names: str) -> None:
    """Raise NotFound if the resource of a page does not exist.

    Requests for pages have no API key. So if keys are configured, pages must not reveal names, and nothing is checked;
    the page's script sends the key. Nothing is checked either while the store is unavailable or slow.
    """
    if context.settings.api_keys or context.catalog.store_error is not None:
        return
    try:
        await asyncio.wait_for(asyncio.to_thread(look, *names), PAGE_LOOKUP_TIMEOUT_S)
    except NotFound:
        raise
    except (ParsimonyError, TimeoutError):
        return


class _Fresh(StaticFiles):
    """Files that browsers revalidate each time, so that page and scripts have one version."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """Return a file, or 304 if it has not changed."""
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "no-cache"
        return response


class _Pages:
    """Renders the pages without their data."""

    def __init__(self) -> None:
        loader = FileSystemLoader(IN_PROCESS / "templates")
        self._templates = Environment(loader=loader, autoescape=select_autoescape(), undefined=StrictUndefined)

    def render(self, page: str, **names: object) -> Response:
        """Return a page with the names in its URL; its script requests all other data."""
        section = "/" + {"dataset": "datasets", "build": "builds", "overview": "", "artifact": ""}.get(page, page)
        context = {
            "script": page,
            "section": section,
            "navigation": NAVIGATION,
            "kinds": list(KINDS),
            "log_formats": get_args(FormatName),
            "names": names,
        }
        text = self._templates.get_template(f"{page}.html").render(context)
        return add_security_policy(HTMLResponse(text, headers={"cache-control": "no-cache"}))

    def render_missing(self, what: str) -> Response:
        """Return the page for a resource that is not found."""
        reply = self.render("missing", what=what)
        reply.status_code = 404
        reply.headers["vary"] = "accept"
        return reply
