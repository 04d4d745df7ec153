"""The demo's fifth part: of one image at a time, which classifier to ask next, or which answer to take.

The first part's trace says what every classifier answered, how sure it was, and what it took. The policy buys answers
one by one and combines what it bought. It is held to its word on images that neither training, nor the trace, nor the
build has seen, with the times that the trace has on average.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from app import show
from app.clock import now
from app.digits import SEED, DigitClassifier, Images, Split, probabilities
from app.jobs import checked_request
from app.parts import Parts
from app.worker import build_locally
from models import ArtifactRecord, BuildRequest, Trace
from models.policy import PolicyTarget, RolloutItem
from solvers import Progress
from solvers.policy import PolicyPlan

TRACE = "digits"
"""The first part's trace."""
DATASET = "digits-six"
ARTIFACT = "digits"
SIX = ("profiles-lda", "pixels-logistic", "pixels-neighbours", "gradients-kernel", "pixels-forest", "jury")
"""So few that every set of them can be a state, and that none of their answers goes unused."""
PARAMS = {"learner": "regression", "points": 8, "trees": 20}
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
        show.print_table(f"asking classifiers about {self.images} images", ["budget ms", "ms", "asked", "right"], cells)
        show.console().print(
            f"The dearest classifier alone takes {self.dearest_ms:.3g} ms; {self.dearest_accuracy:.1%} right."
        )


def run_policy(parts: Parts, split: Split, classifiers: list[DigitClassifier], progress: Progress) -> PolicyOutcome:
    """Build from the first part's trace, and run images that nobody has seen through it."""
    progress(0, 2, f"building policy {ARTIFACT}")
    parts.datasets.put(DATASET, _six(parts), created_at=now())
    request = BuildRequest(solver="policy", name=ARTIFACT, dataset=DATASET, params=PARAMS, seed=SEED)
    record = build_locally(parts, request, checked_request(request)[1], lambda *step: None)
    plan: PolicyPlan = parts.artifacts.plan(record)
    images, labels = split.final
    progress(1, 2, f"asking about {len(images)} images")
    asked = {k.name: _answers(k, images) for k in classifiers if k.name in SIX}
    items = tuple(
        RolloutItem(item=f"image-{i}", sensors={name: told[i] for name, told in asked.items()})
        for i in range(len(images))
    )
    truths = [str(label) for label in labels.tolist()]
    dearest = int(plan.costs.argmax())
    name, most = plan.sensors[dearest], float(plan.costs[dearest])
    right = [label == truth for (label, _), truth in zip(asked[name], truths, strict=True)]
    rows = tuple(_row(plan, items, truths, fraction * most) for fraction in FRACTIONS)
    return PolicyOutcome(record, rows, len(items), most, sum(right) / len(right))


def _six(parts: Parts) -> Trace:
    """Take six classifiers of the first part's trace."""
    trace = parts.datasets.load(parts.datasets.info(TRACE))
    assert isinstance(trace, Trace)
    kept = [i for i, classifier in enumerate(trace.spec.classifiers) if classifier.name in SIX]
    spec = trace.spec.model_copy(update={"classifiers": tuple(trace.spec.classifiers[i] for i in kept)})
    return replace(
        trace,
        spec=spec,
        predictions=trace.predictions.take(kept, axis=1),
        confidences=trace.confidences.take(kept, axis=1),
        costs=trace.costs.take(kept, axis=1),
        margins=trace.margins.take(kept, axis=1),
    )


def _answers(classifier: DigitClassifier, images: Images) -> list[tuple[str, float]]:
    """Give the class of each image as text, and how sure a classifier is of it."""
    votes = probabilities(classifier, images)
    labels = classifier.model.classes_[votes.argmax(axis=1)]
    return [(str(label), sure) for label, sure in zip(labels.tolist(), votes.max(axis=1).tolist(), strict=True)]


def _row(plan: PolicyPlan, items: tuple[RolloutItem, ...], truths: list[str], budget: float) -> PolicyRow:
    found = plan.rollouts(items, PolicyTarget(budget=budget))
    right = [one.label == truth for one, truth in zip(found.items, truths, strict=True)]
    asked = [len(one.path) for one in found.items]
    return PolicyRow(budget, found.mean_cost, sum(asked) / len(asked), sum(right) / len(right))
