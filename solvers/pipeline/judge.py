"""By what configurations are judged: the true classes of some rows, what features cost, and when an answer counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.cost import cost_function
from models.pipeline import PipelineOptions
from solvers.pipeline.bank import Bank, Train
from solvers.pipeline.objectives import Evaluator
from solvers.pipeline.prices import Prices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """labels: (rows,) of the whole table; classes: how many; costs: (n,) of features; thresholds: (classes,) by
    predicted class; positive: the class whose false alarms are an objective, None if there is none."""

    labels: NDArray[np.int32]
    classes: int
    costs: Floats
    thresholds: Floats
    positive: int | None

    @classmethod
    def of(cls, dataset: FeatureTable, options: PipelineOptions) -> "Judge":
        """Read it from a table and the options of a build."""
        given = options.confidence_threshold
        by_class = [given[name] if isinstance(given, dict) else given for name in dataset.classes]
        positive = None if options.positive_class is None else dataset.classes.index(options.positive_class)
        costs = costs_of(dataset.spec)
        return cls(dataset.labels, len(dataset.classes), costs, np.array(by_class, dtype=np.float64), positive)

    def evaluator(self, rows: Ints, train: Train) -> Evaluator:
        """Judge by some rows, for which ``train`` gives the answers of feature sets' classifiers."""
        bank = Bank(train, self.labels[rows], classes=self.classes, positive=self.positive)
        return Evaluator(bank, Prices.whole(self.costs, len(rows)), self.thresholds)


def costs_of(spec: FeaturesSpec) -> Floats:
    """Read what features cost, (n,); raises InvalidRequest for a cost that depends on the item's size."""
    found = []
    for place, feature in enumerate(spec.features):
        function = cost_function(feature.cost)[0]
        if function.dimensions:
            fault = f"of {feature.name!r} depends on the item's size: a pipeline needs a number"
            raise InvalidRequest.at(Fault(("dataset", "features", place, "cost"), fault))
        found.append(float(function(np.array(()))))
    return np.array(found, dtype=np.float64)
