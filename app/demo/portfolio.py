"""The demo's portfolio: which classifier for each image of a batch, within a budget for all of them.

Some images are not centred, so that they need the classifier that looks at shifted copies, and others do not. Each was
shown to every classifier of the cascades; a small one's probabilities are the embedding, and its time is taken off
every budget. The comparison is on images that neither training, nor the trace, nor the build has seen; and then single
images are routed, and really classified, one at a time.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import terminal
from app.building.worker import training_on
from app.demo.images import SEED, DigitClassifier, Split, probabilities
from app.demo.stage import Stage
from app.demo.timing import timed
from app.processes.clock import current_time
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats
from models.portfolio import RouteQuery
from solvers import Progress
from solvers.portfolio import PortfolioPlan
from solvers.portfolio.baselines import predict_by_forests
from solvers.portfolio.curve import list_methods, measure_curve
from solvers.portfolio.routing_outcome import KnownItems

TRACE = "digits"
"""The cascades' dataset, which knows what each classifier's answer takes."""
DATASET = "digits-moved"
ARTIFACT = "digits-moved"
EMBEDDER = "gradients-logistic"
MOVED = 0.25
"""The share of images that are moved, by up to one pixel each way."""
COPIES = 3
"""Each image stands so often in the comparison, each time moved anew or left alone; in the trace it stands once, for
who has seen one copy has seen the others."""
FRACTIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Budgets, as shares of what the dearest classifier takes; at a tenth the embedding alone would take nearly all."""
ROUTED = 0.3
"""The budget at which single images are really classified."""
PARAMS = {"feature_classifier": EMBEDDER}
REQUESTS = (BuildRequest(kind="portfolio", name=ARTIFACT, dataset=DATASET, params=PARAMS, seed=SEED),)


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One budget: the accuracy of each method on the images of the comparison."""

    budget_ms: float
    batch: float
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
        terminal.print_table(f"accuracy on {self.images} images, by budget (ms an image)", names, cells)
        count = len(self.rows)
        better = [
            f"{name} at {sum(row.batch >= getattr(row, name) for row in self.rows)} ({self._lead(name):+.1f} points)"
            for name in ("single_best", "random", "frugal_mct")
        ]
        terminal.get_console().print(
            f"Of {count} budgets the portfolio is at least as accurate as {', '.join(better)} (on average). Routed one "
            f"at a time for {self.routed_budget_ms:.3g} ms an image, images took {self.routed_mean_ms:.3g} ms; "
            f"{self.routed_accuracy:.1%} right."
        )

    def _lead(self, name: str) -> float:
        """Average by how many points the portfolio is ahead of a method."""
        return 100 * float(np.mean([row.batch - getattr(row, name) for row in self.rows]))


def store(repos: Repositories, stage: Stage, progress: Progress) -> None:
    """Show moved images to the classifiers, and store what they answer; what that takes the cascades' part measured."""
    classifiers = stage.classifiers(progress)
    progress(0, 0, f"showing moved images to {len(classifiers)} classifiers")
    trace = _trace(classifiers, moved_images(stage.split)[0], _measured(repos))
    repos.datasets.put(DATASET, trace, created_at=current_time())


def run(repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> PortfolioOutcome:
    """Compare on images that nobody has seen, and route single ones."""
    (record,) = records
    classifiers, final = stage.classifiers(progress), moved_images(stage.split)[1]
    plan: PortfolioPlan = repos.artifacts.load_plan(record)
    progress(0, 2, f"comparing on {len(final[0])} images")
    learned = repos.datasets.load(repos.datasets.get_info(DATASET))
    assert isinstance(learned, Trace)
    rows = _compare(plan, record, classifiers, final, _measured(repos), learned)
    progress(1, 2, f"routing {len(stage.split.final[0])} images")
    single = final[0][::COPIES], final[1][::COPIES]
    budget, mean, accuracy = _route(plan, {k.name: k for k in classifiers}, single)
    return PortfolioOutcome(record, rows, len(final[0]), budget, mean, accuracy)


def _measured(repos: Repositories) -> dict[str, float]:
    """Look up what the cascades' part measured: for each classifier the mean time of an answer."""
    trace = repos.datasets.load(repos.datasets.get_info(TRACE))
    assert isinstance(trace, Trace)
    return dict(zip((k.name for k in trace.spec.classifiers), trace.costs.mean(axis=0).tolist(), strict=True))


Images = tuple[Floats, NDArray[np.int64]]
"""Images, and the digits on them."""


def moved_images(split: Split) -> tuple[Images, Images]:
    """Give the images of the trace, and those of the comparison, these each several times, some of them moved."""
    rng = np.random.default_rng(SEED)
    return _moved(*split.trace, 1, rng), _moved(*split.final, COPIES, rng)


def _moved(images: Floats, labels: NDArray[np.int64], times: int, rng: np.random.Generator) -> Images:
    """Copy each image so many times, and move some of the copies."""
    copies = np.repeat(images, times, axis=0)
    for place in np.flatnonzero(rng.random(len(copies)) < MOVED):
        copies[place] = np.roll(copies[place], rng.integers(-1, 2, 2), axis=(0, 1))
    return copies, np.repeat(labels, times)


def _trace(
    classifiers: list[DigitClassifier], data: tuple[Floats, NDArray[np.int64]], means: dict[str, float]
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
    data: tuple[Floats, NDArray[np.int64]],
    means: dict[str, float],
    learned: Trace,
) -> tuple[MethodRow, ...]:
    """Let every method assign the images at every budget; forests learn from the trace that the portfolio did."""
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
        columns = [[k.name for k in learned.spec.classifiers].index(name) for name in plan.classifiers]
        forests = predict_by_forests(learned.embeddings, learned.quality[:, columns], vectors, SEED)
    methods = list_methods(
        estimates, plan.penalize_estimates(estimates), plan.make_router(estimates, vectors), known, plain, accuracies,
        forests, np.random.default_rng(SEED),
    )  # fmt: skip
    budgets = np.array(FRACTIONS) * plan.dearest
    drawn = measure_curve(methods, budgets, known, plain)
    return tuple(MethodRow(*row) for row in np.column_stack((budgets, drawn.accuracies.T)).tolist())


def _known(
    plan: PortfolioPlan, vectors: NDArray[np.float32], right: Floats, costs: Floats, *, embeds: bool
) -> KnownItems:
    n = len(right)
    means = plan.costs if embeds else costs
    embedding = plan.embedding_cost if embeds else 0.0
    return KnownItems(vectors, right, np.tile(means, (n, 1)), np.full(n, embedding), means, embedding, np.arange(n))


def _route(
    plan: PortfolioPlan, classifiers: dict[str, DigitClassifier], data: tuple[Floats, NDArray[np.int64]]
) -> tuple[float, float, float]:
    """Route images as a caller would: embed one, ask, call the classifier; the budget, mean time and accuracy."""
    budget = ROUTED * plan.dearest
    embedder = classifiers[EMBEDDER]

    def classify(image: Floats) -> int:
        vote = probabilities(embedder, image[None])[0]
        query = RouteQuery(query=tuple(vote.tolist()), budget=budget)
        chosen = plan.decide(query).classifier
        if chosen == EMBEDDER:
            return int(embedder.model.classes_[vote.argmax()])
        return classifiers[chosen].answer(image)[0]

    answers, times = timed(classify, data[0])
    return budget, float(times.mean()), float(np.mean(np.array(answers) == data[1]))
