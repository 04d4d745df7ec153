"""The main job on real input: train, trace, build by all four dependences, and really run the best cascade.

Everything is measured: the classifiers answer one image at a time on this machine, and the last table comes from
running each strategy on images that neither training nor the builds have seen.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from threadpoolctl import threadpool_limits

from app import show
from app.clock import now
from app.digits import DigitClassifier, Images, load_split, train, untrained
from app.jobs import checked_request
from app.parts import Parts
from app.worker import build_locally
from models import (
    ArtifactRecord,
    BuildRequest,
    CascadeQuery,
    CascadeRunDecision,
    Trace,
    TraceSpec,
    dataset_from_columns,
)
from models.errors import UnknownArtifact
from solvers import Progress, silent

DATASET = "digits"
DEPENDENCES = ("independent", "dependent", "grouped", "joint")
SEED = 0
PARAMS = {"target_precision": 0.98}
Answer = tuple[int, float]
Strategy = Callable[[Images], int]


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy, as predicted and as measured; times in ms."""

    strategy: str
    predicted_mean_ms: float | None
    measured_mean_ms: float
    measured_maximum_ms: float
    accuracy: float


def run_demo(parts: Parts, *, if_missing: bool, as_json: bool) -> None:
    """Do all of it and print the table."""
    if if_missing and _all_there(parts):
        show.console(stderr=True).print("the demo's artifacts are there")
        return
    with show.progress_bar("demo") as progress, _quiet_machine():
        split = load_split(np.random.default_rng(SEED))
        classifiers = _trained(split.train, progress)
        parts.datasets.put(DATASET, _trace(classifiers, split.trace, progress), created_at=now())
        records = [_build(parts, dependence, progress) for dependence in DEPENDENCES]
        best = min(reversed(records), key=_replayed_mean)  # of equals the last: joint assumes least
        decision = _decide(parts, best)
        rows = _run(classifiers, decision, best, split.final, progress)
    _report(records, best, rows, len(split.final[0]), as_json)


def _all_there(parts: Parts) -> bool:
    try:
        return all(parts.artifacts.record("cascade", f"digits-{dependence}") for dependence in DEPENDENCES)
    except UnknownArtifact:
        return False


@contextmanager
def _quiet_machine() -> Iterator[None]:
    """Keep what is not the classifiers' own out of the times: threads, checks of arguments, garbage collection."""
    with threadpool_limits(1), sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        gc.disable()
        try:
            yield
        finally:
            gc.enable()


def _trained(data: tuple[Images, Any], progress: Progress) -> list[DigitClassifier]:
    found = []
    classifiers = untrained(SEED)
    for done, classifier in enumerate(classifiers):
        progress(done, len(classifiers), f"training {classifier.name}")
        found.append(train(classifier, *data))
    return found


def _trace(classifiers: list[DigitClassifier], data: tuple[Images, Any], progress: Progress) -> Trace:
    """Let every classifier answer every image, one at a time, and note answer, confidence and time."""
    images, labels = data
    columns: dict[str, Any] = {"digit": labels}
    for done, classifier in enumerate(classifiers):
        progress(done, len(classifiers), f"tracing {classifier.name} on {len(images)} images")
        answers, times = _timed(classifier.answer, images)
        columns[f"{classifier.name}_says"] = np.array([label for label, _ in answers])
        columns[f"{classifier.name}_confidence"] = np.array([confidence for _, confidence in answers])
        columns[f"{classifier.name}_ms"] = times
    spec = TraceSpec.model_validate(
        {
            "kind": "trace",
            "label": "digit",
            "unit": "ms",
            "classifiers": [
                {
                    "name": classifier.name,
                    "group": classifier.group,
                    "cost": {"column": f"{classifier.name}_ms"},
                    "prediction": f"{classifier.name}_says",
                    "confidence": f"{classifier.name}_confidence",
                }
                for classifier in classifiers
            ],
        }
    )
    dataset = dataset_from_columns(spec, columns)
    assert isinstance(dataset, Trace)
    return dataset


def _timed(answer: Callable[[Images], Any], images: Images) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Call once per image, after a few calls to warm up; times in ms."""
    for image in images[:5]:
        answer(image)
    answers, times = [], np.empty(len(images))
    for i, image in enumerate(images):
        started = time.perf_counter()
        answers.append(answer(image))
        times[i] = (time.perf_counter() - started) * 1000
    return answers, times


def _build(parts: Parts, dependence: str, progress: Progress) -> ArtifactRecord:
    request = BuildRequest(
        solver="cascade",
        name=f"digits-{dependence}",
        dataset=DATASET,
        params={**PARAMS, "deterministic": "jury", "dependence": dependence},
        seed=SEED,
    )
    progress(0, 0, f"building {request.name}")
    return build_locally(parts, request, checked_request(request)[1], silent)


def _replayed_mean(record: ArtifactRecord) -> float:
    return float(record.summary["replays"][0]["held_out"]["mean_duration"])


def _decide(parts: Parts, record: ArtifactRecord) -> CascadeRunDecision:
    decision: CascadeRunDecision = parts.artifacts.plan(record).decide(CascadeQuery())
    return decision


def _run(
    classifiers: list[DigitClassifier],
    decision: CascadeRunDecision,
    record: ArtifactRecord,
    data: tuple[Images, Any],
    progress: Progress,
) -> list[Row]:
    """Run the strategies on the final images."""
    by_name = {classifier.name: classifier for classifier in classifiers}
    strongest, cheapest = by_name[decision.cascade[-1]], by_name[record.summary["baselines"][1]["classifier"]]
    strategies: list[tuple[str, float | None, Strategy]] = [
        (f"cascade {record.name}", decision.expected_duration, lambda image: run_cascade(decision, by_name, image)),
        (f"always {strongest.name}", decision.steps[-1].execution_time, lambda image: strongest.answer(image)[0]),
        (f"always {cheapest.name}", None, lambda image: cheapest.answer(image)[0]),
    ]
    rows = []
    for done, (strategy, predicted, run) in enumerate(strategies):
        progress(done, len(strategies), f"running {strategy} on {len(data[0])} images")
        answers, times = _timed(run, data[0])
        accuracy = float(np.mean(np.array(answers) == data[1]))
        rows.append(Row(strategy, predicted, float(times.mean()), float(times.max()), accuracy))
    return rows


def run_cascade(decision: CascadeRunDecision, classifiers: dict[str, DigitClassifier], image: Images) -> int:
    """Run a cascade as any caller would: take the first answer whose confidence reaches its threshold."""
    label = -1
    for step in decision.steps:
        label, confidence = classifiers[step.classifier].answer(image)
        if step.confidence_threshold is None or confidence >= step.confidence_threshold:
            break
    return label


def _report(records: list[ArtifactRecord], best: ArtifactRecord, rows: list[Row], images: int, as_json: bool) -> None:
    facts = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
    if as_json:
        show.print_json(
            {"best": best.name, "strategies": facts, "artifacts": [r.model_dump(mode="json") for r in records]}
        )
        return
    built = [
        (
            record.name,
            record.summary["replays"][0]["predicted"]["mean_duration"],
            record.summary["replays"][0]["held_out"]["mean_duration"],
            record.summary["replays"][0]["held_out"]["accuracy"],
            record.summary["replays"][0]["cascade"],
        )
        for record in records
    ]
    show.print_table("built (ms a image)", ["artifact", "predicted", "replayed", "accuracy", "cascade"], built)
    columns = ["strategy", "predicted ms", "measured ms", "maximum ms", "accuracy"]
    show.print_table(f"really run on {images} images", columns, [list(fact.values()) for fact in facts])
    cascade, strongest, _ = rows
    share = cascade.measured_mean_ms / strongest.measured_mean_ms
    points = 100 * (cascade.accuracy - strongest.accuracy)
    show.console().print(
        f"The cascade spends {share:.0%} of the time of {strongest.strategy}; accuracy differs by {points:+.2f} points."
    )
