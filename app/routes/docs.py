"""API documentation pages (Swagger UI, ReDoc), without external files."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from app.http.page_policy import with_policy

LOGO_ELSEWHERE = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def install(app: FastAPI) -> None:
    """Add /docs and /redoc."""
    folder = Path(fastapi_offline.__file__).parent / "static"
    # ReDoc fetches its maker's logo from elsewhere; here it gets an image of ours.
    redoc_js = (folder / "redoc.standalone.js").read_bytes().replace(LOGO_ELSEWHERE, b"/static-docs/favicon.png")

    @app.get("/static-docs/redoc.standalone.js", include_in_schema=False)
    async def redoc_script() -> Response:
        return Response(redoc_js, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    app.mount("/static-docs", StaticFiles(directory=folder), name="static-docs")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Parsimony",
            swagger_js_url="/static-docs/swagger-ui-bundle.js",
            swagger_css_url="/static-docs/swagger-ui.css",
            swagger_favicon_url="/static-docs/favicon.png",
        )
        return _with_policy(page)

    @app.get("/redoc", include_in_schema=False)
    async def redoc() -> HTMLResponse:
        page = get_redoc_html(
            openapi_url="/openapi.json",
            title="Parsimony",
            redoc_js_url="/static-docs/redoc.standalone.js",
            redoc_favicon_url="/static-docs/favicon.png",
            with_google_fonts=False,
        )
        return _with_policy(page)


def _with_policy(page: HTMLResponse) -> HTMLResponse:
    """Allow a page to run its inline scripts.

    Both pages set styles from their scripts, which only ``unsafe-inline`` allows; ReDoc searches in a worker that it
    makes of a blob.
    """
    inline = [sha256(script.encode()).digest() for script in _INLINE.findall(bytes(page.body).decode())]
    scripts = [f"'sha256-{b64encode(digest).decode()}'" for digest in inline]
    return with_policy(page, scripts=scripts, styles=["'unsafe-inline'"], more=["worker-src blob:"])
