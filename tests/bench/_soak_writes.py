"""Uploads, builds, imports, roll-backs and deletions, with a ledger of what the service said it had done."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Event
from typing import Any

import httpx

from app import codec
from solvers import SOLVERS
from tests.bench._soak_house import House
from tests.bench._soak_look_ups import NAME, Answers, Version, learn
from tests.faults.services import OCTETS
from tests.samples import trace_upload
from tests.subjects import BUILDS

PAUSE_S = 0.1
ENDED = ("succeeded", "failed", "cancelled")


@dataclass
class Ledger:
    """What was promised: versions that were published, and those that may have been deleted."""

    published: set[Version] = field(default_factory=set)
    maybe_deleted: set[Version] = field(default_factory=set)
    builds: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    internal: list[str] = field(default_factory=list)


def write_on(house: House, ledger: Ledger, originals: dict[str, bytes], seed: int) -> Callable[[Event], None]:
    """Make the function that writes until told to stop."""
    draw = random.Random(seed)

    def run(stop: Event) -> None:
        with house.client(40) as client:
            while not stop.is_set():
                write = draw.choice([_import, _import, _upload, _build, _activate, _activate, _delete])
                try:
                    ledger.counts["writes"] += 1
                    write(client, ledger, originals, draw)
                except httpx.TransportError as error:
                    ledger.errors[f"write: {type(error).__name__}"] += 1
                time.sleep(PAUSE_S)

    return run


def _done(ledger: Ledger, reply: httpx.Response, *expected: int) -> bool:
    """Tell whether a request was granted; count it by its kind if not."""
    if reply.status_code in expected:
        return True
    ledger.errors[f"write: {reply.status_code}"] += 1
    if reply.status_code == 500:
        ledger.internal.append(reply.text)
    return False


def _import(client: httpx.Client, ledger: Ledger, originals: dict[str, bytes], draw: random.Random) -> None:
    solver = draw.choice(sorted(originals))
    data = reseeded(originals[solver], solver, draw.randrange(1000))
    reply = client.post("/v1/artifacts/import", content=data, headers=OCTETS)
    if _done(ledger, reply, 201):
        ledger.published.add((solver, reply.json()["version"]))


def reseeded(data: bytes, solver: str, seed: int) -> bytes:
    """Give an artifact whose bytes are others and whose plan is the same."""
    manifest = {name: value for name, value in codec.read_manifest(data).items() if name not in ("format", "kind")}
    return codec.encode(codec.decode(data, SOLVERS[solver].plan), manifest | {"seed": seed})


def _upload(client: httpx.Client, ledger: Ledger, originals: dict[str, bytes], draw: random.Random) -> None:
    files = trace_upload(draw.choice([200, 300]))
    _done(ledger, client.put(f"/v1/datasets/other-{draw.randrange(3)}", files=files), 200, 201)


def _build(client: httpx.Client, ledger: Ledger, originals: dict[str, bytes], draw: random.Random) -> None:
    solver = draw.choice(["cascade", "cascade", *sorted(BUILDS)])
    dataset, params = BUILDS[solver]
    body = {"solver": solver, "name": NAME, "dataset": dataset, "params": params, "seed": draw.randrange(100)}
    reply = client.post("/v1/builds", json=body)
    if _done(ledger, reply, 202, 429):
        ledger.builds += [reply.json()["id"]] if reply.status_code == 202 else []


def _activate(client: httpx.Client, ledger: Ledger, originals: dict[str, bytes], draw: random.Random) -> None:
    solver, version = draw.choice(sorted(ledger.published))
    _done(ledger, client.put(f"/v1/artifacts/{solver}/{NAME}/active", json={"version": version}), 200, 404)


def _delete(client: httpx.Client, ledger: Ledger, originals: dict[str, bytes], draw: random.Random) -> None:
    solver, version = draw.choice(sorted(ledger.published))
    if version == 1:
        return
    ledger.maybe_deleted.add((solver, version))  # whatever becomes of the request
    _done(ledger, client.delete(f"/v1/artifacts/{solver}/{NAME}/versions/{version}"), 204, 404, 409)


def take_stock(house: House, ledger: Ledger, answers: Answers) -> dict[Version, str]:
    """List every version and read its bytes; learn its plan. Gives what is wrong with those that should be there."""
    faults: dict[Version, str] = {}
    with house.client() as client:
        for solver in BUILDS:
            records = client.get(f"/v1/artifacts/{solver}/{NAME}/versions").json()["items"]
            for record in records:
                version = (solver, record["version"])
                if version not in answers.plans:
                    _read(client, answers, version, record, faults)
            there = {(solver, record["version"]) for record in records}
            wanted = {each for each in ledger.published - ledger.maybe_deleted if each[0] == solver}
            faults |= dict.fromkeys(wanted - there, "is not there")
    return faults


def _read(
    client: httpx.Client, answers: Answers, version: Version, record: dict[str, Any], faults: dict[Version, str]
) -> None:
    reply = client.get(f"/v1/artifacts/{version[0]}/{NAME}/versions/{version[1]}/export")
    if reply.status_code == 404:
        return  # deleted since it was listed
    if reply.status_code != 200 or sha256(reply.content).hexdigest() != record["sha256"]:
        faults[version] = f"cannot be read: {reply.status_code} {reply.text[:100]!r}"
        return
    learn(answers, version, record, reply.content)


def unended(house: House, ledger: Ledger, seconds: float) -> list[str]:
    """Wait for the builds to end, and name those that do not; what they published was promised too."""
    deadline = time.monotonic() + seconds
    with house.client() as client:
        left = list(ledger.builds)
        while left and time.monotonic() < deadline:
            told = [client.get(f"/v1/builds/{build}").json() for build in left]
            left = [build["id"] for build in told if build["status"] not in ENDED]
            for build in told:
                if build["status"] == "succeeded":
                    ledger.published.add((build["artifact"]["solver"], build["artifact"]["version"]))
            time.sleep(0.5)
    return left


def counted_builds(house: House) -> dict[str, int]:
    """Count the builds that are remembered by what became of them."""
    with house.client() as client:
        return dict(Counter(build["status"] for build in json.loads(client.get("/v1/builds").text)["items"]))
