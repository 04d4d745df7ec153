"""Settings, read once from environment variables."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, FilePath, SecretStr, field_validator, model_validator
from pydantic_core import from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.environment_file import EnvironmentFile, parse_comma_list, validate_host_patterns
from models.base import NAME_PATTERN
from models.errors import Fault, InvalidRequest
from models.team_quota import EVERY_TEAM, NO_QUOTA, TeamQuota, check_name_prefixes

Role = Literal["decide", "build"]
PREFIX = "PARSIMONY_"
_MEBIBYTE = 2**20


class KeyGrant(NamedTuple):
    """The role of an API key, and its team; empty without a team."""

    role: Role
    team: str = ""


def _hashed(text: str) -> dict[bytes, KeyGrant]:
    """Parse keys, roles, and teams; error messages contain no key."""
    grants: dict[bytes, KeyGrant] = {}
    if text and not parse_comma_list(text):
        raise ValueError("must have at least one key; unset it to disable authentication")
    for position, entry in enumerate(parse_comma_list(text), start=1):
        key, colon, granted = entry.rpartition(":")
        role, at, team = granted.partition("@")
        if not (colon and key and role in ("decide", "build")):
            raise ValueError(f"entry {position} must be key:role or key:role@team with the role decide or build")
        if at and not re.match(NAME_PATTERN, team):
            raise ValueError(f"entry {position} must have a team of lower-case letters, digits, '.', '_' or '-'")
        digest = sha256(key.encode()).digest()
        if digest in grants:
            raise ValueError(f"duplicate key in entry {position}")
        grants[digest] = KeyGrant("build" if role == "build" else "decide", team)
    return grants


def _parse_json(value: object) -> object:
    """Parse a text; what is not JSON is refused like any other value."""
    return from_json(value) if isinstance(value, str) else value


def misspelled_settings(environ: Iterable[str]) -> dict[str, str]:
    """Return environment variables that resemble settings, with the likely setting.

    Other variables with the prefix are ignored, because clusters set such variables for their services.

    >>> misspelled_settings(["PARSIMONY_MAX_BACTH", "PARSIMONY_HOST", "parsimony_port", "PARSIMONY_SERVICE_HOST"])
    {'PARSIMONY_MAX_BACTH': 'PARSIMONY_MAX_BATCH'}
    """
    known = [name.upper() for name in Settings.model_fields]
    ours = {name: name.upper().removeprefix(PREFIX) for name in environ if name.upper().startswith(PREFIX)}
    meant = {name: get_close_matches(rest, known, 1, cutoff=0.75) for name, rest in ours.items() if rest not in known}
    return {name: PREFIX + close[0] for name, close in meant.items() if close}


class Settings(BaseSettings):
    """Settings; each is an environment variable with the prefix ``PARSIMONY_``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    redis_url: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="URL of the store: `redis://`, `rediss://`, or `unix://`; unset: an embedded Redis in "
        "`PARSIMONY_DATA_DIR`",
    )
    url: str | None = Field(
        default=None,
        description="URL of the server that commands use, `http://` or `https://`; unset: the server that runs on "
        "`PARSIMONY_DATA_DIR`, or else the store",
    )
    key: SecretStr | None = Field(default=None, description="API key that commands send to the server")
    data_dir: Path = Field(default=Path("data"), description="folder of the embedded Redis, and of recordings")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on")
    workers: int = Field(default=1, ge=1, le=64, description="number of server processes")
    api_keys: Annotated[dict[bytes, KeyGrant], NoDecode, BeforeValidator(_hashed)] = Field(
        default="",  # type: ignore[arg-type]  # read like any other value
        repr=False,
        exclude=True,
        description="API keys as `key:role,…` or `key:role@team,…`; role `decide` may read, decide, and run, `build` "
        "may also change; budgets may limit what a team spends; unset: no authentication. The server keeps only the "
        "SHA-256 hash of each key",
    )
    team_quotas: Annotated[dict[str, TeamQuota], NoDecode, BeforeValidator(_parse_json)] = Field(
        default={},
        description='quotas of teams as JSON: `{"search": {"names": "search-", "datasets": 20, "open_builds": 2}}`, '
        "also `artifacts`, `bytes`, and `requests_per_second`; `*`: all teams that are not listed",
    )
    max_body_bytes: int = Field(
        default=256 * _MEBIBYTE,
        ge=1024,
        le=500 * _MEBIBYTE,
        description="maximum size of a request body, in bytes; some operations have a lower maximum",
    )
    upload_dir: Path | None = Field(
        default=None,
        description="folder of resumable uploads, which servers and workers must share; unset: `uploads` in "
        "`PARSIMONY_DATA_DIR` with an embedded Redis, else no resumable uploads",
    )
    max_upload_bytes: int = Field(
        default=10 * 1024 * _MEBIBYTE,
        ge=1024,
        description="maximum size of a resumable upload, in bytes; also of its table after decompression",
    )
    max_chat_bytes: int = Field(
        default=20 * _MEBIBYTE,
        ge=1024,
        le=100 * _MEBIBYTE,
        description="maximum size of a chat request, in bytes, including its images",
    )
    rate_limit: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="maximum requests per second for each API key (without a known key: each client address) and "
        "server process, on every path except `/health/`; unset: no limit",
    )
    cors_origins: str = Field(
        default="", description="comma-separated origins that browsers may call the API from (CORS); unset: none"
    )
    max_batch: int = Field(
        default=10_000,
        ge=1,
        description="maximum items in one request, in a Parquet file of a batch, and in a batch that a portfolio "
        "assigns together",
    )
    max_batch_items: int = Field(
        default=1_000_000, ge=1, description="maximum items in a JSON Lines file of a batch; items are in the store"
    )
    max_concurrent_items: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="maximum items of runs at the same time for each API key (without a known key: each client "
        "address) and server process; further items wait",
    )
    build_queue_limit: int = Field(default=100, ge=1, description="maximum builds in the queue, and maximum batches")
    build_timeout_s: int = Field(default=3600, ge=1, description="timeout of a build, in seconds")
    solve_timeout_s: float = Field(default=10.0, gt=0, description="timeout of a solve, in seconds")
    drain_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="drain period of a graceful shutdown, in seconds: after SIGTERM, readiness fails while requests "
        "are still answered",
    )
    dask_scheduler: str | None = Field(
        default=None, description="address of a Dask scheduler for training; unset: local processes"
    )
    learner_modules: str = Field(
        default="",
        description="comma-separated modules of learners, in addition to scikit-learn; the server loads their classes "
        "from artifacts, so they must be trusted",
    )
    endpoint_hosts: str = Field(
        default="",
        description="comma-separated hosts that runs may call: names or addresses, `*` as a wildcard, `:port` to allow "
        "one port only; loopback and private addresses must be listed; unset: all public addresses",
    )
    endpoint_env_file: FilePath | None = Field(
        default=None,
        description="file of lines `NAME=value` with keys of endpoints (`PARSIMONY_SECRET_…`), which take precedence "
        "over the environment, and further hosts (`PARSIMONY_ENDPOINT_HOSTS`); a changed file is read again within a "
        "second; unset: none",
    )
    dataset_sources: str = Field(
        default="",
        description="comma-separated locations whose Parquet files datasets may refer to: `file:///data`, "
        "`s3://bucket/folder`, `gs://…`, `az://…`; servers and workers must reach them, with credentials from the "
        "environment; unset: none",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="minimum level of log messages"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="format of a log line")

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
        for origin in parse_comma_list(value):
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}" or "*" in origin:
                raise ValueError(f"must be origins like https://example.org, without a path, got {origin!r}")
        return value

    @field_validator("endpoint_hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        validate_host_patterns(value)
        return value

    @field_validator("endpoint_env_file")
    @classmethod
    def _is_valid_file(cls, value: Path | None) -> Path | None:
        if value is not None:
            EnvironmentFile(value)
        return value

    @field_validator("dataset_sources")
    @classmethod
    def _are_locations(cls, value: str) -> str:
        for location in parse_comma_list(value):
            if not re.fullmatch(r"(file:///|(s3|gs|az)://[^/*?\[]+)[^*?\[]*", location):
                raise ValueError(f"must be locations like file:///data or s3://bucket/folder, got {location!r}")
        return value

    @model_validator(mode="after")
    def _quotas_are_of_teams(self) -> Self:
        unknown = sorted(self.team_quotas.keys() - self.teams - ({EVERY_TEAM} if self.teams else set()))
        if unknown and self.api_keys:  # workers and commands have none
            known = ", ".join(sorted(self.teams)) or "none"
            raise ValueError(f"team_quotas: no API key has the team {unknown[0]!r}; teams: {known}")
        return self

    @field_validator("team_quotas")
    @classmethod
    def _have_own_names(cls, value: dict[str, TeamQuota]) -> dict[str, TeamQuota]:
        check_name_prefixes(value)
        return value

    @property
    def teams(self) -> set[str]:
        """The teams of the API keys."""
        return {grant.team for grant in self.api_keys.values() if grant.team}

    def find_quota(self, team: str) -> TeamQuota:
        """Return the quota of a team; keys without a team have none."""
        if not team:
            return NO_QUOTA
        return self.team_quotas.get(team, self.team_quotas.get(EVERY_TEAM, NO_QUOTA))

    def find_team_of_key(self, key_id: str) -> str:
        """Return the team of the key with this id; empty if the key has none, or is unknown.

        Args:
            key_id: the first 8 hexadecimal digits of the key's SHA-256.
        """
        return next((one.team for digest, one in self.api_keys.items() if digest[:4].hex() == key_id), "")

    def team_rates(self) -> dict[str, float]:
        """Return the maximum requests per second of each team that has one."""
        rates = {team: self.find_quota(team).requests_per_second for team in self.teams}
        return {team: rate for team, rate in rates.items() if rate is not None}

    @property
    def recordings_dir(self) -> Path:
        """The folder of recordings."""
        return self.data_dir / "recordings"

    def find_upload_dir(self) -> Path:
        """Return the folder of resumable uploads; raises InvalidRequest if servers and workers share none."""
        if self.upload_dir is not None:
            return self.upload_dir
        if self.redis_url is not None:
            message = "must be set to a folder that all servers and workers share, to enable resumable uploads"
            raise InvalidRequest.from_faults(Fault(("PARSIMONY_UPLOAD_DIR",), message))
        return self.data_dir / "uploads"

    def allowed_origins(self) -> tuple[str, ...]:
        """Return the origins whose pages may send requests (CORS)."""
        return parse_comma_list(self.cors_origins)

    def callable_hosts(self) -> tuple[str, ...]:
        """Return the patterns of allowed hosts of endpoints."""
        return parse_comma_list(self.endpoint_hosts)

    def allowed_sources(self) -> tuple[str, ...]:
        """Return the locations whose files datasets may refer to."""
        return parse_comma_list(self.dataset_sources)

    def allowed_modules(self) -> tuple[str, ...]:
        """Return the modules of allowed learners in addition to scikit-learn."""
        return parse_comma_list(self.learner_modules)
