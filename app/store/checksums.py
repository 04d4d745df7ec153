"""Byte verification: SHA-256 checksums of stored blobs and of the entries of artifact archives."""

from collections.abc import Mapping
from hashlib import sha256

from models.errors import StoreRefused


def verify_checksum(data: bytes, digest: str) -> bytes:
    """Return the bytes if their SHA-256 is the expected one; raises StoreRefused."""
    if sha256(data).hexdigest() != digest:
        raise StoreRefused(f"stored bytes do not match their SHA-256 {digest[:12]}…; publish or upload them again")
    return data


def digest_entries(entries: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of all entries of an archive except ``sha256`` itself."""
    digest = sha256()
    for name, data in entries.items():
        if name == "sha256":
            continue
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
