"""The demo's index: which features to compute of an image of this size within this budget.

One pass over resized images both fills the table and measures what each feature costs at four sizes. The index is built
from that, and then held to its word: at sizes that were not measured, on images that were not learned from, the chosen
features are really computed, one image at a time.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import terminal
from app.demo.image_features import Extractor, extractors
from app.demo.images import SEED, resized
from app.demo.stage import Stage
from app.demo.timing import timed
from app.processes.clock import current_time
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Floats
from models.index import IndexDecision, IndexQuery
from solvers import Progress
from solvers.index import IndexPlan

DATASET = "digits-features"
ARTIFACT = "digits-sizes"
MEASURED_SIDES = (32, 64, 128, 192)
HELD_OUT_SIDES = (48, 96, 160)
REPEATS = 3
"""A feature of an image costs the median of so many times: one interruption is the system's and not the image's."""
TIMINGS_A_SIDE = 100
"""So many of the measured times go into the dataset's description, which people read, too."""
QUANTILE = 0.99
"""Costs are provisioned for all but the dearest image in a hundred."""
BUDGET_SHARES = (0.1, 0.3, 1.2)
"""Budgets, as shares of what the most accurate features cost at the middle held-out side: so they suit any machine."""
PARAMS = {"folds": 3, "alpha": 0.005}
REQUESTS = (BuildRequest(kind="index", name=ARTIFACT, dataset=DATASET, params=PARAMS, seed=SEED),)


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """What one decision promised and what came of it; costs in ms an image, shares and accuracies from 0 to 1."""

    budget_ms: float
    side: int
    features: tuple[str, ...]
    predicted_ms: float
    measured_mean_ms: float
    measured_maximum_ms: float
    within_budget: float
    predicted_accuracy: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """The index that was built, and how its decisions turned out on so many images a row."""

    record: ArtifactRecord
    rows: tuple[BudgetRow, ...]
    images: int

    @property
    def exceeding(self) -> float:
        """The share of all images, over all rows, whose features took longer than the budget."""
        return 1 - float(np.mean([row.within_budget for row in self.rows]))

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        return {
            "index": {
                "budgets": [asdict(row) for row in self.rows],
                "images": self.images,
                "exceeding": self.exceeding,
                "artifact": self.record.model_dump(mode="json"),
            }
        }

    def print(self) -> None:
        """Print it for people."""
        columns = ["budget", "side", "features", "cost", "mean", "max", "within", "right"]
        terminal.print_table(
            f"{ARTIFACT}: features really computed, {self.images} images a row (ms)",
            columns,
            [_cells(r) for r in self.rows],
        )
        summary = self.record.summary
        terminal.get_console().print(
            "cost: as predicted; mean, max: as measured; within: share of the images that kept the budget. In all "
            f"{self.exceeding:.1%} did not, interruptions by the system among them. The build asked for the accuracy "
            f"of {summary['trainings']['asked']} of {summary['naive']} feature sets."
        )


def store(repos: Repositories, stage: Stage, progress: Progress) -> None:
    """Compute all features of the images, measure what they cost, and store the table."""
    split = stage.split
    images = np.concatenate((split.train[0], split.trace[0]))
    labels = np.concatenate((split.train[1], split.trace[1]))
    repos.datasets.put(DATASET, _table(images, labels, progress), created_at=current_time())


def run(repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> IndexOutcome:
    """Compute the features that are decided on, and classify by them."""
    (record,) = records
    plan, final = repos.artifacts.load_plan(record), stage.split.final
    assert isinstance(plan, IndexPlan)
    cases = [(budget, side) for budget in budgets(plan) for side in HELD_OUT_SIDES]
    rows = []
    for done, (budget, side) in enumerate(cases):
        progress(done, len(cases), f"computing chosen features of {len(final[0])} images at a time")
        rows.append(keep_to(plan, budget, side, final))
    return IndexOutcome(record, tuple(rows), len(final[0]))


def _table(images: Floats, labels: NDArray[np.int64], progress: Progress) -> FeatureTable:
    """Compute all features of every image at one of the measured sides, and note the times."""
    features, rng = extractors(), np.random.default_rng(SEED)
    sides = rng.permutation(np.resize(MEASURED_SIDES, len(images)))
    values, times = _computed(features, images, sides, rng, progress)
    columns: dict[str, Any] = {"digit": labels, "side": sides}
    for feature, table in zip(features, values, strict=True):
        columns |= dict(zip(feature.columns, table.T, strict=True))
    dataset = dataset_from_columns(_spec(features, sides, times), columns)
    assert isinstance(dataset, FeatureTable)
    return dataset


def _computed(
    features: tuple[Extractor, ...],
    images: Floats,
    sides: NDArray[np.int64],
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[list[Floats], Floats]:
    """Compute every feature of every image: for each feature (n, width), and the costs in ms, (n, features).

    The order is drawn anew for each image and repeat: a feature is to find the caches as other features leave them.
    """
    values = [np.empty((len(images), feature.width)) for feature in features]
    times = np.empty((len(images), len(features), REPEATS))
    for i, (image, side) in enumerate(zip(images, sides.tolist(), strict=True)):
        if i % 50 == 0:
            progress(i, len(images), f"computing and timing {len(features)} features of images")
        large = resized(image, side)
        for repeat in range(REPEATS):
            for f in rng.permutation(len(features)).tolist():
                started = time.perf_counter()
                values[f][i] = features[f].compute(large)
                times[i, f, repeat] = (time.perf_counter() - started) * 1000
    return values, np.asarray(np.median(times, axis=-1))


def _spec(features: tuple[Extractor, ...], sides: NDArray[np.int64], times: Floats) -> FeaturesSpec:
    """Describe the table; costs are given as the last times measured at each side, when all was warm."""
    rows = np.concatenate([np.flatnonzero(sides == side)[-TIMINGS_A_SIDE:] for side in MEASURED_SIDES])
    return FeaturesSpec.model_validate(
        {
            "kind": "features",
            "label": "digit",
            "unit": "ms",
            "size": "side",
            "features": [
                {
                    "name": feature.name,
                    "columns": feature.columns,
                    "cost": {
                        "timings": [[side, round(ms, 5)] for side, ms in zip(sides[rows].tolist(), taken, strict=True)],
                        "degree": 2,
                        "quantile": QUANTILE,
                    },
                }
                for feature, taken in zip(features, times[rows].T.tolist(), strict=True)
            ],
        }
    )


def budgets(plan: IndexPlan) -> list[float]:
    """Choose budgets in ms that make a difference, to two digits."""
    most = plan.list_skyline(float(HELD_OUT_SIDES[len(HELD_OUT_SIDES) // 2]))[-1].cost
    return [float(f"{share * most:.2g}") for share in BUDGET_SHARES]


def keep_to(plan: IndexPlan, budget: float, side: int, data: tuple[Floats, NDArray[np.int64]]) -> BudgetRow:
    """Decide for one size and budget, compute the chosen features of every image, and classify by them."""
    query = IndexQuery(size=float(side), budget=budget)
    decision = plan.decide(query)
    chosen = [feature for feature in extractors() if feature.name in decision.features]
    vectors, times = timed(
        lambda image: [feature.compute(image) for feature in chosen], (resized(image, side) for image in data[0])
    )
    return BudgetRow(
        budget_ms=budget,
        side=side,
        features=tuple(decision.features),
        predicted_ms=decision.cost,
        measured_mean_ms=float(times.mean()),
        measured_maximum_ms=float(times.max()),
        within_budget=float(np.mean(times <= budget)),
        predicted_accuracy=plan.estimate_accuracy(query, decision)[0],
        accuracy=_accuracy(plan, decision, chosen, vectors, data[1]),
    )


def _accuracy(
    plan: IndexPlan,
    decision: IndexDecision,
    chosen: list[Extractor],
    computed: list[list[Floats]],
    labels: NDArray[np.int64],
) -> float:
    """Let the plan's model classify the images by their features, and tell how often it is right."""
    columns = [column for feature in chosen for column in feature.columns]
    items = [dict(zip(columns, np.concatenate([np.zeros(0), *vectors]).tolist(), strict=True)) for vectors in computed]
    answers = plan.predict(decision, items).labels
    return float(np.mean([answer == str(label) for answer, label in zip(answers, labels.tolist(), strict=True)]))


def _cells(row: BudgetRow) -> list[Any]:
    """Give a table's cells: costs to three digits, shares in percent."""
    costs = [float(f"{cost:.3g}") for cost in (row.predicted_ms, row.measured_mean_ms, row.measured_maximum_ms)]
    return [row.budget_ms, row.side, row.features, *costs, f"{row.within_budget:.1%}", f"{row.accuracy:.1%}"]
