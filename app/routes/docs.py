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

from app.http.content_security_policy import add_security_policy

EXTERNAL_LOGO_URL = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def add_docs_pages(app: FastAPI) -> None:
    """Add /docs and /redoc."""
    folder = Path(fastapi_offline.__file__).parent / "static"
    # ReDoc fetches its maker's logo from elsewhere; here it gets an image of ours.
    redoc_js = (folder / "redoc.standalone.js").read_bytes().replace(EXTERNAL_LOGO_URL, b"/static-docs/favicon.png")

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
    """Return a page with a policy that allows its inline scripts.

    Scripts of both pages set styles, which only ``unsafe-inline`` allows. ReDoc searches in a worker that it creates
    from a blob.
    """
    inline = [sha256(script.encode()).digest() for script in _INLINE.findall(bytes(page.body).decode())]
    scripts = [f"'sha256-{b64encode(digest).decode()}'" for digest in inline]
    return add_security_policy(page, scripts=scripts, styles=["'unsafe-inline'"], more=["worker-src blob:"])
