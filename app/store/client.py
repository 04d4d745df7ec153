"""The store: the only module that imports redis. A narrow door: keys, transactions, blobs, and errors in our words.

Every key begins with ``parsimony:``. Bytes are immutable and kept by their SHA-256 (``blob``), with the set of those
that refer to them (``refs``), so that equal bytes are kept once and go when the last reference goes.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar, cast

import redis
from pydantic import BaseModel, ValidationError
from redis.backoff import ExponentialBackoff
from redis.client import Pipeline
from redis.retry import Retry

from models.errors import StoreRefused, StoreUnavailable

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
PREFIX = "parsimony"
_AWAY = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.MaxConnectionsError)
_REFUSALS = (redis.exceptions.OutOfMemoryError, redis.ReadOnlyError, redis.exceptions.ResponseError)
TIMEOUT_S = 10.0
"""How long a reply may take: a value of hundreds of megabytes is written to disk before it is answered."""

__all__ = ["Pipeline", "Store", "make_key", "translate_errors"]


def make_key(*parts: object) -> str:
    """Spell a key.

    >>> make_key("dataset", "digits")
    'parsimony:dataset:digits'
    """
    return ":".join((PREFIX, *map(str, parts)))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Change the client's errors into ours: the store cannot be reached, or it will not write."""
    try:
        yield
    except _AWAY as error:
        raise StoreUnavailable(f"the store cannot be reached: {error}") from error
    except _REFUSALS as error:
        raise StoreRefused(f"the store refuses: {error}") from error


class Store:
    """A connection to the store, made when it is first needed; every call raises StoreUnavailable or StoreRefused."""

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
        """Close every connection."""
        self.client.close()

    def check_connection(self) -> None:
        """Ask for a sign of life."""
        self.execute("ping")

    def write_refusal(self) -> str | None:
        """Return why the store takes no writes (it is full, or read-only), None if it takes them.

        What is written is there already, all but the first time, so that asking costs the store nothing.
        """
        try:
            self.execute("set", make_key("asked"), b"", nx=True)
        except StoreRefused as error:
            return str(error)
        return None

    def list_hazards(self) -> list[str]:
        """Name the settings by which the store forgets what it holds."""
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
        """Give the answer to one command of the client, text as bytes: ``ask("hget", name, field)``."""
        with translate_errors():
            return getattr(self.client, command)(*arguments, **options)

    def get_texts(self, name: str) -> dict[str, str]:
        """Give a hash, as text."""
        return {field.decode(): value.decode() for field, value in self.execute("hgetall", name).items()}

    @contextmanager
    def open_pipeline(self) -> Iterator[Pipeline]:
        """Queue commands that only read, or need not be made all at once; ``execute`` sends them."""
        with translate_errors(), self.client.pipeline() as pipe:
            yield pipe

    def get_many(self, names: list[str]) -> list[bytes | None]:
        """Give what is kept under keys, in one look; None for what is not there."""
        if not names:
            return []
        values: list[bytes | None] = self.execute("mget", names)
        return values

    def get_members(self, name: str) -> list[str]:
        """Give the members of a set, sorted."""
        return sorted(item.decode() for item in self.execute("smembers", name))

    def run_transaction(self, change: Callable[[Pipeline], T], *watched: str) -> T:
        """Apply a change all at once.

        ``change`` reads through the pipeline, calls ``multi()``, queues its writes and gives the result; it runs again
        if a watched key was changed meanwhile, so it must have no effect of its own. If the connection breaks, the
        change was made wholly or not at all, and which is unknown: it is not retried, since it could be made twice.
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
        """Run a script on the store, all at once: it sees and changes the named keys with nobody in between."""
        with translate_errors():
            return cast("list[Any]", self.client.register_script(script)(keys=names, args=arguments))

    def get_blob(self, digest: str) -> bytes | None:
        """Give the bytes with this SHA-256, or None; bytes that changed in the store are refused."""
        data: bytes | None = self.execute("get", make_key("blob", digest))
        return None if data is None else checked_blob(data, digest)

    def announce_change(self, message: str) -> None:
        """Notify every server to read the pointers."""
        self.execute("publish", CHANNEL, message)

    @contextmanager
    def read_announcements(self) -> Iterator[Callable[[float], list[str]]]:
        """Listen: the callable waits so many seconds and gives what was announced until then."""
        with translate_errors(), self.client.pubsub(ignore_subscribe_messages=True) as listener:
            listener.subscribe(CHANNEL)
            listener.get_message(timeout=3.0)  # the server's word that it listens: nothing is missed from here on

            def wait(seconds: float) -> list[str]:
                heard: list[str] = []
                with translate_errors():
                    message = listener.get_message(timeout=seconds)
                    while message is not None:
                        heard.append(message["data"].decode())
                        message = listener.get_message(timeout=0.0) if len(heard) < _HEARD_AT_ONCE else None
                return heard

            yield wait


CHANNEL = make_key("announcements")
_HEARD_AT_ONCE = 1000
_DROP = """
redis.call('SREM', KEYS[2], ARGV[1])
if redis.call('SCARD', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
end
"""


def read_model(kind: type[M], data: bytes) -> M:
    """Read a record; raises StoreRefused if it is malformed."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise StoreRefused(f"a record in the store is not a {kind.__name__}: {data[:40]!r}") from error


def read_json(data: bytes) -> Any:
    """Read a JSON record; raises StoreRefused if it is malformed."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise StoreRefused(f"a record in the store is not JSON: {data[:40]!r}") from error


def keep_blob(pipe: Pipeline, data: bytes, digest: str, reference: str) -> None:
    """Queue the writing of bytes and of a reference to them."""
    pipe.set(make_key("blob", digest), data)
    pipe.sadd(make_key("refs", digest), reference)


def drop_blob(pipe: Pipeline, digest: str, reference: str) -> None:
    """Queue the removal of a reference, and of the bytes if it was the last."""
    pipe.eval(_DROP, 2, make_key("blob", digest), make_key("refs", digest), reference)


def checked_blob(data: bytes, digest: str) -> bytes:
    """Give bytes back if they are those with this SHA-256; raises StoreRefused."""
    if sha256(data).hexdigest() != digest:
        raise StoreRefused(f"the stored bytes {digest[:12]}… do not match their SHA-256; publish or upload them again")
    return data
