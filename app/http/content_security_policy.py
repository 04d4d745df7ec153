"""Content security policy of the console: only scripts and requests of the same origin, no framing."""

from collections.abc import Sequence

from fastapi.responses import HTMLResponse


def add_security_policy(
    page: HTMLResponse, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), more: Sequence[str] = ()
) -> HTMLResponse:
    """Return a page with a content security policy for files of the same origin only.

    Args:
        scripts: additional sources of scripts.
        styles: additional sources of styles.
        more: additional directives.
    """
    page.headers["content-security-policy"] = "; ".join(
        [
            "default-src 'none'",
            " ".join(["script-src 'self'", *scripts]),
            " ".join(["style-src 'self'", *styles]),
            "img-src 'self' data:",
            "connect-src 'self'",
            *more,
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    page.headers["referrer-policy"] = "no-referrer"
    page.headers["x-frame-options"] = "DENY"
    return page
