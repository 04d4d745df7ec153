"""The demo's third part: which classifier for each image of a batch, within a budget for all of them.

Some images are not centred, so that they need the classifier that looks at shifted copies, and others do not. Each was
shown to every classifier of the first part; a small one's probabilities are the embedding, and its time is taken off
every budget. The comparison is on images that neither training, nor the trace, nor the build has seen; and then single
images are routed, and really classified, one at a time.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import show
from app.clock import now
from app.demo_timing import timed
from app.digits import SEED, DigitClassifier, Images, Split, probabilities
from app.jobs import checked_request
from app.parts import Parts
from app.worker import build_locally, training_on
from models import ArtifactRecord, BuildRequest, Trace, TraceSpec, dataset_from_columns
from models.portfolio import RouteBudget, RouteQuery
from solvers import Progress
from solvers.portfolio import PortfolioPlan
from solvers.portfolio.baselines import forest_values
from solvers.portfolio.curve import draw_curve, methods_of
from solvers.portfolio.outcome import Known

Floats = NDArray[np.float64]
TRACE = "digits"
"""The first part's dataset, which knows what each classifier's answer takes."""
DATASET = "digits-moved"
ARTIFACT = "digits-moved"
EMBEDDER = "gradients-logistic"
MOVED = 0.25
"""The share of images that are moved, by up to one pixel each way."""
COPIES = 3
"""Each image stands so often in the trace, and in the comparison, each time moved anew or left alone."""
FRACTIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Budgets, as shares of what the dearest classifier takes; at a tenth the embedding alone would take nearly all."""
ROUTED = 0.3
"""The budget at which single images are really classified."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One budget: the accuracy of each method on the images of the comparison."""

    budget_ms: float
    occam: float
    route: float
    single_best: float
    random: float
    frugal_mct: float
    oracle: float


@dataclass(frozen=True, slots=True)
class PortfolioOutcome:
    """The portfolio that was built, how it compares, and how single images went: times in ms an image."""

    record: ArtifactRecord
    rows: tuple[MethodRow, ...]
    images: int
    routed_budget_ms: float
    routed_mean_ms: float
    routed_accuracy: float

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        return {
            "portfolio": {
                "budgets": [asdict(row) for row in self.rows],
                "images": self.images,
                "routed": {
                    "budget_ms": self.routed_budget_ms,
                    "measured_mean_ms": self.routed_mean_ms,
                    "accuracy": self.routed_accuracy,
                },
                "artifact": self.record.model_dump(mode="json"),
            }
        }

    def print(self) -> None:
        """Print it for people."""
        names = list(asdict(self.rows[0]))
        cells = [[f"{value:.3f}" for value in asdict(row).values()] for row in self.rows]
        show.print_table(f"accuracy on {self.images} images, by budget (ms an image)", names, cells)
        count = len(self.rows)
        better = [
            f"{name} at {sum(row.occam >= getattr(row, name) for row in self.rows)} ({self._lead(name):+.1f} points)"
            for name in ("single_best", "random", "frugal_mct")
        ]
        show.console().print(
            f"Of {count} budgets the portfolio is at least as accurate as {', '.join(better)} (on average). Routed one "
            f"at a time for {self.routed_budget_ms:.3g} ms an image, images took {self.routed_mean_ms:.3g} ms; "
            f"{self.routed_accuracy:.1%} right."
        )

    def _lead(self, name: str) -> float:
        """Average by how many points the portfolio is ahead of a method."""
        return 100 * float(np.mean([row.occam - getattr(row, name) for row in self.rows]))


def run_portfolio(
    parts: Parts, split: Split, classifiers: list[DigitClassifier], progress: Progress
) -> PortfolioOutcome:
    """Trace moved images, build, compare, and route single images."""
    rng = np.random.default_rng(SEED)
    means = _measured(parts)
    progress(0, 4, f"showing moved images to {len(classifiers)} classifiers")
    traced, final = (_moved(*data, rng) for data in (split.trace, split.final))
    parts.datasets.put(DATASET, _trace(classifiers, traced, means), created_at=now())
    progress(1, 4, f"building portfolio {ARTIFACT}")
    params = {"feature_classifier": EMBEDDER}
    request = BuildRequest(solver="portfolio", name=ARTIFACT, dataset=DATASET, params=params, seed=SEED)
    record = build_locally(parts, request, checked_request(request)[1], lambda *step: None)
    plan: PortfolioPlan = parts.artifacts.plan(record)
    progress(2, 4, f"comparing on {len(final[0])} images")
    rows = _compare(plan, record, classifiers, final, means)
    progress(3, 4, f"routing {len(split.final[0])} images")
    single = final[0][::COPIES], final[1][::COPIES]
    budget, mean, accuracy = _route(plan, {k.name: k for k in classifiers}, single)
    return PortfolioOutcome(record, rows, len(final[0]), budget, mean, accuracy)


def _measured(parts: Parts) -> dict[str, float]:
    """Look up what the first part measured: for each classifier the mean time of an answer."""
    trace = parts.datasets.load(parts.datasets.info(TRACE))
    assert isinstance(trace, Trace)
    return dict(zip((k.name for k in trace.spec.classifiers), trace.costs.mean(axis=0).tolist(), strict=True))


def _moved(images: Images, labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[Images, NDArray[np.int64]]:
    """Copy each image, and move some of the copies."""
    copies = np.repeat(images, COPIES, axis=0)
    for place in np.flatnonzero(rng.random(len(copies)) < MOVED):
        copies[place] = np.roll(copies[place], rng.integers(-1, 2, 2), axis=(0, 1))
    return copies, np.repeat(labels, COPIES)


def _trace(
    classifiers: list[DigitClassifier], data: tuple[Images, NDArray[np.int64]], means: dict[str, float]
) -> Trace:
    """Note every classifier's answer to every image, and the embedder's probabilities."""
    votes = {k.name: probabilities(k, data[0]) for k in classifiers}
    spec = {
        "kind": "trace",
        "label": "digit",
        "unit": "ms",
        "classifiers": [{"name": k.name, "cost": means[k.name], "prediction": k.name} for k in classifiers],
    }
    columns = {k.name: k.model.classes_[votes[k.name].argmax(axis=1)] for k in classifiers}
    embeddings = votes[EMBEDDER].astype(np.float32)
    made = dataset_from_columns(TraceSpec.model_validate(spec), {"digit": data[1], **columns}, embeddings)
    assert isinstance(made, Trace)
    return made


def _compare(
    plan: PortfolioPlan,
    record: ArtifactRecord,
    classifiers: list[DigitClassifier],
    data: tuple[Images, NDArray[np.int64]],
    means: dict[str, float],
) -> tuple[MethodRow, ...]:
    """Let every method assign the images at every budget."""
    by_name = {k.name: k for k in classifiers}
    votes = [probabilities(by_name[name], data[0]) for name in plan.classifiers]
    labels = np.stack(
        [by_name[n].model.classes_[v.argmax(axis=1)] for n, v in zip(plan.classifiers, votes, strict=True)]
    )
    right = (labels == data[1]).T.astype(np.float64)
    costs = np.array([means[name] for name in plan.classifiers])
    vectors = votes[plan.classifiers.index(EMBEDDER)].astype(np.float32)
    known, plain = (_known(plan, vectors, right, costs, embeds=embeds) for embeds in (True, False))
    estimates = plan.estimate(vectors)
    accuracies = np.array([each["accuracy"] for each in record.summary["classifiers"]])
    with training_on(None):
        forests = forest_values(plan.items, plan.success.astype(np.float64), plan.scaled(vectors), SEED)
    methods = methods_of(
        estimates, plan.values(estimates), plan.route_each(estimates), known, plain, accuracies, forests,
        np.random.default_rng(SEED),
    )  # fmt: skip
    budgets = np.array(FRACTIONS) * plan.dearest
    drawn = draw_curve(methods, budgets, known, plain)
    return tuple(MethodRow(*row) for row in np.column_stack((budgets, drawn.accuracies.T)).tolist())


def _known(plan: PortfolioPlan, vectors: NDArray[np.float32], right: Floats, costs: Floats, *, embeds: bool) -> Known:
    n = len(right)
    means = plan.costs if embeds else costs
    embedding = plan.embedding_cost if embeds else 0.0
    return Known(vectors, right, np.tile(means, (n, 1)), np.full(n, embedding), means, embedding)


def _route(
    plan: PortfolioPlan, classifiers: dict[str, DigitClassifier], data: tuple[Images, NDArray[np.int64]]
) -> tuple[float, float, float]:
    """Route images as a caller would: embed one, ask, call the classifier; the budget, mean time and accuracy."""
    budget = ROUTED * plan.dearest
    embedder = classifiers[EMBEDDER]

    def classify(image: Images) -> int:
        vote = probabilities(embedder, image[None])[0]
        query = RouteQuery(query=tuple(vote.tolist()), budget=RouteBudget(per_query=budget))
        chosen = plan.decide(query).classifier
        if chosen == EMBEDDER:
            return int(embedder.model.classes_[vote.argmax()])
        return classifiers[chosen].answer(image)[0]

    answers, times = timed(classify, data[0])
    return budget, float(times.mean()), float(np.mean(np.array(answers) == data[1]))
