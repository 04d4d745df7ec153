"""Feedback in the store: sums, drift detectors, alarms, and rows for rebuilds.

One transaction adds the outcomes of a request and updates the detectors, so several servers can count concurrently.
The memory per artifact version is bounded: about 60 blocks of 56 bytes per detector, and at most ``MAX_FEEDBACK_ROWS``
rows with at most ``MAX_FEEDBACK_BYTES``. The rows of all versions take at most ``MAX_TOTAL_FEEDBACK_BYTES``.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from app.processes.clock import format_timestamp
from app.store.client import Pipeline, Store, make_store_key, read_model
from models import ArtifactRecord, ArtifactRef, Fault, InvalidRequest
from models.errors import UnknownVersion
from models.feedback import (
    DRIFT_QUANTITIES,
    QUANTITIES,
    Alarm,
    ClassifierOutcomes,
    Comparison,
    DetectionDelay,
    Estimates,
    FeedbackReport,
    Outcome,
)
from solvers import KINDS
from solvers.change_detection import OutcomeBlocks, make_empty_blocks
from solvers.drift import (
    DETECTED_ACCURACY_DROPS,
    FALSE_ALARM_RATE,
    DetectedChange,
    Outcomes,
    compare_moments,
    count_answered,
    count_prior_rows,
    count_reference,
    detect_changes,
    estimate_detection_delay,
    reference_mean,
    sum_moments,
)

MAX_FEEDBACK_ROWS = 10_000
MAX_FEEDBACK_BYTES = 32 * 2**20
"""The newest rows are kept, of each version, and fewer where they are long."""
MAX_TOTAL_FEEDBACK_BYTES = 256 * 2**20
"""Beyond it, the oldest row goes of the version whose rows take most: many versions leave each its share."""
ROW_BYTES = 4 * 2**20
"""A row that takes more is refused."""
ROW_SIZES = make_store_key("feedback-bytes")
"""How many bytes the rows of each version take, by their key."""
DRIFTS = make_store_key("drifted")
"""What has drifted, as kind/name/version/quantity."""
MAX_STORED_ALARMS = 20
"""The newest alarms of a version are kept."""


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


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """A row that was sent with an outcome.

    Attributes:
        number: running number among all outcomes of the version.
        at: time in seconds since 1970.
        row: the cells by column.
        embedding: the item's embedding, if any.
    """

    number: int
    at: float
    row: dict[str, Any]
    embedding: list[float] | None


@dataclass(slots=True)
class AddedOutcomes:
    """Outcomes of one artifact version that a request adds."""

    evidence_rows: int
    has_losses: bool = False
    """Whether the accuracy is 1 minus the loss, which rejected items have, too."""
    seeds: dict[str, OutcomeBlocks] = field(default_factory=dict)
    """Initial state of the classifiers' drift detectors, by their accuracies in the dataset."""
    outcomes_of: dict[str, list[tuple[int, float, float, int]]] = field(default_factory=dict)
    """By quantity, for each outcome: its index in the request, the estimate, the observed value, and the number of rows
    behind the estimate."""
    qualities: dict[str, list[tuple[int, float, float, int]]] = field(default_factory=dict)
    """The same by classifier, for outcomes with a row."""
    classifiers: dict[str, float] = field(default_factory=dict)
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    outcomes: int = 0

    def add(
        self, outcome: Outcome, estimates: Estimates, qualities: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        """Add an outcome, its estimates, and the qualities of the row's classifiers.

        Raises InvalidRequest if the row is too large.
        """
        if outcome.row is not None:
            self.rows.append((self.outcomes, _packed(outcome)))
        observed = (outcome.right, outcome.answered, outcome.cost, outcome.time)
        for quantity, value in zip(QUANTITIES, observed, strict=True):
            if value is not None:
                expected = getattr(estimates, quantity)
                of_answered = quantity == "accuracy" and not self.has_losses
                on = count_answered(self.evidence_rows, estimates.coverage) if of_answered else self.evidence_rows
                entry = self.outcomes, np.nan if expected is None else expected, float(value), on
                self.outcomes_of.setdefault(quantity, []).append(entry)
        for name, quality in qualities.items():
            self.qualities.setdefault(name, []).append((self.outcomes, 0.0, quality, 0))
        if outcome.classifier is not None and outcome.right is not None:
            for kind, more in (("n", 1.0), ("correct", outcome.right)):
                name = f"classifier.{kind}.{outcome.classifier}"
                self.classifiers[name] = self.classifiers.get(name, 0.0) + more
        self.outcomes += 1

    def sum_outcomes(self) -> dict[str, float]:
        """Return the sums of the added outcomes."""
        sums = {"outcomes": float(self.outcomes), **self.classifiers}
        for quantity, outcomes in self.outcomes_of.items():
            _, estimated, realized, _ = np.array(outcomes).T
            sums |= sum_moments(quantity, estimated, realized)
        return sums

    def iterate_streams(self) -> Iterator[tuple[str, str, list[tuple[int, float, float, int]]]]:
        """Yield the name, the quantity, and the outcomes of each drift detector's stream."""
        for quantity, outcomes in self.outcomes_of.items():
            yield quantity, quantity, outcomes
        for name, outcomes in self.qualities.items():
            yield f"classifiers.{name}", "classifiers", outcomes


class Feedback:
    """Repository of feedback."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        counts: Mapping[ArtifactRef, AddedOutcomes],
        at: float,
        *,
        read_more: Callable[[Pipeline], Callable[[Pipeline], None]] | None = None,
        watched: tuple[str, ...] = (),
    ) -> dict[ArtifactRef, tuple[Alarm, ...]]:
        """Add outcomes in one transaction, and return the new alarms by version.

        Args:
            at: time in seconds since 1970.
            read_more: reads in the transaction, and returns a function that queues further writes.
            watched: additional keys whose change restarts the transaction.
        Raises:
            UnknownVersion: a version was deleted.
        """

        def change(pipe: Pipeline) -> dict[ArtifactRef, tuple[Alarm, ...]]:
            for ref in counts:
                if not pipe.exists(_record(ref)):
                    raise UnknownVersion(f"{ref.full_name} was deleted")
            before = {ref: int(float(cast("bytes | None", pipe.hget(_sums(ref), "outcomes")) or 0)) for ref in counts}
            found = {ref: _updated(pipe, ref, count, before[ref], at) for ref, count in counts.items()}
            write_more = None if read_more is None else read_more(pipe)
            pipe.multi()
            if write_more is not None:
                write_more(pipe)
            for ref, count in counts.items():
                _queue_count(pipe, ref, count, before[ref], at)
                streams, alarms = found[ref]
                if streams:
                    pipe.hset(_streams(ref), mapping={name: _packed_blocks(blocks) for name, blocks in streams.items()})
                if alarms:
                    pipe.rpush(_alarms(ref), *(alarm.model_dump_json() for alarm in alarms))
                    pipe.ltrim(_alarms(ref), -MAX_STORED_ALARMS, -1)
                    pipe.sadd(DRIFTS, *{f"{ref.full_name}/{alarm.quantity}" for alarm in alarms})
            return {ref: alarms for ref, (_, alarms) in found.items()}

        own = [name for ref in counts for name in (_record(ref), _sums(ref))]
        return self._store.run_transaction(change, *own, *watched)

    def has_classifier_streams(self, ref: ArtifactRef) -> bool:
        """Return whether a version has drift detectors of its classifiers."""
        names: list[bytes] = self._store.execute("hkeys", _streams(ref))
        return any(name.startswith(b"classifiers.") for name in names)

    def get_alarms(self, ref: ArtifactRef) -> tuple[Alarm, ...]:
        """Return the latest alarms of a version, oldest first."""
        raws: list[bytes] = self._store.execute("lrange", _alarms(ref), 0, -1)
        return tuple(read_model(Alarm, raw) for raw in raws)

    def drifted_quantities(self, refs: Sequence[ArtifactRef]) -> list[tuple[str, ...]]:
        """Return the quantities with a drift alarm, for each version."""
        flags = [f"{ref.full_name}/{quantity}" for ref in refs for quantity in DRIFT_QUANTITIES]
        if not flags:
            return []
        raised, size = self._store.execute("smismember", DRIFTS, flags), len(DRIFT_QUANTITIES)
        rows = [raised[place : place + size] for place in range(0, len(raised), size)]
        return [tuple(compress(DRIFT_QUANTITIES, row)) for row in rows]

    def get_drifts(self) -> dict[str, tuple[str, ...]]:
        """Return all drifted quantities by version (``kind/name/version``)."""
        by_version: dict[str, set[str]] = {}
        for flag in self._store.get_members(DRIFTS):
            version, _, quantity = flag.rpartition("/")
            by_version.setdefault(version, set()).add(quantity)
        return {version: _in_order(quantities) for version, quantities in by_version.items()}

    def with_drift(self, records: Iterable[ArtifactRecord]) -> list[ArtifactRecord]:
        """Return copies of records with their drifted quantities."""
        listed = list(records)
        drifts = self.drifted_quantities([record.ref for record in listed])
        return [record.model_copy(update={"drift": drift}) for record, drift in zip(listed, drifts, strict=True)]

    def get_sums(self, ref: ArtifactRef) -> dict[str, float]:
        """Return the sums of a version's outcomes."""
        return _read_sums(self._store.execute("hgetall", _sums(ref)))

    def count_rows(self, ref: ArtifactRef) -> int:
        """Return the number of rows of a version."""
        return int(self._store.execute("llen", _rows(ref)))

    def get_rows(self, ref: ArtifactRef) -> list[FeedbackRow]:
        """Return the rows of a version, oldest first."""
        raws: list[bytes] = self._store.execute("lrange", _rows(ref), 0, -1)
        return [_read_row(raw) for raw in raws]

    def make_report(self, record: ArtifactRecord) -> FeedbackReport:
        """Return a report that compares estimated with actual outcomes."""
        ref = record.ref
        sums, drift = self.get_sums(ref), self.drifted_quantities([ref])[0]
        accuracy = _read_blocks(self._store.execute("hget", _streams(ref), "accuracy"))
        expected, reference = _reference(record, accuracy)
        compared = {name: _comparison(name, sums, drift) for name in QUANTITIES}
        return FeedbackReport(
            artifact=ref,
            unit=record.unit,
            outcomes=int(sums.get("outcomes", 0)),
            rows=self.count_rows(ref),
            **compared,
            loss=None if record.losses is None else compared["accuracy"].to_loss(record.losses.largest),
            classifiers=_classifiers(sums),
            drift=drift,
            alarms=self.get_alarms(ref),
            reference=reference,
            detects=_detections(expected, reference),
            false_alarm_rate=FALSE_ALARM_RATE,
        )

    def delete(self, ref: ArtifactRef) -> None:
        """Delete the feedback of a version, including its drift alarms."""

        def change(pipe: Pipeline) -> None:
            pipe.multi()
            delete_feedback(pipe, ref)

        self._store.run_transaction(change)


def delete_feedback(pipe: Pipeline, ref: ArtifactRef) -> None:
    """Queue the removal of a version's feedback."""
    pipe.delete(_sums(ref), _rows(ref), _streams(ref), _alarms(ref))
    pipe.hdel(ROW_SIZES, _rows(ref))
    pipe.srem(DRIFTS, *(f"{ref.full_name}/{quantity}" for quantity in DRIFT_QUANTITIES))


def _queue_count(pipe: Pipeline, ref: ArtifactRef, count: AddedOutcomes, before: int, at: float) -> None:
    """Queue the sums and rows of outcomes; ``before`` is the number of earlier ones."""
    pipe.eval(_ADD, 1, _sums(ref), *(part for pair in count.sum_outcomes().items() for part in pair))
    if count.rows:
        rows = [b"%d %.3f %b" % (before + place + 1, at, row) for place, row in count.rows]
        pipe.rpush(_rows(ref), *rows)
        pipe.hincrby(ROW_SIZES, _rows(ref), sum(map(len, rows)))
        pipe.eval(_TRIM, 1, ROW_SIZES, _rows(ref), MAX_FEEDBACK_ROWS, MAX_FEEDBACK_BYTES, MAX_TOTAL_FEEDBACK_BYTES)


def _updated(
    pipe: Pipeline, ref: ArtifactRef, count: AddedOutcomes, before: int, at: float
) -> tuple[dict[str, OutcomeBlocks], tuple[Alarm, ...]]:
    """Return a version's streams after adding outcomes, and the alarms raised."""
    added = list(count.iterate_streams())
    raws = cast("list[bytes | None]", pipe.hmget(_streams(ref), [name for name, _, _ in added])) if added else []
    streams, alarms = dict[str, OutcomeBlocks](), list[Alarm]()
    for (name, quantity, entries), raw in zip(added, raws, strict=True):
        place, estimated, realized, evidence_rows = np.array(entries).T
        outcomes = Outcomes(before + place + 1, np.full(len(place), at), estimated, realized, evidence_rows)
        blocks = count.seeds.get(name, make_empty_blocks()) if raw is None else _read_blocks(raw)
        streams[name], changes = detect_changes(quantity, blocks, outcomes, max(len(count.qualities), 1))
        alarms += [_alarm(name, quantity, change) for change in changes]
    return streams, tuple(alarms)


def _alarm(name: str, quantity: str, change: DetectedChange) -> Alarm:
    return Alarm(
        quantity=quantity,
        classifier=name.partition(".")[2] or None,
        direction="above" if change.rises else "below",
        change_point=change.first,
        changed_at=format_timestamp(change.at),
        detected=change.detected,
        before=change.before,
        after=change.after,
    )


def _packed_blocks(blocks: OutcomeBlocks) -> bytes:
    return np.stack([getattr(blocks, each.name) for each in fields(blocks)]).tobytes()


def _read_blocks(raw: bytes | None) -> OutcomeBlocks:
    return OutcomeBlocks(*np.frombuffer(raw or b"").reshape(len(fields(OutcomeBlocks)), -1))


def _read_row(raw: bytes) -> FeedbackRow:
    number, at, text = raw.split(b" ", 2)
    row, embedding = json.loads(text)
    return FeedbackRow(int(number), float(at), row, embedding)


def _read_sums(texts: Any) -> dict[str, float]:
    return {name.decode(): float(value) for name, value in texts.items()}


def _in_order(quantities: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in DRIFT_QUANTITIES if name in quantities)


def _comparison(name: str, sums: Mapping[str, float], drift: tuple[str, ...]) -> Comparison:
    comparison = compare_moments(name, sums)
    return Comparison(
        outcomes=comparison.outcomes,
        estimated=comparison.estimated,
        actual=comparison.actual,
        low=comparison.low,
        high=comparison.high,
        drift=name in drift,
    )


def _reference(record: ArtifactRecord, accuracy: OutcomeBlocks) -> tuple[float, float | None]:
    """Return the reference accuracy, and the number of outcomes that it counts as."""
    if len(accuracy.size):
        return reference_mean(accuracy), count_reference(accuracy)
    if record.savings is None:
        return 0.0, None
    rows = KINDS[record.kind].count_evidence_rows(record.summary)
    share = record.savings.accuracy
    return share, float(count_prior_rows(np.array([share]), np.array([float(rows)]))[0])


def _detections(expected: float, reference: float | None) -> tuple[DetectionDelay, ...]:
    """Return the number of outcomes until falls of accuracy raise an alarm."""
    if reference is None:
        return ()
    falls = [fall for fall in DETECTED_ACCURACY_DROPS if fall <= expected]
    return tuple(
        DetectionDelay(drop=fall, outcomes=estimate_detection_delay(fall, expected, reference)) for fall in falls
    )


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
    row = json.dumps([outcome.stored_row, outcome.embedding]).encode()
    if len(row) > ROW_BYTES:
        size = f"takes {len(row)} bytes, its embedding included, must take at most {ROW_BYTES}"
        raise InvalidRequest.from_faults(Fault(("row",), size))
    return row


def record_key(kind: str, name: str, version: int) -> str:
    """Return the key of a version's record."""
    return make_store_key("version", kind, name, version)


def _record(ref: ArtifactRef) -> str:
    return record_key(ref.kind, ref.name, ref.version)


def _sums(ref: ArtifactRef) -> str:
    return make_store_key("feedback", ref.kind, ref.name, ref.version)


def _streams(ref: ArtifactRef) -> str:
    return make_store_key("feedback-streams", ref.kind, ref.name, ref.version)


def _alarms(ref: ArtifactRef) -> str:
    return make_store_key("feedback-alarms", ref.kind, ref.name, ref.version)


def _rows(ref: ArtifactRef) -> str:
    return make_store_key("feedback-rows", ref.kind, ref.name, ref.version)
