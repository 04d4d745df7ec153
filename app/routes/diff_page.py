"""The page that compares two versions: one HTML file without scripts, to print or send."""

from base64 import b64encode
from hashlib import sha256

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from app.http.content_security_policy import add_security_policy
from app.routes.pages import IN_PROCESS
from app.serving.diff_report import make_report
from models.version_diff import VersionDiff


def render_diff(diff: VersionDiff) -> Response:
    """Return the differences as an HTML page with inline styles."""
    style = (IN_PROCESS / "static" / "diff.css").read_text()
    loader = FileSystemLoader(IN_PROCESS / "templates")
    templates = Environment(loader=loader, autoescape=select_autoescape(), undefined=StrictUndefined)
    text = templates.get_template("diff.html").render(
        artifact=diff.after.artifact,
        versions=(diff.before.artifact.version, diff.after.artifact.version),
        tables=make_report(diff),
        style=style,
    )
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return add_security_policy(HTMLResponse(text, headers={"vary": "accept"}), styles=[f"'sha256-{digest}'"])
