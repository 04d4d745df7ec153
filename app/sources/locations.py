"""Locations of sources: allowed URLs, and the files that they refer to."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.fs

from models.dataset_source import MAX_FILES
from models.errors import Fault, InvalidRequest

SCHEMES = ("file", "s3", "gs", "az")
_URL = re.compile(rf"(?P<scheme>{'|'.join(SCHEMES)})://(?P<path>.*)")
_WILDCARD = re.compile(r"[*?\[]")
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a source, before it is read."""

    url: str
    bytes: int
    modified: str


def split_url(url: str) -> tuple[str, str]:
    """Return the scheme and the path of a source's URL.

    URL queries are rejected, because they could select the server or the credentials.

    >>> split_url("s3://logs/calls/*.parquet"), split_url("file:///data/")
    (('s3', 'logs/calls/*.parquet'), ('file', '/data'))

    Raises:
        InvalidRequest: the URL is malformed, or its scheme is not supported.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise _refused(f"must be a URL that begins with {', '.join(f'{one}://' for one in SCHEMES)}, got {url!r}")
    scheme, path = match["scheme"], match["path"].rstrip("/")
    segments = path.removeprefix("/").split("/") if scheme == "file" else path.split("/")
    if scheme == "file" and not path.startswith("/"):
        raise _refused(f"must have an absolute path, as in file:///data/calls, got {url!r}")
    if any(segment in ("", ".", "..") for segment in segments):
        raise _refused(f"must not have empty folders, '.', or '..', got {url!r}")
    if scheme != "file" and (re.search(r"[*?\[@:#]", segments[0]) or re.search(r"\?[^/]*=", path)):
        raise _refused(f"must be a bucket and a path, without host, user, and query, got {url!r}")
    return scheme, path


def require_allowed_location(url: str, allowed: Sequence[str]) -> None:
    """Raise InvalidRequest if a URL is not inside one of the allowed URLs."""
    scheme, path = split_url(url)
    roots = [split_url(root) for root in allowed]
    if not any(scheme == known and _is_below(path, root) for known, root in roots):
        known = ", ".join(allowed) or "none"
        raise _refused(f"must be below one of the allowed locations (PARSIMONY_DATASET_SOURCES: {known}), got {url!r}")


def find_allowed_files(url: str, allowed: Sequence[str]) -> list[FoundFile]:
    """Return the files that a URL refers to, sorted by URL.

    Args:
        allowed: URLs of folders or buckets that must contain the files, after resolving symbolic links.
    Raises:
        InvalidRequest: as ``find_files``, or the URL is not allowed.
    """
    require_allowed_location(url, allowed)
    files = find_files(url)
    if split_url(url)[0] == "file":
        _refuse_links_out(files, allowed)
    return files


def find_files(url: str) -> list[FoundFile]:
    """Return the files that a URL refers to, sorted by URL.

    Raises InvalidRequest for no file, for too many files, or if a file cannot be read.
    """
    scheme, path = split_url(url)
    segments = path.split("/")
    fixed = next((n for n, segment in enumerate(segments) if _WILDCARD.search(segment)), len(segments))
    try:
        found = _list_files(open_filesystem(scheme), "/".join(segments[:fixed]))
    except OSError as error:
        raise _refused(f"{url} cannot be read: {error}") from error
    pattern = segments if fixed < len(segments) else None
    chosen = sorted((each for each in found if _is_chosen(each, path, pattern)), key=lambda each: str(each.path))
    if not chosen:
        raise _refused(f"must name at least one .parquet file, got none for {url!r}")
    if len(chosen) > MAX_FILES:
        raise _refused(f"must name at most {MAX_FILES} files, got {len(chosen)} for {url!r}")
    return [FoundFile(f"{scheme}://{each.path}", each.size, _time_of(each)) for each in chosen]


def open_filesystem(scheme: str) -> pyarrow.fs.FileSystem:
    """Return the file system of a scheme; credentials and servers come from the environment."""
    match scheme:
        case "file":
            return pyarrow.fs.LocalFileSystem()
        case "s3":
            server = urlsplit(os.environ.get("AWS_ENDPOINT_URL", ""))  # pyarrow itself does not read it
            other = {"endpoint_override": server.netloc, "scheme": server.scheme} if server.netloc else {}
            return pyarrow.fs.S3FileSystem(connect_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S, **other)
        case "gs":
            return pyarrow.fs.GcsFileSystem()
        case _:
            return pyarrow.fs.AzureFileSystem(os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))


def find_file(url: str) -> FoundFile:
    """Return the current size and time of a file; raises InvalidRequest if not found."""
    scheme, path = split_url(url)
    try:
        info = open_filesystem(scheme).get_file_info(path)
    except OSError as error:
        raise _refused(f"{url} cannot be read: {error}") from error
    if info.type != pyarrow.fs.FileType.File:
        raise _refused(f"{url} is missing; store the dataset again")
    return FoundFile(url, info.size, _time_of(info))


def _list_files(filesystem: pyarrow.fs.FileSystem, base: str) -> list[pyarrow.fs.FileInfo]:
    info = filesystem.get_file_info(base)
    if info.type == pyarrow.fs.FileType.File:
        return [info]
    if info.type == pyarrow.fs.FileType.NotFound:
        return []
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(base, recursive=True))
    return [each for each in found if each.type == pyarrow.fs.FileType.File]


def _is_chosen(file: pyarrow.fs.FileInfo, path: str, pattern: list[str] | None) -> bool:
    """Return whether a file matches the pattern, or is a visible Parquet file of the folder."""
    segments = str(file.path).split("/")
    if pattern is not None:
        return len(segments) == len(pattern) and all(map(fnmatchcase, segments, pattern))
    if file.path == path:
        return True
    own = segments[len(path.split("/")) :]
    return segments[-1].endswith(".parquet") and not any(segment.startswith((".", "_")) for segment in own)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _refuse_links_out(files: Sequence[FoundFile], allowed: Sequence[str]) -> None:
    roots = [os.path.realpath(path) for scheme, path in map(split_url, allowed) if scheme == "file"]
    for file in files:
        real = os.path.realpath(split_url(file.url)[1])
        if not any(_is_below(real, root) for root in roots):
            raise _refused(f"{file.url} is a symbolic link to {Path(real).name!r} outside the allowed locations")


def _time_of(info: pyarrow.fs.FileInfo) -> str:
    return datetime.fromtimestamp((info.mtime_ns or 0) / 1e9, UTC).isoformat(timespec="microseconds")


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault(("source", "url"), message))
