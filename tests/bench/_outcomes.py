"""What several classifiers made of the same items, with an embedding of each item: what routers learn from."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from models import Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s, Singles
from tests.bench._keel import load_table
from tests.bench.policy import SHARED, embed_answers, load

PRICES = (0.24, 24.7)
"""US dollars for a million tokens of the two models of RouteLLM's sets, as their paper has them."""
SEVENS = ("letter", "optdigits")
"""KEEL tables whose items seven classifiers answer; the items are the embeddings."""
SEVEN = (0.15, 0.22, 0.29, 0.52, 0.53, 0.98, 1.0)
"""Costs of the seven classifiers by rising accuracy: the normalized costs of OCCAM's Table 1."""
TRAINED = 5_000
"""Items that these learn from at most, or a third; none of them is routed."""


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
    """Return whether the file of a set exists."""
    return name in SEVENS or (SHARED / f"{name}.npz").exists()


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


@cache
def _seven(name: str) -> Outcomes:
    """Train seven classifiers on some items, and return their answers to the others."""
    held = load_table(name)
    lowest, highest = held.values.min(axis=0), held.values.max(axis=0)
    vectors = ((held.values - lowest) / np.maximum(highest - lowest, 1)).astype(np.float32)
    truth = held.labels.astype(np.int64)
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
    answers, confidences = np.stack(said, axis=1), np.stack(sure, axis=1).astype(np.float64)
    order = (answers == truth[others, None]).mean(axis=0).argsort()
    columns = answers[:, order], confidences[:, order]
    return _answered(vectors[others], truth[others], *columns, np.array(SEVEN), None)


def _classifiers() -> list[Any]:
    """Return seven classifiers; the confidence of one is the margin between its two highest scores."""
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
