"""Feedback routes: receive outcomes, and compare them with the estimates."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import ValidationError

from app.http.json_bodies import JsonRouter
from app.recording.row_lines import make_truth_lines
from app.routes.dependencies import (
    AppContext,
    InContext,
    PathName,
    Version,
    describe_body,
    error_responses,
    read_batch,
    require_json_body,
    require_store,
)
from app.routes.team_names import OWN_NAME
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import with_default_limits
from app.store.artifact_records import ROLLOUTS
from app.store.feedback import AddedOutcomes
from app.store.pointers import POINTERS, Id
from app.store.rollouts import Observations, VersionValue
from models import ArtifactRecord, ArtifactRef, Fault, InvalidRequest, Trace
from models.dataset_rows import Row, find_row_faults, grade_row_answers
from models.errors import (
    MAX_FAULTS,
    Infeasible,
    NotFound,
    SolverTimeout,
    UnknownDataset,
    UnknownRecording,
    UnknownVersion,
)
from models.feedback import (
    MAX_OUTCOMES,
    Estimates,
    FeedbackReply,
    FeedbackReport,
    FeedbackRequest,
    Outcome,
    ParsedDecisionId,
    grade_outcome,
    parse_decision_id,
)
from models.recording import Truth, truth_from_outcome
from models.stored_dataset import DatasetInfo
from solvers import KINDS
from solvers.base import Plan
from solvers.change_detection import OutcomeBlocks
from solvers.drift import start_from_dataset

router = JsonRouter(prefix="/v1/feedback", tags=["feedback"], dependencies=[Depends(require_store)])
PLANS = 4
"""Plans of versions that a request holds at a time."""
TRUTHS_TIMEOUT_S = 30.0
bodies = (FeedbackRequest,)
KindName = Annotated[str, Path(description="the artifact kind", examples=["cascade"])]


@router.post(
    "",
    summary="Report the actual outcomes of decisions",
    dependencies=[Depends(require_json_body)],
    responses=error_responses(404, 413, 415, 503, 504),
    openapi_extra=describe_body(FeedbackRequest),
)
async def send_feedback(request: Request, context: InContext) -> FeedbackReply:
    """Add outcomes to the version that decided, and return drift alarms.

    Either all outcomes are added, or none. A decision is identified by its id, or by the artifact and the query. Rows
    are kept for a rebuild.
    """
    body = await request.body()
    # to the end, however long it waits for its turn: what has been counted must not be told to have run out of time
    return await asyncio.get_running_loop().run_in_executor(context.solving, _give, context, body, monotonic())


@router.get("/{kind}/{name}", summary="Compare estimates with outcomes", responses=error_responses(404, 503))
def show_feedback(kind: KindName, name: PathName, context: InContext, version: Version = None) -> FeedbackReport:
    """Compare the estimates of a version's decisions with their outcomes.

    The reply has confidence bounds and drift alarms. The drift detectors compare recent outcomes with the estimates
    and with earlier outcomes, at every possible change point. An alarm has the estimated change point.
    """
    return context.repos.feedback.make_report(context.repos.artifacts.get_record(kind, name, version))


@router.delete(
    "/{kind}/{name}",
    summary="Delete feedback",
    dependencies=[OWN_NAME],
    status_code=204,
    responses=error_responses(404, 503),
)
def delete_feedback(kind: KindName, name: PathName, context: InContext, version: Version = None) -> None:
    """Delete the outcomes, rows, and drift alarms of a version."""
    record = context.repos.artifacts.get_record(kind, name, version)
    context.repos.feedback.delete(ArtifactRef(kind=kind, name=name, version=record.version))


@dataclass(slots=True)
class _Reader:
    """Reads the outcomes of one request; each version and dataset is looked up once.

    A plan is loaded only if an outcome has inputs or a classifier. At most ``PLANS`` plans are held at a time.
    """

    context: AppContext
    decided: dict[str, ParsedDecisionId] = field(default_factory=dict)
    records: dict[ArtifactRef, ArtifactRecord] = field(default_factory=dict)
    lives: dict[ArtifactRef, LoadedArtifact[Plan]] = field(default_factory=dict)
    datasets: dict[str, DatasetInfo] = field(default_factory=dict)
    counts: dict[ArtifactRef, AddedOutcomes] = field(default_factory=dict)
    seeded: set[ArtifactRef] = field(default_factory=set)
    accuracies: dict[Id, list[VersionValue]] = field(default_factory=dict)
    """Observations for rollouts, in the order of the outcomes: only of versions that were drawn at random."""
    costs: dict[Id, list[VersionValue]] = field(default_factory=dict)
    truths: dict[Id, list[Truth]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count one outcome; raises InvalidRequest with the field of each fault."""
        ref, digits, estimates, is_randomized = self._find_decision(outcome)
        record = self._record(ref)
        if not record.sha256.startswith(digits):
            message = f"version {ref.version} of {ref.kind} {ref.name!r} is not the artifact that made this decision"
            raise UnknownVersion(message)
        truth = truth_from_outcome(outcome)
        if truth is not None:
            self.truths.setdefault((ref.kind, ref.name), []).append(truth)
        outcome = grade_outcome(outcome, record.losses)
        if estimates is None:
            estimates = _estimated_again(self._live(ref), outcome.inputs or {})
        if outcome.classifier is not None:
            _refuse_unknown(outcome.classifier, self._live(ref))
        qualities = {} if outcome.row is None else self._qualities(record, outcome.row, outcome.embedding)
        evidence_rows = KINDS[ref.kind].count_evidence_rows(record.summary)
        count = self.counts.setdefault(ref, AddedOutcomes(evidence_rows, record.losses is not None))
        if qualities and ref not in self.seeded:
            count.seeds = self._seeds(record)
            self.seeded.add(ref)
        count.add(outcome, estimates, qualities)
        if is_randomized:
            self._observe(ref, outcome)

    def _observe(self, ref: ArtifactRef, outcome: Outcome) -> None:
        for values, value in ((self.accuracies, outcome.right), (self.costs, outcome.cost)):
            if value is not None:
                values.setdefault((ref.kind, ref.name), []).append((ref.version, value))

    @property
    def observed(self) -> dict[Id, Observations]:
        """Observations for rollouts, by artifact."""
        return {
            one: Observations(accuracies=self.accuracies.get(one, ()), feedback_costs=self.costs.get(one, ()))
            for one in {*self.accuracies, *self.costs}
        }

    def _qualities(self, record: ArtifactRecord, row: Row, embedding: Sequence[float] | None) -> dict[str, float]:
        """Validate a row; return the quality of each classifier's answer, if it has answers."""
        info = self._dataset(record)
        faults = find_row_faults(info, row, embedding)
        if faults:
            raise InvalidRequest.from_faults(*faults)
        return grade_row_answers(info.spec, row, record.losses)

    def _seeds(self, record: ArtifactRecord) -> dict[str, OutcomeBlocks]:
        """Return the classifiers' initial streams, from the dataset; empty if streams exist."""
        if self.context.repos.feedback.has_classifier_streams(record.ref):
            return {}
        dataset = self.context.repos.datasets.load(self._dataset(record))
        assert isinstance(dataset, Trace)
        each = zip(dataset.spec.classifiers, *dataset.measure_calls(), strict=True)
        return {f"classifiers.{one.name}": start_from_dataset(mean, calls) for one, mean, calls in each}

    def _find_decision(self, outcome: Outcome) -> tuple[ArtifactRef, str, Estimates | None, bool]:
        """Return the contents of an outcome's decision id; equal ids are decoded once.

        Without an id, the estimates are None.
        """
        if outcome.decision is None:
            assert outcome.artifact is not None
            return outcome.artifact, "", None, False
        if outcome.decision not in self.decided:
            self.decided[outcome.decision] = _read_id(outcome.decision)
        return self.decided[outcome.decision]

    def _record(self, ref: ArtifactRef) -> ArtifactRecord:
        if ref not in self.records:
            self.records[ref] = self.context.catalog.get_version_record(ref.kind, ref.name, ref.version)
        return self.records[ref]

    def _live(self, ref: ArtifactRef) -> LoadedArtifact[Plan]:
        if ref not in self.lives:
            if len(self.lives) == PLANS:
                del self.lives[next(iter(self.lives))]
            self.lives[ref] = self.context.catalog.get_version(ref.kind, ref.name, ref.version)
        return self.lives[ref]

    def _dataset(self, record: ArtifactRecord) -> DatasetInfo:
        name = record.dataset
        if name not in self.datasets:
            try:
                self.datasets[name] = self.context.repos.datasets.get_info(name)
            except UnknownDataset as error:
                raise InvalidRequest.from_faults(Fault(("row",), f"cannot be stored: {error}")) from error
            if record.dataset_sha256 not in ("", self.datasets[name].sha256):
                reason = f"dataset {name!r} is not what version {record.version} was built from: it was replaced"
                raise InvalidRequest.from_faults(Fault(("row",), f"cannot be stored: {reason}"))
        return self.datasets[name]


def _give(context: AppContext, body: bytes, started: float) -> FeedbackReply:
    """Read and count outcomes, in the bounded thread pool because this is slow."""
    outcomes = read_batch(context, FeedbackRequest, body, "outcomes", MAX_OUTCOMES).items
    reader, faults, limit = _Reader(context), list[Fault](), context.settings.solve_timeout_s
    for place, outcome in enumerate(outcomes):
        if monotonic() - started > limit:
            read = f"{place} of {len(outcomes)} outcomes"
            raise SolverTimeout(f"nothing stored: read {read} in {limit:g} s; send fewer per request")
        try:
            reader.add(outcome)
        except InvalidRequest as error:
            faults += [Fault(("items", place, *fault.loc), fault.msg) for fault in error.faults]
            if len(faults) >= MAX_FAULTS:
                break
        except NotFound as error:
            raise type(error)(f"items.{place}: {error}") from error
    if faults:
        raise InvalidRequest.from_faults(*faults)
    _add_truths(context, reader.truths)  # before outcomes count: if it fails, the request can be repeated
    feedback, observed = context.repos.feedback, reader.observed
    alarms = feedback.add(
        reader.counts,
        time(),
        read_more=lambda pipe: context.repos.rollouts.read_for_update(pipe, observed),
        watched=(ROLLOUTS, POINTERS) if observed else (),
    )
    drifts = dict(zip(reader.counts, feedback.drifted_quantities(list(reader.counts)), strict=True))
    for ref, count in reader.counts.items():
        context.metrics.feedback.labels(ref.kind, ref.name).inc(count.outcomes)
    return FeedbackReply(
        accepted=len(outcomes),
        rows=sum(len(count.rows) for count in reader.counts.values()),
        drift={ref.full_name: quantities for ref, quantities in drifts.items()},
        alarms={ref.full_name: raised for ref, raised in alarms.items() if raised},
    )


def _add_truths(context: AppContext, truths: Mapping[Id, Sequence[Truth]]) -> None:
    """Add truths to the recordings of their artifacts, and wait until they are on disk."""
    waiting = [
        context.recorder.writer.append_lines(recording, "truths", make_truth_lines(truths[artifact]))
        for recording in context.seen.recordings
        if recording.artifact is not None and (artifact := recording.artifact) in truths
    ]
    for done in waiting:
        with suppress(UnknownRecording):  # it was deleted meanwhile
            done.result(TRUTHS_TIMEOUT_S)


def _refuse_unknown(classifier: str, loaded: LoadedArtifact[Plan]) -> None:
    known = loaded.kind.list_answering_names(loaded.plan)
    if classifier not in known:
        there = f"there are {', '.join(known)}" if known else f"a decision of a {loaded.ref.kind} names none"
        raise InvalidRequest.from_faults(Fault(("classifier",), f"{classifier!r} not found; {there}"))


def _read_id(decision: str) -> ParsedDecisionId:
    try:
        return parse_decision_id(decision)
    except (InvalidRequest, ValidationError) as error:
        message = "must be the decision field of a reply"
        raise InvalidRequest.from_faults(Fault(("decision",), message)) from error


def _estimated_again(loaded: LoadedArtifact[Plan], inputs: dict[str, Any]) -> Estimates:
    """Repeat a decision: the same version decides equally on the same inputs."""
    try:
        query = with_default_limits(loaded, loaded.kind.query.model_validate_json(json.dumps(inputs)))
        return loaded.kind.estimate_outcome(loaded.plan, loaded.record.summary, query, loaded.plan.decide(query))
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "inputs") from error
    except InvalidRequest as error:
        raise InvalidRequest.from_faults(
            *(Fault(("inputs", *fault.loc), fault.msg) for fault in error.faults)
        ) from error
    except Infeasible as error:
        raise InvalidRequest.from_faults(Fault(("inputs",), f"do not yield a decision: {error}")) from error
