"""What several classifiers made of the same items, with an embedding of each item: what routers learn from."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from models import Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s, Singles
from tests.bench.policy import SHARED, embed_answers, load

PRICES = (0.24, 24.7)
"""US dollars for a million tokens of the two models of RouteLLM's sets, as their paper has them."""
SEVEN = (1.0, 2.5, 5.0, 10.0, 20.0, 35.0, 50.0)
"""What the seven classifiers of letters and digits cost, the cheapest first: an assumption."""
TRAINED = 5_000
"""Letters that these learn from at most, and a third of the digits; none of them is routed."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What m classifiers made of n items. vectors: (n, d); right: (n, m), from 0 to 1; costs: (m,); embedder: which of
    the classifiers the embedding is the answer of, which it costs, and which answers for nothing then; held: the
    columns that a trace of it has, and its spec."""

    vectors: Singles
    right: Floats
    costs: Floats
    embedder: int | None
    held: dict[str, Any]
    spec: TraceSpec

    @classmethod
    def of(cls, name: str) -> "Outcomes":
        if name in SEVENS:
            return _seven(name)
        return _services(name) if name.startswith("frugalml_") else _prompts(name)

    def trace(self, rows: Int64s) -> Trace:
        made = dataset_from_columns(self.spec, {name: column[rows] for name, column in self.held.items()})
        assert isinstance(made, Trace)
        return replace(made, embeddings=self.vectors[rows])

    @property
    def fee(self) -> float:
        return 0.0 if self.embedder is None else float(self.costs[self.embedder])

    @property
    def further(self) -> Floats:
        """What each classifier costs where the embedding is there, (m,)."""
        own = np.arange(len(self.costs)) == self.embedder
        return np.asarray(np.where(own, 0.0, self.costs))


def is_there(name: str) -> bool:
    """Tell whether the file of a set is there; digits come with scikit-learn."""
    file = "letter.csv" if name == "letter" else f"{name}.npz"
    return name == "digits" or (SHARED / file).exists()


def _spec(costs: Floats, column_of: Callable[[str], dict[str, str]], **more: str) -> TraceSpec:
    classifiers = [{"name": f"model-{j}", "cost": cost, **column_of(str(j))} for j, cost in enumerate(costs.tolist())]
    return TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers, **more})


def _prompts(name: str) -> Outcomes:
    arrays = np.load(SHARED / f"{name}.npz", allow_pickle=False)
    graded, costs = "quality" in arrays, np.array(PRICES)
    if graded:
        costs = np.array(json.loads((SHARED / f"{name}.json").read_text())["usd_per_million_tokens"])
    right = arrays["quality" if graded else "correct"].astype(np.float64)
    held = {f"quality-{j}": column for j, column in enumerate(right.T)}
    spec = _spec(costs, lambda j: {"quality": f"quality-{j}"})
    return Outcomes(arrays["embedding"].astype(np.float32), right, costs, None, held, spec)


def _services(name: str) -> Outcomes:
    """Read a trace of FrugalML; the cheapest service's answer is the embedding."""
    trace = load(name.removeprefix("frugalml_"))
    costs = trace.costs.mean(axis=0)
    cheapest = int(costs.argmin())
    vectors = embed_answers(trace, cheapest, 1 + max(map(int, trace.classes)))
    truth, said = trace.labels.astype(np.int64), trace.predictions.astype(np.int64)
    return _answered(vectors, truth, said, trace.confidences, costs, cheapest)


def _answered(
    vectors: Singles, truth: Int64s, said: Int64s, sure: Floats, costs: Floats, embedder: int | None
) -> Outcomes:
    held: dict[str, Any] = {"truth": truth}
    for j in range(len(costs)):
        held |= {f"says-{j}": said[:, j], f"sure-{j}": sure[:, j]}
    spec = _spec(costs, lambda j: {"prediction": f"says-{j}", "confidence": f"sure-{j}"}, label="truth")
    return Outcomes(vectors, (said == truth[:, None]).astype(np.float64), costs, embedder, held, spec)


def _letters() -> tuple[Singles, Int64s]:
    lines = (SHARED / "letter.csv").read_text().splitlines()[1:]
    cells = np.array([line.split(",") for line in lines])
    return cells[:, :-1].astype(np.float32), np.unique(cells[:, -1], return_inverse=True)[1].astype(np.int64)


def _digits() -> tuple[Singles, Int64s]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.data.astype(np.float32), digits.target.astype(np.int64)


SEVENS: dict[str, Callable[[], tuple[Singles, Int64s]]] = {"letter": _letters, "digits": _digits}


@cache
def _seven(name: str) -> Outcomes:
    """Train seven classifiers on some items; what they make of the others is the set. The items are the embeddings."""
    vectors, truth = SEVENS[name]()
    order = np.random.default_rng(0).permutation(len(truth))
    learned, others = np.split(order, [min(TRAINED, len(truth) // 3)])
    said, sure = [], []
    for classifier in _classifiers():
        classifier.fit(vectors[learned], truth[learned])
        able = hasattr(classifier, "predict_proba")
        scores = (classifier.predict_proba if able else classifier.decision_function)(vectors[others])
        said.append(classifier.classes_[scores.argmax(axis=1)])
        margin = np.subtract(*np.sort(scores, axis=1)[:, :-3:-1].T)
        sure.append(margin if able else 1 / (1 + np.exp(-margin)))
    columns = np.stack(said, axis=1), np.stack(sure, axis=1).astype(np.float64)
    return _answered(vectors[others], truth[others], *columns, np.array(SEVEN), None)


def _classifiers() -> list[Any]:
    """List seven, roughly by how good they are; how sure one is, is by how much its first score is above the second."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    return [
        GaussianNB(var_smoothing=1e-3),
        LinearDiscriminantAnalysis(),
        DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
        QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.05),
        ExtraTreesClassifier(15, random_state=0),
        KNeighborsClassifier(4, weights="distance"),
        make_pipeline(StandardScaler(), SVC(C=10, random_state=0)),
    ]
