"""The demo's cascades: train, trace, build by all four dependences, and really run the best cascade.

Everything is measured: the classifiers answer one image at a time on this machine, and the last table comes from
running each strategy on images that neither training nor the builds have seen.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app import terminal
from app.demo.images import SEED, DigitClassifier
from app.demo.stage import Stage
from app.demo.timing import timed
from app.processes.clock import current_time
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats
from models.cascade import CascadeQuery, CascadeRunDecision
from solvers import Progress

DATASET = "digits"
DEPENDENCES = ("independent", "dependent", "grouped", "joint")
PARAMS = {"target_precision": 0.98, "deterministic": "jury"}
REQUESTS = tuple(
    BuildRequest(
        kind="cascade",
        name="digits" if dependence == "joint" else f"digits-{dependence}",  # beside the policy of that name
        dataset=DATASET,
        params={**PARAMS, "dependence": dependence},
        seed=SEED,
    )
    for dependence in DEPENDENCES
)
Strategy = Callable[[Floats], int]


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy, as predicted and as measured; times in ms."""

    strategy: str
    predicted_mean_ms: float | None
    measured_mean_ms: float
    measured_maximum_ms: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class CascadeOutcome:
    """The cascades that were built, the best of them, and how it and its rivals did on so many images."""

    records: tuple[ArtifactRecord, ...]
    best: ArtifactRecord
    rows: tuple[Row, ...]
    images: int

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        return {
            "best": self.best.name,
            "strategies": [asdict(row) for row in self.rows],
            "artifacts": [record.model_dump(mode="json") for record in self.records],
        }

    def print(self) -> None:
        """Print it for people."""
        columns = ["artifact", "predicted", "replayed", "accuracy", "cascade"]
        terminal.print_table("built (ms a image)", columns, [_built(record) for record in self.records])
        columns = ["strategy", "predicted ms", "measured ms", "maximum ms", "accuracy"]
        cells = [list(asdict(row).values()) for row in self.rows]
        terminal.print_table(f"really run on {self.images} images", columns, cells)
        cascade, strongest, _ = self.rows
        share = cascade.measured_mean_ms / strongest.measured_mean_ms
        points = 100 * (cascade.accuracy - strongest.accuracy)
        terminal.get_console().print(
            f"The cascade spends {share:.0%} of the time of {strongest.strategy}; "
            f"accuracy differs by {points:+.2f} points."
        )


def store(repos: Repositories, stage: Stage, progress: Progress) -> None:
    """Store a trace of all classifiers."""
    trace = _trace(stage.classifiers(progress), stage.split.trace, progress)
    repos.datasets.put(DATASET, trace, created_at=current_time())


def run(repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> CascadeOutcome:
    """Run the best cascade beside its rivals."""
    best = min(reversed(records), key=_replayed_mean)  # of equals the last: joint assumes least
    final = stage.split.final
    rows = _run(stage.classifiers(progress), _decide(repos, best), best, final, progress)
    return CascadeOutcome(tuple(records), best, tuple(rows), len(final[0]))


def _trace(classifiers: list[DigitClassifier], data: tuple[Floats, Any], progress: Progress) -> Trace:
    """Let every classifier answer every image, one at a time, and note answer, confidence and time."""
    images, labels = data
    columns: dict[str, Any] = {"digit": labels}
    for done, classifier in enumerate(classifiers):
        progress(done, len(classifiers), f"tracing {classifier.name} on {len(images)} images")
        answers, times = timed(classifier.answer, images)
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


def _replayed_mean(record: ArtifactRecord) -> float:
    return float(record.summary["replays"][0]["held_out"]["mean_duration"])


def _decide(repos: Repositories, record: ArtifactRecord) -> CascadeRunDecision:
    """Decide at the point that the headline is about, as for a query without limits."""
    limits = record.savings.query if record.savings else {}
    decision: CascadeRunDecision = repos.artifacts.load_plan(record).decide(CascadeQuery.model_validate(limits))
    return decision


def _run(
    classifiers: list[DigitClassifier],
    decision: CascadeRunDecision,
    record: ArtifactRecord,
    data: tuple[Floats, Any],
    progress: Progress,
) -> list[Row]:
    """Run the strategies on the final images."""
    by_name = {classifier.name: classifier for classifier in classifiers}
    strongest, cheapest = (by_name[record.summary["baselines"][place]["classifier"]] for place in (0, 1))
    strategies: list[tuple[str, float | None, Strategy]] = [
        (f"cascade {record.name}", decision.expected_duration, lambda image: run_cascade(decision, by_name, image)),
        (f"always {strongest.name}", decision.steps[-1].execution_time, lambda image: strongest.answer(image)[0]),
        (f"always {cheapest.name}", None, lambda image: cheapest.answer(image)[0]),
    ]
    rows = []
    for done, (strategy, predicted, run) in enumerate(strategies):
        progress(done, len(strategies), f"running {strategy} on {len(data[0])} images")
        answers, times = timed(run, data[0])
        accuracy = float(np.mean(np.array(answers) == data[1]))
        rows.append(Row(strategy, predicted, float(times.mean()), float(times.max()), accuracy))
    return rows


def run_cascade(decision: CascadeRunDecision, classifiers: dict[str, DigitClassifier], image: Floats) -> int:
    """Run a cascade as any caller would: take the first answer whose confidence reaches its threshold."""
    label = -1
    for step in decision.steps:
        label, confidence = classifiers[step.classifier].answer(image)
        if step.confidence_threshold is None or confidence >= step.confidence_threshold:
            break
    return label


def _built(record: ArtifactRecord) -> tuple[Any, ...]:
    """Give a table's cells: what was predicted without a deadline, and what the held-out half says."""
    replay = record.summary["replays"][0]
    predicted, held_out = replay["predicted"], replay["held_out"]
    return (
        record.name,
        predicted["mean_duration"],
        held_out["mean_duration"],
        held_out["accuracy"],
        replay["cascade"],
    )
