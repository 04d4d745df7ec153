"""The documentation pages, with every file they need served by us, so that they work without the internet."""

from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

LOGO_ELSEWHERE = b"https://cdn.redoc.ly/redoc/logo-mini.svg"


def install(app: FastAPI) -> None:
    """Add /docs and /redoc, and lead from the root to the first."""
    folder = Path(fastapi_offline.__file__).parent / "static"
    # ReDoc fetches its maker's logo from elsewhere; here it gets an image of ours.
    redoc_js = (folder / "redoc.standalone.js").read_bytes().replace(LOGO_ELSEWHERE, b"/static-docs/favicon.png")

    @app.get("/static-docs/redoc.standalone.js", include_in_schema=False)
    async def redoc_script() -> Response:
        return Response(redoc_js, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    app.mount("/static-docs", StaticFiles(directory=folder), name="static-docs")

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Parsimony",
            swagger_js_url="/static-docs/swagger-ui-bundle.js",
            swagger_css_url="/static-docs/swagger-ui.css",
            swagger_favicon_url="/static-docs/favicon.png",
        )

    @app.get("/redoc", include_in_schema=False)
    async def redoc() -> HTMLResponse:
        return get_redoc_html(
            openapi_url="/openapi.json",
            title="Parsimony",
            redoc_js_url="/static-docs/redoc.standalone.js",
            redoc_favicon_url="/static-docs/favicon.png",
            with_google_fonts=False,
        )
