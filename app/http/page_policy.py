"""Content security policy of the pages: own scripts only, requests to this server only, no embedding in frames."""

from collections.abc import Sequence

from fastapi.responses import HTMLResponse


def with_policy(
    page: HTMLResponse, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), more: Sequence[str] = ()
) -> HTMLResponse:
    """Confine a page to our own files. scripts, styles: sources besides these; more: further rules of the policy."""
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
