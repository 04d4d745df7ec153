"""Redis client of the store: keys, transactions, scripts, and blobs.

No other module imports redis. Every key begins with ``parsimony:``. Blobs are immutable and stored by their SHA-256
(``blob``). A set holds the references to each blob (``refs``). Equal bytes are stored once and deleted with the last
reference.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import redis
from pydantic import BaseModel, ValidationError
from redis.backoff import ExponentialBackoff
from redis.client import Pipeline
from redis.retry import Retry

from app.store.checksums import verify_checksum
from models.errors import StoreRefused, StoreUnavailable

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
PREFIX = "parsimony"
_AWAY = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.MaxConnectionsError)
_REFUSALS = (redis.exceptions.OutOfMemoryError, redis.ReadOnlyError, redis.exceptions.ResponseError)
TIMEOUT_S = 10.0
"""How long a reply may take: a value of hundreds of megabytes is written to disk before it is answered."""

__all__ = ["Pipeline", "Store", "make_store_key", "translate_errors"]


def make_store_key(*parts: object) -> str:
    """Return the store key of these parts.

    >>> make_store_key("dataset", "digits")
    'parsimony:dataset:digits'
    """
    return ":".join((PREFIX, *map(str, parts)))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the Redis client to StoreUnavailable and StoreRefused."""
    try:
        yield
    except _AWAY as error:
        raise StoreUnavailable(f"store unavailable: {error}") from error
    except _REFUSALS as error:
        raise StoreRefused(f"store rejected the command: {error}") from error


class Store:
    """A lazy connection to the Redis-protocol store.

    Every method may raise StoreUnavailable or StoreRefused.
    """

    def __init__(self, url: str, *, client_name: str = PREFIX, timeout_s: float = TIMEOUT_S) -> None:
        self.url, self.client_name = url, client_name
        over_tcp = {} if url.startswith("unix://") else {"socket_connect_timeout": 3.0, "socket_keepalive": True}
        self.client = redis.Redis.from_url(
            url,
            client_name=client_name,
            socket_timeout=timeout_s,
            health_check_interval=15,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 1, (redis.ConnectionError,)),  # not of what hangs
            **over_tcp,
        )

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    def check_connection(self) -> None:
        """Ping the store."""
        self.execute("ping")

    def write_refusal(self) -> str | None:
        """Return why the store rejects writes (full or read-only); None if it does not.

        The test key exists after the first check, so that checks take no memory.
        """
        try:
            self.execute("set", make_store_key("asked"), b"", nx=True)
        except StoreRefused as error:
            return str(error)
        return None

    def list_hazards(self) -> list[str]:
        """Return warnings about store settings that can lose data."""
        try:
            settings = self.execute("config_get", "maxmemory-policy", "appendonly", "save")
        except StoreRefused:  # hosted stores hide their settings; INFO has two of them
            info = self.execute("info")
            settings = {
                "maxmemory-policy": info.get("maxmemory_policy", "noeviction"),
                "appendonly": "yes" if info.get("aof_enabled") else "no",
                "save": "unknown",
            }
        hazards = []
        if (policy := settings.get("maxmemory-policy", "noeviction")) != "noeviction":
            hazards.append(f"the store evicts what it holds: maxmemory-policy must be noeviction, got {policy}")
        if settings.get("appendonly") == "no" and not settings.get("save"):
            hazards.append("the store keeps nothing on disk: set appendonly yes, or save")
        return hazards

    def execute(self, command: str, *arguments: Any, **options: Any) -> Any:
        """Execute a Redis command and return its raw reply, with strings as bytes.

        Example: ``execute("hget", name, field)``.
        """
        with translate_errors():
            return getattr(self.client, command)(*arguments, **options)

    def get_texts(self, name: str) -> dict[str, str]:
        """Return the fields and values of a Redis hash, decoded to str."""
        return {field.decode(): value.decode() for field, value in self.execute("hgetall", name).items()}

    @contextmanager
    def open_pipeline(self) -> Iterator[Pipeline]:
        """Yield a pipeline; ``execute`` sends its commands in one round trip.

        The commands are not atomic: queue reads, or independent writes.
        """
        with translate_errors(), self.client.pipeline() as pipe:
            yield pipe

    def get_many(self, names: list[str]) -> list[bytes | None]:
        """Return the values of several keys in one round trip; None for missing keys."""
        if not names:
            return []
        values: list[bytes | None] = self.execute("mget", names)
        return values

    def get_members(self, name: str) -> list[str]:
        """Return the members of a set, sorted."""
        return sorted(item.decode() for item in self.execute("smembers", name))

    def run_transaction(self, change: Callable[[Pipeline], T], *watched: str) -> T:
        """Run an optimistic transaction (WATCH, MULTI, EXEC) and return its result.

        ``change`` reads through the pipeline, calls ``multi()``, queues its writes, and returns the result. It runs
        again if a watched key has changed, so it must not have side effects. If the connection breaks, it is unknown
        whether the transaction was executed. Then it is not retried, because it could be executed twice.
        """
        with translate_errors(), self.client.pipeline() as pipe:
            while True:
                try:
                    if watched:
                        pipe.watch(*watched)
                    result = change(pipe)
                    pipe.execute()
                    return result
                except redis.WatchError as error:
                    if isinstance(error.__context__, _AWAY):  # the client calls this too a change of what was watched
                        raise error.__context__ from error

    def run(self, script: str, names: list[str], arguments: list[Any]) -> list[Any]:
        """Run a Lua script atomically on the named keys."""
        with translate_errors():
            return cast("list[Any]", self.client.register_script(script)(keys=names, args=arguments))

    def get_blob(self, digest: str) -> bytes | None:
        """Return the blob with this SHA-256, or None; raises StoreRefused if corrupt."""
        data: bytes | None = self.execute("get", make_store_key("blob", digest))
        return None if data is None else verify_checksum(data, digest)

    @contextmanager
    def read_announcements(self) -> Iterator[Callable[[float], list[str]]]:
        """Yield a function ``wait(seconds)`` that returns the next announcements.

        It waits at most for this time.
        """
        with translate_errors(), self.client.pubsub(ignore_subscribe_messages=True) as listener:
            listener.subscribe(CHANNEL)
            listener.get_message(timeout=3.0)  # the server's word that it listens: nothing is missed from here on

            def wait(seconds: float) -> list[str]:
                announced: list[str] = []
                with translate_errors():
                    message = listener.get_message(timeout=seconds)
                    while message is not None:
                        announced.append(message["data"].decode())
                        message = listener.get_message(timeout=0.0) if len(announced) < _MAX_ANNOUNCEMENTS else None
                return announced

            yield wait


CHANNEL = make_store_key("announcements")
_MAX_ANNOUNCEMENTS = 1000
_DROP = """
redis.call('SREM', KEYS[2], ARGV[1])
if redis.call('SCARD', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
end
"""


def read_model(kind: type[M], data: bytes) -> M:
    """Parse a JSON record as a model; raises StoreRefused if it is malformed."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise StoreRefused(f"record in the store must be a {kind.__name__}, got {data[:40]!r}") from error


def read_json(data: bytes) -> Any:
    """Parse a JSON record; raises StoreRefused if it is malformed."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise StoreRefused(f"record in the store must be JSON, got {data[:40]!r}") from error


def add_blob_reference(pipe: Pipeline, data: bytes, digest: str, reference: str) -> None:
    """Queue the write of a blob and of a reference to it."""
    pipe.set(make_store_key("blob", digest), data)
    pipe.sadd(make_store_key("refs", digest), reference)


def remove_blob_reference(pipe: Pipeline, digest: str, reference: str) -> None:
    """Queue the removal of a reference, and of the blob if it was the last one."""
    pipe.eval(_DROP, 2, make_store_key("blob", digest), make_store_key("refs", digest), reference)
