"""Entity tags: conditional replacement and deletion (RFC 9110, Section 13.1).

A tag identifies the stored content, not its representation.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Header

from models.errors import PreconditionFailed

IfMatch = Annotated[
    list[str] | None,
    Header(
        description="the `ETag` of the resource to replace or delete, or several; `*`: any existing resource",
        examples=[["*"]],
    ),
]
IfNoneMatch = Annotated[list[str] | None, Header(description="`*`: only create, never replace", examples=[["*"]])]


def make_etag(sha256: str) -> str:
    """Return the entity tag of content with this SHA-256."""
    return f'"{sha256}"'


def check_preconditions(
    name: str, if_match: Sequence[str] | None, if_none_match: Sequence[str] | None, sha256: str | None
) -> None:
    """Raise PreconditionFailed if the stored SHA-256 (or None) does not match the headers.

    >>> check_preconditions("rows", [make_etag("e3b0")], None, "e3b0")
    >>> check_preconditions("rows", [make_etag("e3b0")], None, None)
    Traceback (most recent call last):
    models.errors.PreconditionFailed: 'rows' not found
    """
    if if_match is not None and sha256 is None:
        raise PreconditionFailed(f"{name!r} not found")
    if if_match is not None and sha256 is not None and not _names(if_match, sha256):
        raise PreconditionFailed(f"{name!r} has changed; its ETag is {make_etag(sha256)}")
    weakly = [line.replace("W/", "") for line in if_none_match or ()]  # Section 13.1.2
    if sha256 is not None and _names(weakly, sha256):
        raise PreconditionFailed(f"{name!r} already exists; its ETag is {make_etag(sha256)}")


def _names(lines: Sequence[str], sha256: str) -> bool:
    """Return whether the tags in a header match a SHA-256."""
    return bool({"*", make_etag(sha256)} & {tag.strip() for line in lines for tag in line.split(",")})
