"""The demo's policy: of one image at a time, which classifier to ask next, or which answer to take.

The cascades' trace says what every classifier answered, how sure it was, and what it took. The policy buys answers
one by one and combines what it bought. It is held to its word on images that neither training, nor the trace, nor the
build has seen, with the times that the trace has on average.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from app import terminal
from app.demo.images import SEED, DigitClassifier, probabilities
from app.demo.stage import Stage
from app.processes.clock import current_time
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, Trace
from models.arrays import Floats
from models.policy import PolicyTarget
from models.policy_curves import RolloutItem
from solvers import Progress
from solvers.policy import PolicyPlan

TRACE = "digits"
"""The cascades' trace."""
DATASET = "digits-six"
ARTIFACT = "digits"
SIX = ("profiles-lda", "pixels-logistic", "pixels-neighbours", "gradients-kernel", "pixels-forest", "jury")
"""So few that every set of them can be a state, and that none of their answers goes unused."""
PARAMS = {"points": 8, "trees": 20}
REQUESTS = (BuildRequest(kind="policy", name=ARTIFACT, dataset=DATASET, params=PARAMS, seed=SEED),)
FRACTIONS = (0.1, 0.2, 0.4)
"""Budgets, as shares of what the dearest classifier takes."""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One budget: what images cost by the trace's mean times, classifiers asked, and the share that was right."""

    budget_ms: float
    cost_ms: float
    asked: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The policy that was built, and how it turned out; the dearest classifier alone beside it."""

    record: ArtifactRecord
    rows: tuple[PolicyRow, ...]
    images: int
    dearest_ms: float
    dearest_accuracy: float

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        return {
            "policy": {
                "budgets": [asdict(row) for row in self.rows],
                "images": self.images,
                "dearest": {"cost_ms": self.dearest_ms, "accuracy": self.dearest_accuracy},
                "artifact": self.record.model_dump(mode="json"),
            }
        }

    def print(self) -> None:
        """Print it for people."""
        cells = [
            (*(float(f"{v:.3g}") for v in (r.budget_ms, r.cost_ms, r.asked)), f"{r.accuracy:.1%}") for r in self.rows
        ]
        terminal.print_table(
            f"asking classifiers about {self.images} images", ["budget ms", "ms", "asked", "right"], cells
        )
        terminal.get_console().print(
            f"The dearest classifier alone takes {self.dearest_ms:.3g} ms; {self.dearest_accuracy:.1%} right."
        )


def store(repos: Repositories, stage: Stage, progress: Progress) -> None:
    """Store the cascades' trace of six classifiers."""
    repos.datasets.put(DATASET, _six(repos), created_at=current_time())


def run(repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> PolicyOutcome:
    """Run images that nobody has seen through the policy."""
    (record,) = records
    plan: PolicyPlan = repos.artifacts.load_plan(record)
    images, labels = stage.split.final
    progress(0, 0, f"asking about {len(images)} images")
    asked = {k.name: _answers(k, images) for k in stage.classifiers(progress) if k.name in SIX}
    items = tuple(
        RolloutItem(item=f"image-{i}", sensors={name: answers[i] for name, answers in asked.items()})
        for i in range(len(images))
    )
    truths = [str(label) for label in labels.tolist()]
    dearest = int(plan.costs.argmax())
    name, most = plan.sensors[dearest], float(plan.costs[dearest])
    right = [label == truth for (label, _), truth in zip(asked[name], truths, strict=True)]
    rows = tuple(_row(plan, items, truths, fraction * most) for fraction in FRACTIONS)
    return PolicyOutcome(record, rows, len(items), most, sum(right) / len(right))


def _six(repos: Repositories) -> Trace:
    """Take six classifiers of the cascades' trace."""
    trace = repos.datasets.load(repos.datasets.get_info(TRACE))
    assert isinstance(trace, Trace)
    kept = [i for i, classifier in enumerate(trace.spec.classifiers) if classifier.name in SIX]
    spec = trace.spec.model_copy(update={"classifiers": tuple(trace.spec.classifiers[i] for i in kept)})
    return replace(
        trace,
        spec=spec,
        predictions=trace.predictions.take(kept, axis=1),
        quality=trace.quality.take(kept, axis=1),
        confidences=trace.confidences.take(kept, axis=1),
        costs=trace.costs.take(kept, axis=1),
        margins=trace.margins.take(kept, axis=1),
    )


def _answers(classifier: DigitClassifier, images: Floats) -> list[tuple[str, float]]:
    """Give the class of each image as text, and how sure a classifier is of it."""
    votes = probabilities(classifier, images)
    labels = classifier.model.classes_[votes.argmax(axis=1)]
    return [(str(label), sure) for label, sure in zip(labels.tolist(), votes.max(axis=1).tolist(), strict=True)]


def _row(plan: PolicyPlan, items: tuple[RolloutItem, ...], truths: list[str], budget: float) -> PolicyRow:
    rollouts = plan.roll_out(items, PolicyTarget(budget=budget))
    right = [one.label == truth for one, truth in zip(rollouts.items, truths, strict=True)]
    asked = [len(one.path) for one in rollouts.items]
    return PolicyRow(budget, rollouts.mean_cost, sum(asked) / len(asked), sum(right) / len(right))
