"""The settings: one class, one prefix, read once from the environment."""

from collections.abc import Iterable
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Role = Literal["decide", "build"]
PREFIX = "PARSIMONY_"
_MEBIBYTE = 2**20


def _listed(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def _hashed(text: str) -> dict[bytes, Role]:
    """Read keys and roles; no message names a key."""
    roles: dict[bytes, Role] = {}
    if text and not _listed(text):
        raise ValueError("holds no key; unset it to let everybody in")
    for position, entry in enumerate(_listed(text), start=1):
        key, colon, role = entry.rpartition(":")
        if not (colon and key and role in ("decide", "build")):
            raise ValueError(f"entry {position} must be key:role with the role decide or build")
        digest = sha256(key.encode()).digest()
        if digest in roles:
            raise ValueError(f"duplicate key in entry {position}")
        roles[digest] = "build" if role == "build" else "decide"
    return roles


def misspelled_settings(environ: Iterable[str]) -> dict[str, str]:
    """Find variables that look like settings and are none, each with the one that was meant.

    What resembles none is left alone: others set variables of our prefix too, clusters for their services.

    >>> misspelled_settings(["PARSIMONY_MAX_BACTH", "PARSIMONY_HOST", "parsimony_port", "PARSIMONY_SERVICE_HOST"])
    {'PARSIMONY_MAX_BACTH': 'PARSIMONY_MAX_BATCH'}
    """
    known = [name.upper() for name in Settings.model_fields]
    ours = {name: name.upper().removeprefix(PREFIX) for name in environ if name.upper().startswith(PREFIX)}
    meant = {name: get_close_matches(rest, known, 1, cutoff=0.75) for name, rest in ours.items() if rest not in known}
    return {name: PREFIX + close[0] for name, close in meant.items() if close}


class Settings(BaseSettings):
    """Every setting is an environment variable with the prefix ``PARSIMONY_``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    redis_url: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="redis://, rediss:// or unix:// address; unset: an embedded Redis under DATA_DIR",
    )
    url: str | None = Field(
        default=None,
        description="address of the server that commands use, http:// or https://; unset: the server on DATA_DIR, else "
        "the store itself",
    )
    key: SecretStr | None = Field(
        default=None, description="the key that commands send to that server, if it wants one"
    )
    data_dir: Path = Field(default=Path("data"), description="where the embedded Redis keeps its files")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on")
    workers: int = Field(default=1, ge=1, le=64, description="number of server processes")
    api_keys: Annotated[dict[bytes, Role], NoDecode, BeforeValidator(_hashed)] = Field(
        default="",  # type: ignore[arg-type]  # read like any other value
        repr=False,
        exclude=True,
        description="key:role,… with the roles decide and build; unset: open to everybody. Held as the role of each "
        "key's SHA-256: the keys themselves are kept nowhere but in the environment",
    )
    max_body_bytes: int = Field(
        default=256 * _MEBIBYTE,
        ge=1024,
        le=500 * _MEBIBYTE,
        description="largest body of a request, in bytes; a Redis value ends at 512 MiB",
    )
    rate_limit: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="requests a second for each key, or each client's address where none is known; "
        "each server process counts for itself; unset: no limit",
    )
    cors_origins: str = Field(
        default="", description="origins, comma-separated, whose pages may ask in a browser; unset: none may"
    )
    max_batch: int = Field(default=10_000, ge=1, description="most items in one request")
    max_concurrent_items: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="most items of runs that run at the same time for each key, or each client's address where none is "
        "known, in each server process; further items wait",
    )
    build_queue_limit: int = Field(default=100, ge=1, description="most builds waiting")
    build_timeout_s: int = Field(default=3600, ge=1, description="longest time for one build, in seconds")
    solve_timeout_s: float = Field(default=10.0, gt=0, description="longest time for one solve, in seconds")
    drain_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="drain period in seconds: after SIGTERM readiness fails while requests are still answered",
    )
    dask_scheduler: str | None = Field(
        default=None, description="address of a Dask scheduler for training; unset: local processes"
    )
    learner_modules: str = Field(
        default="",
        description="modules of learners, comma-separated, in addition to scikit-learn; a server "
        "trusts their classes with whatever state an artifact gives them",
    )
    endpoint_hosts: str = Field(
        default="",
        description="hosts, comma-separated, that runs may call: names or addresses, * for any part, each with a port "
        "if only that one may be; loopback and private addresses only if named; unset: every public address",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="least level logged")
    log_format: Literal["text", "json"] = Field(default="text", description="how a line of the log looks")

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("redis_url")
    @classmethod
    def _known_scheme(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        urlsplit(value or "").port  # noqa: B018 (raises ValueError if it is no port)
        return value

    @field_validator("url")
    @classmethod
    def _is_of_the_web(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in ("http", "https"):
            raise ValueError("must start with http:// or https://")
        if value is not None and urlsplit(value).path.rstrip("/").endswith("/v1"):
            raise ValueError("must be the server's address, without /v1")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: str) -> str:
        for origin in _listed(value):
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}" or "*" in origin:
                raise ValueError(f"must be origins like https://example.org, without a path, got {origin!r}")
        return value

    @field_validator("endpoint_hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        for pattern in _listed(value):
            host, colon, port = pattern.rpartition(":")
            has_odd_port = bool(colon) and (":" not in host or host.endswith("]")) and not port.isdecimal()
            if has_odd_port or "/" in pattern or " " in pattern or "@" in pattern:
                raise ValueError(
                    f"must be hosts like models.example, *.models.example, or 127.0.0.1:9000, got {pattern!r}"
                )
        return value

    def allowed_origins(self) -> tuple[str, ...]:
        """Give the origins whose pages may ask in a browser."""
        return _listed(self.cors_origins)

    def callable_hosts(self) -> tuple[str, ...]:
        """Give the patterns of hosts that runs may call."""
        return _listed(self.endpoint_hosts)

    def allowed_modules(self) -> tuple[str, ...]:
        """The modules of learners, in addition to scikit-learn."""
        return _listed(self.learner_modules)
