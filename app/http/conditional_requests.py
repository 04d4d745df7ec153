"""Conditional GET: replies of status 304 (RFC 9110, Section 13.1.2)."""

from hashlib import blake2b

Headers = list[tuple[bytes, bytes]]
IF_NONE_MATCH = b"if-none-match"


def make_decision_etag(body: bytes) -> bytes:
    """Return the entity tag of a decision, a hash of its reply.

    >>> make_decision_etag(b"{}")
    b'"b4b8bf78e9ad"'
    """
    return b'"%s"' % blake2b(body, digest_size=6).hexdigest().encode()


def matches_etag(etag: bytes, headers: Headers) -> bool:
    """Return whether the caller has the reply with this tag, so that the status is 304.

    >>> matches_etag(b'"a"', [(b"if-none-match", b'"b", W/"a"')]), matches_etag(b'"a"', [(b"if-none-match", b"*")])
    (True, True)
    """
    return any(etag in value or value.strip() == b"*" for name, value in headers if name == IF_NONE_MATCH)
