"""Feedback in the store: sums for each version of an artifact, rows for a rebuild, and what has drifted.

Everything of a version is added up by the store itself, all at once, so servers may count side by side. It takes a
bounded place: some eighty numbers, two for each classifier, and at most ``KEPT_ROWS`` rows in ``KEPT_BYTES``; the rows
of all versions together take at most ``ALL_KEPT_BYTES``.
"""

import json
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from app.store.client import Pipeline, Store, key
from models import ArtifactRecord, ArtifactRef, Fault, InvalidRequest
from models.errors import StoreRefused, StoreUnavailable, UnknownVersion
from models.feedback import (
    QUANTITIES,
    ClassifierOutcomes,
    Comparison,
    Detection,
    Estimates,
    FeedbackReport,
    Outcome,
)
from solvers import SOLVERS
from solvers.drift import FALLS, FALSE_ALARM, Outcomes, compare, counted_on, drifted, margin, outcomes_to_see, tally

logger = logging.getLogger("parsimony.feedback")
KEPT_ROWS = 10_000
KEPT_BYTES = 32 * 2**20
"""The newest rows are kept, of each version, and fewer where they are long."""
ALL_KEPT_BYTES = 256 * 2**20
"""Beyond it, the oldest row goes of the version whose rows take most: many versions leave each its share."""
ROW_BYTES = 4 * 2**20
"""A row that takes more is refused."""
ROW_SIZES = key("feedback-bytes")
"""How many bytes the rows of each version take, by their key."""
DRIFTS = key("drifted")
"""What has drifted, as solver/name/version/quantity."""


_ADD = """
for i = 1, #ARGV, 2 do
    local sum = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or '0') + tonumber(ARGV[i + 1])
    redis.call('HSET', KEYS[1], ARGV[i], string.format('%.17g', sum))
end
"""
"""Adds to sums in full precision, whatever their unit: HINCRBYFLOAT keeps 17 digits after the point only."""
_TRIM = """
local kept, all, own, found = {}, 0, ARGV[1], redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
    kept[found[i]] = tonumber(found[i + 1])
    all = all + kept[found[i]]
end
local function drop_oldest(rows)
    local row = redis.call('LPOP', rows)
    local bytes = row and #row or kept[rows]
    kept[rows], all = kept[rows] - bytes, all - bytes
end
while redis.call('LLEN', own) > tonumber(ARGV[2]) or kept[own] > tonumber(ARGV[3]) do
    drop_oldest(own)
end
while all > tonumber(ARGV[4]) do
    local largest = own
    for rows, bytes in pairs(kept) do
        if bytes > kept[largest] then
            largest = rows
        end
    end
    drop_oldest(largest)
end
for rows, bytes in pairs(kept) do
    redis.call('HSET', KEYS[1], rows, bytes)
end
"""
"""Keeps the newest rows: of one version so many and in so many bytes, and of all in so many."""


@dataclass(slots=True)
class Count:
    """What is to be added for one version."""

    judged_on: int
    outcomes_of: dict[str, list[tuple[float, float, int]]] = field(
        default_factory=lambda: {name: [] for name in QUANTITIES}
    )
    classifiers: dict[str, float] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)
    outcomes: int = 0

    def add(self, outcome: Outcome, estimates: Estimates) -> None:
        """Add an outcome, given what was expected of it; raises InvalidRequest for a row that takes too many bytes."""
        if outcome.row is not None:
            self.rows.append(_packed(outcome))
        self.outcomes += 1
        answered = counted_on(self.judged_on, estimates.coverage)
        for quantity, value in (("accuracy", outcome.right), ("cost", outcome.cost), ("time", outcome.time)):
            if value is not None:
                expected = getattr(estimates, quantity)
                on = answered if quantity == "accuracy" else self.judged_on
                self.outcomes_of[quantity].append((np.nan if expected is None else expected, float(value), on))
        if outcome.classifier is not None and outcome.right is not None:
            for kind, more in (("n", 1.0), ("correct", outcome.right)):
                name = f"classifier.{kind}.{outcome.classifier}"
                self.classifiers[name] = self.classifiers.get(name, 0.0) + more

    def sums(self) -> dict[str, float]:
        """Sum up what was added."""
        sums = {"outcomes": float(self.outcomes), **self.classifiers}
        for quantity, outcomes in self.outcomes_of.items():
            if outcomes:
                estimated, realised, on = np.array(outcomes).T
                sums |= tally(quantity, Outcomes(estimated, realised, on))
        return sums


class Feedback:
    """The feedback of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, counts: Mapping[ArtifactRef, Count]) -> dict[ArtifactRef, tuple[str, ...]]:
        """Add to what was counted, all or nothing; raises UnknownVersion for one that is gone.

        Says what has drifted, of each version that could be looked at: what is counted is counted, also if the store
        goes right after, and the next outcomes have it looked at again.
        """

        def change(pipe: Pipeline) -> None:
            for ref in counts:
                if not pipe.exists(_record(ref)):
                    raise UnknownVersion(f"{ref.spelt} was deleted")
            pipe.multi()
            for ref, count in counts.items():
                more: list[str | float] = [part for pair in count.sums().items() for part in pair]
                pipe.eval(_ADD, 1, _sums(ref), *more)
                if count.rows:
                    pipe.rpush(_rows(ref), *count.rows)
                    pipe.hincrby(ROW_SIZES, _rows(ref), sum(map(len, count.rows)))
                    pipe.eval(_TRIM, 1, ROW_SIZES, _rows(ref), KEPT_ROWS, KEPT_BYTES, ALL_KEPT_BYTES)

        self._store.transact(change, *map(_record, counts))
        try:
            return {ref: self._drift(ref) for ref in counts}
        except (StoreUnavailable, StoreRefused) as error:
            logger.warning("outcomes are counted, whether they drift will be seen with the next ones: %s", error)
            return {}

    def _drift(self, ref: ArtifactRef) -> tuple[str, ...]:
        """Say what has drifted, and keep it: a test that has won stays won, until the outcomes are forgotten."""
        before = self._drifted(ref)
        quantities = drifted(self.sums(ref))
        if not set(quantities) <= set(before):
            quantities = self._store.transact(lambda pipe: _raise_drift(pipe, ref), _sums(ref))
        return _in_order({*before, *quantities})

    def drifts(self) -> dict[str, tuple[str, ...]]:
        """Give what has drifted, of every version that has, as solver/name/version."""
        by_version: dict[str, set[str]] = {}
        for flag in self._store.members(DRIFTS):
            version, _, quantity = flag.rpartition("/")
            by_version.setdefault(version, set()).add(quantity)
        return {version: _in_order(quantities) for version, quantities in by_version.items()}

    def with_drift(self, records: Iterable[ArtifactRecord]) -> list[ArtifactRecord]:
        """Say in records what has drifted."""
        listed = list(records)
        drifts = self._all_drifted([record.ref for record in listed])
        return [record.model_copy(update={"drift": drift}) for record, drift in zip(listed, drifts, strict=True)]

    def _drifted(self, ref: ArtifactRef) -> tuple[str, ...]:
        return self._all_drifted([ref])[0]

    def _all_drifted(self, refs: Sequence[ArtifactRef]) -> list[tuple[str, ...]]:
        """Give what has drifted of each of some versions, however many others have."""
        asked = [f"{ref.spelt}/{quantity}" for ref in refs for quantity in QUANTITIES]
        if not asked:
            return []
        flags = self._store.ask("smismember", DRIFTS, asked)
        size = len(QUANTITIES)
        rows = [flags[place : place + size] for place in range(0, len(flags), size)]
        return [tuple(compress(QUANTITIES, row)) for row in rows]

    def sums(self, ref: ArtifactRef) -> dict[str, float]:
        """Give what was counted of a version."""
        return _read_sums(self._store.ask("hgetall", _sums(ref)))

    def rows(self, ref: ArtifactRef) -> list[tuple[dict[str, Any], list[float] | None]]:
        """Give the rows of a version, the oldest first, each with its embedding if it has one."""
        rows: list[bytes] = self._store.ask("lrange", _rows(ref), 0, -1)
        return [(row, embedding) for row, embedding in map(json.loads, rows)]

    def report(self, record: ArtifactRecord) -> FeedbackReport:
        """Hold what was estimated against what was realised."""
        ref = record.ref
        sums, drift = self.sums(ref), self._drifted(ref)
        rows = self._store.ask("llen", _rows(ref))
        compared = {name: _comparison(name, sums, drift) for name in QUANTITIES}
        return FeedbackReport(
            artifact=ref,
            unit=record.unit,
            outcomes=int(sums.get("outcomes", 0)),
            rows=rows,
            **compared,
            classifiers=_classifiers(sums),
            drift=drift,
            detects=_detections(record, sums),
            false_alarm_rate=FALSE_ALARM,
        )

    def delete(self, ref: ArtifactRef) -> None:
        """Forget the feedback of a version, its drift included."""

        def change(pipe: Pipeline) -> None:
            pipe.multi()
            forget(pipe, ref)

        self._store.transact(change)


def forget(pipe: Pipeline, ref: ArtifactRef) -> None:
    """Queue the removal of a version's feedback."""
    pipe.delete(_sums(ref), _rows(ref))
    pipe.hdel(ROW_SIZES, _rows(ref))
    pipe.srem(DRIFTS, *(f"{ref.spelt}/{quantity}" for quantity in QUANTITIES))


def _raise_drift(pipe: Pipeline, ref: ArtifactRef) -> tuple[str, ...]:
    """Queue the flags of what has parted by now; with the sums watched, for they may be forgotten meanwhile."""
    quantities = drifted(_read_sums(pipe.hgetall(_sums(ref))))
    pipe.multi()
    for quantity in quantities:
        pipe.sadd(DRIFTS, f"{ref.spelt}/{quantity}")
    return quantities


def _read_sums(texts: Any) -> dict[str, float]:
    return {name.decode(): float(value) for name, value in texts.items()}


def _in_order(quantities: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in QUANTITIES if name in quantities)


def _comparison(name: str, sums: Mapping[str, float], drift: tuple[str, ...]) -> Comparison:
    comparison = compare(name, sums)
    return Comparison(
        outcomes=comparison.outcomes,
        estimated=comparison.estimated,
        realised=comparison.realised,
        low=comparison.low,
        high=comparison.high,
        drift=name in drift,
    )


def _detections(record: ArtifactRecord, sums: Mapping[str, float]) -> tuple[Detection, ...]:
    """Say when falls of accuracy are seen: below what was estimated, or what it is worth while nothing was told."""
    counted = sums.get("accuracy.with.n", 0.0)
    if counted and "accuracy.allowed" in sums:
        estimated, allowed = sums["accuracy.estimated"] / counted, sums["accuracy.allowed"] / counted
    elif record.worth is not None:
        estimated, judged_on = record.worth.accuracy, SOLVERS[record.solver].judged_on(record.summary)
        allowed = float(margin(np.array([estimated]), judged_on)[0])
    else:
        return ()
    falls = [fall for fall in FALLS if fall <= estimated]
    return tuple(Detection(fall=fall, outcomes=outcomes_to_see(fall, estimated, allowed)) for fall in falls)


def _classifiers(sums: Mapping[str, float]) -> tuple[ClassifierOutcomes, ...]:
    names = sorted(name.removeprefix("classifier.n.") for name in sums if name.startswith("classifier.n."))
    return tuple(
        ClassifierOutcomes(
            classifier=name,
            outcomes=int(sums[f"classifier.n.{name}"]),
            correct=round(sums.get(f"classifier.correct.{name}", 0)),
        )
        for name in names
    )


def _packed(outcome: Outcome) -> bytes:
    row = json.dumps([outcome.row, outcome.embedding]).encode()
    if len(row) > ROW_BYTES:
        size = f"takes {len(row)} bytes, its embedding included, must take at most {ROW_BYTES}"
        raise InvalidRequest.at(Fault(("row",), size))
    return row


def record_key(solver: str, name: str, version: int) -> str:
    """Spell the key of a version's record."""
    return key("version", solver, name, version)


def _record(ref: ArtifactRef) -> str:
    return record_key(ref.solver, ref.name, ref.version)


def _sums(ref: ArtifactRef) -> str:
    return key("feedback", ref.solver, ref.name, ref.version)


def _rows(ref: ArtifactRef) -> str:
    return key("feedback-rows", ref.solver, ref.name, ref.version)
