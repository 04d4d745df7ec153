"""Mixed traffic on a whole service, with a fault every few seconds: ``parsimony bench soak``.

Every answer is compared with the plan decoded in this process. At the end the bytes of every version that was promised
are read and compared with their SHA-256, and every outcome that was accepted must have been counted once. The exit
status is 1 if anything that must be 0 is not.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson

from app.routes.kinds import make_kind_routes
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import FastDecisionRoute, encode_decision_reply
from app.store import codec
from models import ArtifactRecord
from models.errors import Infeasible, ParsimonyError
from solvers import KINDS
from tests.bench._soak_house import FAULTS, House
from tests.support.kinds import SAMPLES, build_all, upload_all
from tests.support.samples import trace_upload
from tests.support.services import OCTETS

READERS = 2
FAULT_S = (3.0, 8.0)
WRITE_PAUSE_S = 0.1
BUILDS_END_S = 180.0
EXAMPLES = 5
NAME = "plan"
ENDED = ("succeeded", "failed", "cancelled")
LOOK_UPS = {
    f"{look_up.kind}{look_up.suffix}": look_up
    for kind in KINDS.values()
    for look_up in make_kind_routes(kind).fast_routes
}
Version = tuple[str, int]
"""A kind, and a version of its artifact."""
Answer = tuple[Version, FastDecisionRoute, Any, bytes]


@dataclass
class Soak:
    """A soak, and what it has found. open: answers by a version that is not known yet."""

    house: House
    plans: dict[Version, LoadedArtifact[Any]] = field(default_factory=dict)
    open: list[Answer] = field(default_factory=list)
    published: set[Version] = field(default_factory=set)
    maybe_deleted: set[Version] = field(default_factory=set)
    builds: list[str] = field(default_factory=list)
    outcomes: int = 0
    maybe_outcomes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, promise: str, what: str) -> None:
        with self.lock:
            self.broken.setdefault(promise, []).append(what)

    def learn(self, version: Version, record: dict[str, Any], data: bytes) -> None:
        kind, _ = version
        plan = codec.decode(data, KINDS[kind].plan)
        self.plans[version] = LoadedArtifact.from_record(ArtifactRecord.model_validate(record), plan)

    def check(self, answer: Answer) -> None:
        version, look_up, query, body = answer
        if (loaded := self.plans.get(version)) is None:
            with self.lock:
                self.open.append(answer)
            return
        self.counts["answers checked"] += 1
        parsed = look_up.query_type.model_validate_json(json.dumps(query))
        try:
            reply = look_up.handler(loaded, parsed)
            wanted = (
                encode_decision_reply(loaded.plan.decide(parsed), loaded, budget_pacing=None)
                if reply is None
                else reply
            )
        except Infeasible:
            wanted = b"null"
        except ParsimonyError as error:
            wanted = orjson.dumps(str(error))
        if orjson.loads(wanted) != orjson.loads(body):
            self.note("wrong answers", f"{version} {query}: {body!r}, not {wanted!r}")


def draw_query(draw: random.Random) -> tuple[FastDecisionRoute, dict[str, Any]]:
    look_up = LOOK_UPS[draw.choice(sorted(LOOK_UPS))]
    match look_up.kind, look_up.suffix:
        case "cascade", _:
            return look_up, {"deadline": round(draw.uniform(12, 30), 2)} if draw.random() < 0.8 else {}
        case "index", _:
            return look_up, {"size": draw.randint(32, 512), "budget": round(draw.uniform(0, 12), 2)}
        case "portfolio", _:
            query = [round(draw.random(), 3), round(draw.random(), 3)]
            return look_up, {"query": query, "budget": f"{100 * (round(draw.random(), 2)):.6f}%"}
        case "policy", _:
            known = {"fast": ["cat", 0.9]} if draw.random() < 0.5 else {}
            return look_up, {"acquired": known, "item": f"item-{draw.randrange(1000)}"}
        case _, "/decision":
            return look_up, {"budget": round(draw.uniform(0.6, 8), 2)}
        case _:
            return look_up, {"features": {"age": draw.randint(20, 90)} if draw.random() < 0.5 else {}}


def read_on(soak: Soak, seed: int, stop: threading.Event) -> None:
    """Look up, and check each answer, until stopped. Only while a server is being killed may a look-up fail."""
    draw = random.Random(seed)
    with soak.house.client(10) as client:
        while not stop.is_set():
            look_up, query = draw_query(draw)
            excused = soak.house.broken.is_set()
            sent = {"json": query} if look_up.method == "POST" else {"params": query}
            try:
                reply = client.request(look_up.method, f"{look_up.prefix}{NAME}{look_up.suffix}", **sent)  # type: ignore[arg-type]
            except httpx.TransportError as error:
                if not excused and not soak.house.broken.is_set():
                    soak.note("look-ups refused", repr(error))
                time.sleep(0.05)
                continue
            soak.counts["look-ups"] += 1
            if reply.status_code == 200:
                version = look_up.kind, int(reply.json()["artifact"]["version"])
                soak.check((version, look_up, query, reply.content))
            elif reply.status_code != 409:
                soak.note("look-ups refused", f"{reply.status_code} {reply.text}")


@dataclass
class Writer:
    """Imports, uploads, builds, rolls back, deletes and reports outcomes at random, and notes what was accepted."""

    soak: Soak
    originals: dict[str, bytes]
    decision: str
    draw: random.Random

    def write_on(self, stop: threading.Event) -> None:
        writes = [self._import, self._import, self._upload, self._build, self._activate, self._delete, self._report]
        with self.soak.house.client(40) as client:
            while not stop.is_set():
                self.soak.counts["writes"] += 1
                try:
                    self.draw.choice(writes)(client)
                except httpx.TransportError as error:
                    self.soak.counts[f"write: {type(error).__name__}"] += 1
                time.sleep(WRITE_PAUSE_S)

    def _accepted(self, reply: httpx.Response, *expected: int) -> bool:
        if reply.status_code in expected:
            return True
        self.soak.counts[f"write: {reply.status_code}"] += 1
        if reply.status_code == 500:
            self.soak.note("internal errors", reply.text)
        return False

    def _import(self, client: httpx.Client) -> None:
        kind = self.draw.choice(sorted(self.originals))
        known = codec.read_manifest(self.originals[kind])
        manifest = {name: value for name, value in known.items() if name not in ("format", "type")}
        plan = codec.decode(self.originals[kind], KINDS[kind].plan)
        data = codec.encode(plan, manifest | {"seed": self.draw.randrange(1000)})  # other bytes, the same plan
        reply = client.post("/v1/artifacts/import", content=data, headers=OCTETS)
        if self._accepted(reply, 201):
            self.soak.published.add((kind, reply.json()["version"]))
            self.soak.learn((kind, reply.json()["version"]), reply.json(), data)

    def _upload(self, client: httpx.Client) -> None:
        files = trace_upload(self.draw.choice([200, 300]))
        self._accepted(client.put(f"/v1/datasets/other-{self.draw.randrange(3)}", files=files), 200, 201)

    def _build(self, client: httpx.Client) -> None:
        kind = self.draw.choice(["cascade", "cascade", *sorted(SAMPLES)])
        dataset, params = SAMPLES[kind].dataset, SAMPLES[kind].params
        body = {"kind": kind, "name": NAME, "dataset": dataset, "params": params, "seed": self.draw.randrange(100)}
        reply = client.post("/v1/builds", json=body)
        if self._accepted(reply, 202, 429) and reply.status_code == 202:
            self.soak.builds.append(reply.json()["id"])

    def _activate(self, client: httpx.Client) -> None:
        kind, version = self.draw.choice(sorted(self.soak.published))
        self._accepted(client.put(f"/v1/artifacts/{kind}/{NAME}/active", json={"version": version}), 200, 404)

    def _delete(self, client: httpx.Client) -> None:
        known = sorted(each for each in self.soak.published if each in self.soak.plans and each[1] > 1)
        if known:
            kind, version = self.draw.choice(known)
            self.soak.maybe_deleted.add((kind, version))  # whatever becomes of the request
            self._accepted(client.delete(f"/v1/artifacts/{kind}/{NAME}/versions/{version}"), 204, 404, 409)

    def _report(self, client: httpx.Client) -> None:
        outcomes = [{"decision": self.decision, "correct": self.draw.random() < 0.9}] * self.draw.randint(1, 20)
        self.soak.maybe_outcomes += len(outcomes)  # whatever becomes of the request
        if self._accepted(client.post("/v1/feedback", json={"items": outcomes}), 200):
            self.soak.maybe_outcomes -= len(outcomes)
            self.soak.outcomes += len(outcomes)


def take_stock(soak: Soak, *, whole: bool = False) -> None:
    """Read the bytes of new versions, or of all; then check the answers that waited for them."""
    with soak.house.client() as client:
        for kind in SAMPLES:
            records = list_all(client, f"/v1/artifacts/{kind}/{NAME}/versions")
            for record in records:
                version = (kind, record["version"])
                if (whole or version not in soak.plans) and version not in soak.maybe_deleted:
                    _read(soak, client, version, record)
            there = {(kind, record["version"]) for record in records}
            wanted = {each for each in soak.published - soak.maybe_deleted if each[0] == kind}
            for version in wanted - there if whole else ():
                soak.note("lost artifacts", f"{version} not found")
    with soak.lock:
        waiting, soak.open = soak.open, []
    for answer in waiting:
        soak.check(answer)


def _read(soak: Soak, client: httpx.Client, version: Version, record: dict[str, Any]) -> None:
    reply = client.get(f"/v1/artifacts/{version[0]}/{NAME}/versions/{version[1]}/export")
    digest = sha256(reply.content).hexdigest()
    if reply.status_code == 200 and version not in soak.plans:
        soak.learn(version, record, reply.content)
    if reply.status_code != 200 or not digest == record["sha256"] == soak.plans[version].record.sha256:
        soak.note("lost artifacts", f"{version}: {reply.status_code} {digest}")


def list_all(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get(path, params={"limit": "1000", **cursor}).json()
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = {"cursor": page["next"]}


def settle(soak: Soak) -> None:
    """Wait for all builds to end, as long as one ends every so often; then compare promises with the service."""
    soak.house.wait_until_whole()
    with soak.house.client() as client:
        left, deadline = soak.builds, time.monotonic() + BUILDS_END_S
        while left and time.monotonic() < deadline:
            builds = [client.get(f"/v1/builds/{build}").json() for build in left]
            ended = [build for build in builds if build["status"] in ENDED]
            for build in (build for build in ended if build["status"] == "succeeded"):
                soak.published.add((build["artifact"]["kind"], build["artifact"]["version"]))
            left = [build["id"] for build in builds if build["status"] not in ENDED]
            deadline = time.monotonic() + BUILDS_END_S if ended else deadline
            time.sleep(0.5)
        for build in left:
            soak.note("builds without end", build)
        counted = client.get(f"/v1/feedback/cascade/{NAME}", params={"version": 1}).json()["outcomes"]
    if not soak.outcomes <= counted <= soak.outcomes + soak.maybe_outcomes:
        soak.note("outcomes miscounted", f"{counted}, not {soak.outcomes} to {soak.outcomes + soak.maybe_outcomes}")
    take_stock(soak, whole=True)
    for answer in soak.open:
        soak.note("answers unchecked", str(answer))


def run(soak: Soak, seconds: float, seed: int) -> None:
    upload_all(soak.house.server)
    build_all(soak.house.server, NAME)
    soak.published |= {(kind, 1) for kind in SAMPLES}
    with soak.house.client() as client:
        paths = {kind: f"/v1/artifacts/{kind}/{NAME}" for kind in SAMPLES}
        originals = {kind: client.get(f"{path}/versions/1/export").content for kind, path in paths.items()}
        for kind, path in paths.items():
            soak.learn((kind, 1), client.get(path).json(), originals[kind])
        decision = client.get(f"/v1/cascades/{NAME}/decision").json()["decision"]
    stop, draw = threading.Event(), random.Random(seed)
    writer = Writer(soak, originals, decision, random.Random(seed))
    threads = [threading.Thread(target=writer.write_on, args=(stop,))]
    threads += [threading.Thread(target=read_on, args=(soak, seed + n, stop)) for n in range(1, READERS + 1)]
    for thread in threads:
        thread.start()
    try:
        until, waiting = time.monotonic() + seconds, list[str]()
        while time.monotonic() < until:
            waiting = waiting or draw.sample(sorted(FAULTS), len(FAULTS))  # each once before any is repeated
            name = waiting.pop()
            soak.counts[name] += 1
            try:
                with FAULTS[name](soak.house, draw):
                    time.sleep(draw.uniform(*FAULT_S))
                soak.house.mend_workers()
                soak.house.wait_until_whole()
            except AssertionError as error:
                soak.note("not whole again", f"after {name}: {error}")
            take_stock(soak)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    settle(soak)


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak, print the counts, and exit with 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="parsimony bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="parsimony-soak-") as folder:
        soak = Soak(House(Path(folder) / "house"))
        try:
            run(soak, 60 * chosen.minutes, chosen.seed)
        finally:
            soak.house.close()
    examples = {promise: each[:EXAMPLES] for promise, each in soak.broken.items()}
    found = {"counts": dict(sorted(soak.counts.items())), "must be 0": {k: len(v) for k, v in soak.broken.items()}}
    sys.stdout.write(json.dumps(found | {"examples": examples}, indent=2) + "\n")
    sys.exit(bool(soak.broken))


if __name__ == "__main__":
    main()
