"""The demo's pipeline: which measurements of a tumour to take, in which stages, and when to leave it to a person.

The data are scikit-learn's: 569 tumours, ten measurements of three columns each. What a measurement costs is an
assumption of this demo, in minutes of work. A fifth of the tumours is kept back; each of them is then walked through
the stages as a caller would, asking what to do next until there is an answer or a refusal.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import terminal
from app.demo.images import SEED
from app.demo.stage import Stage
from app.processes.clock import current_time
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, FeaturesSpec, dataset_from_columns
from models.pipeline import Acquire, Cells, Classify, PipelineQuery
from solvers import Progress
from solvers.pipeline import PipelinePlan

DATASET = "tumours"
ARTIFACT = "tumours"
MINUTES = {
    "radius": 1.0,
    "texture": 2.0,
    "perimeter": 1.0,
    "area": 1.0,
    "smoothness": 3.0,
    "compactness": 2.0,
    "concavity": 4.0,
    "concave points": 5.0,
    "symmetry": 2.0,
    "fractal dimension": 6.0,
}
"""What each measurement costs: an assumption of this demo."""
KINDS = ("mean", "error", "worst")
PARAMS = {"confidence_threshold": 0.9, "max_stages": 5}
REQUESTS = (BuildRequest(kind="pipeline", name=ARTIFACT, dataset=DATASET, params=PARAMS, seed=SEED),)
LIMITS = ({"budget": 4.5}, {"min_accuracy": 0.97})


@dataclass(frozen=True, slots=True)
class LimitRow:
    """What one decision promised, and what came of it for tumours kept back: minutes a tumour, shares from 0 to 1."""

    limits: str
    stages: tuple[str, ...]
    predicted_cost: float
    cost: float
    predicted_coverage: float
    coverage: float
    predicted_accuracy: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """The pipeline that was built, and how its decisions turned out."""

    record: ArtifactRecord
    rows: tuple[LimitRow, ...]
    tumours: int

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        return {
            "pipeline": {
                "limits": [asdict(row) for row in self.rows],
                "tumours": self.tumours,
                "artifact": self.record.model_dump(mode="json"),
            }
        }

    def print(self) -> None:
        """Print it for people."""
        cells = [
            (row.limits, " > ".join(row.stages), row.cost, f"{row.coverage:.1%}", f"{row.accuracy:.1%}")
            for row in self.rows
        ]
        title = f"measuring {self.tumours} tumours in stages; all measurements take {sum(MINUTES.values()):g} minutes"
        terminal.print_table(title, ["limits", "stages", "minutes", "answered", "right"], cells)


def store(repos: Repositories, stage: Stage, progress: Progress) -> None:
    """Store the table of four fifths of the tumours."""
    repos.datasets.put(DATASET, dataset_from_columns(_spec(), _columns()[0]), created_at=current_time())


def run(repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> PipelineOutcome:
    """Walk the tumours that were kept back."""
    (record,) = records
    plan: PipelinePlan = repos.artifacts.load_plan(record)
    kept_back = _columns()[1]
    count = len(kept_back["diagnosis"])
    progress(0, 0, f"walking {count} tumours")
    return PipelineOutcome(record, tuple(_keep_to(plan, limits, kept_back) for limits in LIMITS), count)


def _columns() -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Give the columns of four fifths of the tumours, and of the others."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [f"{name} {kind}" for kind in KINDS for name in MINUTES]
    columns = dict(zip(names, data.data.T, strict=True)) | {"diagnosis": data.target_names[data.target]}
    order = np.random.default_rng(SEED).permutation(len(data.target))
    cut = len(order) * 4 // 5
    parts = (np.sort(order[:cut]), np.sort(order[cut:]))
    first, second = ({name: column[rows] for name, column in columns.items()} for rows in parts)
    return first, second


def _spec() -> FeaturesSpec:
    features = [
        {"name": name, "columns": [f"{name} {kind}" for kind in KINDS], "cost": cost} for name, cost in MINUTES.items()
    ]
    described = {"kind": "features", "label": "diagnosis", "unit": "min", "features": features}
    return FeaturesSpec.model_validate(described)


def _keep_to(plan: PipelinePlan, limits: dict[str, float], tumours: dict[str, NDArray[Any]]) -> LimitRow:
    """Decide within limits, and walk every tumour through the stages that were decided on."""
    decision = plan.decide(PipelineQuery.model_validate(limits))
    costs, answers = [], []
    for row, truth in enumerate(tumours["diagnosis"].tolist()):
        answer, cost = _walk(plan, decision.solution, tumours, row)
        costs.append(cost)
        answers.append(None if answer is None else answer == truth)
    given = [right for right in answers if right is not None]
    return LimitRow(
        limits=", ".join(f"{name} {value:g}" for name, value in limits.items()),
        stages=tuple(", ".join(stage.features) for stage in decision.stages),
        predicted_cost=decision.cost,
        cost=float(np.mean(costs)),
        predicted_coverage=decision.coverage,
        coverage=len(given) / len(answers),
        predicted_accuracy=decision.conclusive_accuracy,
        accuracy=float(np.mean(given)) if given else 0.0,
    )


def _walk(plan: PipelinePlan, solution: int, tumours: dict[str, NDArray[Any]], row: int) -> tuple[str | None, float]:
    """Ask what to do next until there is an answer, or none: the answer, and what was spent."""
    known: dict[str, Cells] = {}
    spent = 0.0
    while isinstance(step := plan.next_step(solution, known), Acquire):
        spent += step.cost
        known |= {name: tuple(float(tumours[f"{name} {kind}"][row]) for kind in KINDS) for name in step.features}
    return (step.label if isinstance(step, Classify) else None), spent
