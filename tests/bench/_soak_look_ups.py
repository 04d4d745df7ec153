"""Look-ups of every subject, each answer held against the plan decoded in this process."""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

import httpx
import numpy as np
import orjson

from app.routes.subject import all_subjects
from app.serving.answers import LookUp, encode, facts_of
from app.serving.catalog import Live
from app.store import codec
from models import ArtifactRecord
from models.errors import Infeasible, ParsimonyError
from models.portfolio import AssignmentRequest
from solvers import KINDS
from tests.bench._soak_house import House

BATCH, BATCHES = 300, "/assignments"
SOLVED_S = 60.0


def _assigned(live: Live[Any], request: AssignmentRequest) -> bytes:
    """Assign a batch as the service is to; what takes a fraction of a second ends by its gap, not by its time."""
    assignment = live.plan.assign(live.plan.estimate(np.array(request.queries)), request, SOLVED_S)
    return encode(assignment, live, **facts_of(live, request, assignment))


LOOK_UPS: dict[tuple[str, str], LookUp[Any]] = {
    (look_up.kind.name, look_up.suffix): look_up for subject in all_subjects().values() for look_up in subject.look_ups
} | {
    ("portfolio", BATCHES): LookUp(KINDS["portfolio"], "/v1/portfolios/", BATCHES, AssignmentRequest, "POST", _assigned)
}
"""Every look-up, and batches, which are no look-up and are answered and checked the same way."""
NAME = "plan"
Version = tuple[str, int]
"""A solver, and a version of its artifact."""


@dataclass
class Answers:
    """What was asked and answered; an answer by a version that is not known yet waits in ``open``."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unexcused: list[str] = field(default_factory=list)
    plans: dict[Version, Live[Any]] = field(default_factory=dict)
    open: list[tuple[Version, LookUp[Any], Any, bytes]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


def question(draw: random.Random) -> tuple[LookUp[Any], dict[str, Any]]:
    """Think of a look-up and its query."""
    look_up = LOOK_UPS[draw.choice(sorted(LOOK_UPS))]
    match look_up.kind.name, look_up.suffix:
        case "cascade", _:
            return look_up, {"deadline": round(draw.uniform(12, 30), 2)} if draw.random() < 0.8 else {}
        case "index", _:
            return look_up, {"size": draw.randint(32, 512), "budget": round(draw.uniform(0, 12), 2)}
        case "portfolio", suffix if suffix == BATCHES:
            queries = [[round(draw.random(), 3), round(draw.random(), 3)] for _ in range(BATCH)]
            return look_up, {"queries": queries, "budget": {"fraction": round(draw.uniform(0.3, 1), 2)}}
        case "portfolio", _:
            query = [round(draw.random(), 3), round(draw.random(), 3)]
            return look_up, {"query": query, "budget": {"fraction": round(draw.random(), 2)}}
        case "policy", _:
            known = {"fast": ["cat", 0.9]} if draw.random() < 0.5 else {}
            return look_up, {"acquired": known, "item": f"item-{draw.randrange(1000)}"}
        case _, "/decision":
            return look_up, {"max_cost": round(draw.uniform(0.6, 8), 2)}
        case _:
            features = {"age": draw.randint(20, 90)} if draw.random() < 0.5 else {}
            return look_up, {"features": features}


def expected(look_up: LookUp[Any], live: Live[Any], query: dict[str, Any]) -> Any:
    """Decide here as the service is to decide there; None if there is no answer."""
    asked = look_up.query.model_validate_json(json.dumps(query))
    try:
        reply = look_up.answer(live, asked)
        if reply is None:  # the portfolio's slow estimates, by the route
            reply = encode(live.plan.decide(asked), live, budget_pacing=None)
    except Infeasible:
        return None
    return orjson.loads(reply)


def ask_on(house: House, answers: Answers, seed: int, stop: Event) -> None:
    """Look up, and check each answer, until told to stop."""
    draw = random.Random(seed)
    with house.client(10) as client:
        while not stop.is_set():
            look_up, query = question(draw)
            excused = house.broken.is_set()
            try:
                path = f"{look_up.prefix}{NAME}{look_up.suffix}"
                sent = {"json": query} if look_up.method == "POST" else {"params": query}
                reply = client.request(look_up.method, path, **sent)  # type: ignore[arg-type]
            except httpx.TransportError as error:
                _note(answers, f"look-up: {type(error).__name__}", excused or house.broken.is_set())
                time.sleep(0.05)
                continue
            answers.counts["look-ups"] += 1
            if reply.status_code == 200:
                _check(answers, look_up, query, reply.content)
            elif reply.status_code != 409:
                _note(answers, f"look-up: {reply.status_code}", False, reply.json()["detail"])


def _note(answers: Answers, kind: str, excused: bool, detail: str = "") -> None:
    with answers.lock:
        answers.errors[kind] += 1
        if not excused:
            answers.unexcused.append(f"{kind} {detail}")


def _check(answers: Answers, look_up: LookUp[Any], query: Any, body: bytes) -> None:
    version = look_up.kind.name, int(orjson.loads(body)["artifact"]["version"])
    live = answers.plans.get(version)
    if live is None:
        with answers.lock:
            answers.open.append((version, look_up, query, body))
        return
    answers.counts["answers checked"] += 1
    wanted = expected(look_up, live, query)
    if wanted != orjson.loads(body):
        with answers.lock:
            answers.wrong.append(f"{version} {query}: {body!r}, not {wanted!r}")


def learn(answers: Answers, version: Version, record: dict[str, Any], data: bytes) -> None:
    """Decode the plan of a version, to check answers by."""
    solver, _ = version
    plan = codec.decode(data, KINDS[solver].plan)
    answers.plans[version] = Live.from_record(ArtifactRecord.model_validate(record), plan)


def settle(answers: Answers) -> None:
    """Check the answers that waited for their version to be known."""
    with answers.lock:
        waiting, answers.open = answers.open, []
    for version, look_up, query, body in waiting:
        try:
            _check(answers, look_up, query, body)
        except ParsimonyError as error:
            answers.wrong.append(f"{version} {query}: {error}")
