"""Entity tags: whoever replaces something may say what it takes it for (RFC 9110, Section 13.1)."""

from typing import Annotated

from fastapi import Header

from models.errors import Changed

IfMatch = Annotated[
    str | None, Header(description="the `ETag` of what is to be replaced, or several; `*`: whatever is there")
]
IfNoneMatch = Annotated[str | None, Header(description="`*`: nothing is to be replaced")]


def etag(sha256: str) -> str:
    """Write the tag of what has a SHA-256."""
    return f'"{sha256}"'


def refuse_changed(name: str, if_match: str | None, if_none_match: str | None, sha256: str | None) -> None:
    """Raise Changed where what is there, of that SHA-256 or None, is not what the headers say.

    >>> refuse_changed("rows", etag("e3b0"), None, "e3b0")
    >>> refuse_changed("rows", etag("e3b0"), None, None)
    Traceback (most recent call last):
    models.errors.Changed: there is no 'rows' to be replaced
    """
    if if_match is not None and sha256 is None:
        raise Changed(f"there is no {name!r} to be replaced")
    if if_match is not None and sha256 is not None and not _names(if_match, sha256):
        raise Changed(f"{name!r} is another one now, with the ETag {etag(sha256)}")
    if if_none_match is not None and sha256 is not None and _names(if_none_match, sha256):
        raise Changed(f"there is a {name!r} already, with the ETag {etag(sha256)}")


def _names(tags: str, sha256: str) -> bool:
    """Tell whether a header's tags are of what has a SHA-256."""
    return bool({"*", etag(sha256)} & {tag.strip() for tag in tags.split(",")})
