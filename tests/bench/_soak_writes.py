"""Uploads, builds, imports, roll-backs and deletions, with a ledger of what the service said it had done."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Event
from typing import Any

import httpx

from app.store import codec
from solvers import KINDS
from tests.bench._soak_house import House
from tests.bench._soak_look_ups import NAME, Answers, Version, learn
from tests.support.samples import trace_upload
from tests.support.services import OCTETS
from tests.support.subjects import SAMPLES

PAUSE_S = 0.1
ENDED = ("succeeded", "failed", "cancelled")


@dataclass
class Ledger:
    """What was promised: published versions, and those that may be deleted; counted outcomes, and those that may be."""

    published: set[Version] = field(default_factory=set)
    maybe_deleted: set[Version] = field(default_factory=set)
    builds: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    internal: list[str] = field(default_factory=list)
    outcomes: int = 0
    maybe_outcomes: int = 0


@dataclass
class Writer:
    """Writes at random, and notes what it was told."""

    house: House
    ledger: Ledger
    answers: Answers
    originals: dict[str, bytes]
    decision: str
    draw: random.Random

    def run(self, stop: Event) -> None:
        """Write until told to stop."""
        writes = [self._import, self._import, self._upload, self._build, self._activate, self._activate, self._delete]
        writes += [self._tell, self._tell]
        with self.house.client(40) as client:
            while not stop.is_set():
                self.ledger.counts["writes"] += 1
                try:
                    self.draw.choice(writes)(client)
                except httpx.TransportError as error:
                    self.ledger.errors[f"write: {type(error).__name__}"] += 1
                time.sleep(PAUSE_S)

    def _done(self, reply: httpx.Response, *expected: int) -> bool:
        """Tell whether a request was granted; count it by its kind if not."""
        if reply.status_code in expected:
            return True
        self.ledger.errors[f"write: {reply.status_code}"] += 1
        if reply.status_code == 500:
            self.ledger.internal.append(reply.text)
        return False

    def _import(self, client: httpx.Client) -> None:
        solver = self.draw.choice(sorted(self.originals))
        data = reseeded(self.originals[solver], solver, self.draw.randrange(1000))
        reply = client.post("/v1/artifacts/import", content=data, headers=OCTETS)
        if self._done(reply, 201):
            version = (solver, reply.json()["version"])
            self.ledger.published.add(version)
            learn(self.answers, version, reply.json(), data)

    def _upload(self, client: httpx.Client) -> None:
        files = trace_upload(self.draw.choice([200, 300]))
        self._done(client.put(f"/v1/datasets/other-{self.draw.randrange(3)}", files=files), 200, 201)

    def _build(self, client: httpx.Client) -> None:
        solver = self.draw.choice(["cascade", "cascade", *sorted(SAMPLES)])
        dataset, params = SAMPLES[solver].dataset, SAMPLES[solver].params
        body = {"solver": solver, "name": NAME, "dataset": dataset, "params": params, "seed": self.draw.randrange(100)}
        reply = client.post("/v1/builds", json=body)
        if self._done(reply, 202, 429) and reply.status_code == 202:
            self.ledger.builds.append(reply.json()["id"])

    def _activate(self, client: httpx.Client) -> None:
        solver, version = self.draw.choice(sorted(self.ledger.published))
        self._done(client.put(f"/v1/artifacts/{solver}/{NAME}/active", json={"version": version}), 200, 404)

    def _delete(self, client: httpx.Client) -> None:
        known = sorted(each for each in self.ledger.published if each in self.answers.plans and each[1] > 1)
        if known:
            solver, version = self.draw.choice(known)
            self.ledger.maybe_deleted.add((solver, version))  # whatever becomes of the request
            self._done(client.delete(f"/v1/artifacts/{solver}/{NAME}/versions/{version}"), 204, 404, 409)

    def _tell(self, client: httpx.Client) -> None:
        outcomes = [{"decision": self.decision, "correct": self.draw.random() < 0.9}] * self.draw.randint(1, 20)
        self.ledger.maybe_outcomes += len(outcomes)  # whatever becomes of the request
        if self._done(client.post("/v1/feedback", json={"items": outcomes}), 200):
            self.ledger.maybe_outcomes -= len(outcomes)
            self.ledger.outcomes += len(outcomes)


def reseeded(data: bytes, solver: str, seed: int) -> bytes:
    """Give an artifact whose bytes are others and whose plan is the same."""
    manifest = {name: value for name, value in codec.read_manifest(data).items() if name not in ("format", "kind")}
    return codec.encode(codec.decode(data, KINDS[solver].plan), manifest | {"seed": seed})


def take_stock(house: House, ledger: Ledger, answers: Answers, *, whole: bool = False) -> dict[Version, str]:
    """List every version and read the bytes of those that are new, or of all; learn their plans.

    Gives what is wrong with those that should be there.
    """
    faults: dict[Version, str] = {}
    with house.client() as client:
        for solver in SAMPLES:
            records = every(client, f"/v1/artifacts/{solver}/{NAME}/versions")
            for record in records:
                version = (solver, record["version"])
                if whole or version not in answers.plans:
                    fault = _read(client, answers, version, record)
                    faults |= {version: fault} if fault and version not in ledger.maybe_deleted else {}
            there = {(solver, record["version"]) for record in records}
            wanted = {each for each in ledger.published - ledger.maybe_deleted if each[0] == solver}
            faults |= dict.fromkeys(wanted - there, "is not there")
    return faults


def _read(client: httpx.Client, answers: Answers, version: Version, record: dict[str, Any]) -> str | None:
    """Hold a version's bytes against its record, and the record against what was told before; say what is wrong."""
    reply = client.get(f"/v1/artifacts/{version[0]}/{NAME}/versions/{version[1]}/export")
    digest = sha256(reply.content).hexdigest()
    if reply.status_code != 200 or digest != record["sha256"]:
        return f"cannot be read: {reply.status_code} {reply.content[:100]!r}"
    if version not in answers.plans:
        learn(answers, version, record, reply.content)
    promised = answers.plans[version].record.sha256
    return None if digest == promised else f"has the SHA-256 {digest}, {promised} was promised"


def miscounted(house: House, ledger: Ledger) -> list[str]:
    """Hold the outcomes that are counted against those that were told: each that was granted counts once."""
    with house.client() as client:
        counted = client.get(f"/v1/feedback/cascade/{NAME}", params={"version": 1}).json()["outcomes"]
    if ledger.outcomes <= counted <= ledger.outcomes + ledger.maybe_outcomes:
        return []
    return [f"{counted} outcomes are counted, {ledger.outcomes} were granted and {ledger.maybe_outcomes} may have been"]


def unended(house: House, ledger: Ledger, seconds: float) -> list[str]:
    """Wait for the builds to end, as long as one ends every so many seconds, and name those that do not.

    What they published was promised too.
    """
    deadline = time.monotonic() + seconds
    with house.client() as client:
        left = list(ledger.builds)
        while left and time.monotonic() < deadline:
            builds = [client.get(f"/v1/builds/{build}").json() for build in left]
            before, left = len(left), [build["id"] for build in builds if build["status"] not in ENDED]
            if len(left) < before:
                deadline = time.monotonic() + seconds
            for build in builds:
                if build["status"] == "succeeded":
                    ledger.published.add((build["artifact"]["solver"], build["artifact"]["version"]))
            time.sleep(0.5)
    return left


def counted_builds(house: House) -> dict[str, int]:
    """Count the builds that are remembered by what became of them."""
    with house.client() as client:
        return dict(Counter(build["status"] for build in every(client, "/v1/builds")))


def every(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """List the items of all pages."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get(path, params={"limit": "1000", **cursor}).json()
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = {"cursor": page["next"]}
