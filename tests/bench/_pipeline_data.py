"""The data sets of EMSCO's Section 4.2 with its cost classes, thresholds and parameters, split and prepared.

Heart, Pima and Credit are read from ``shared/data`` beside the repository. Zeros of Pima that stand for missing values
are left as they are, as nothing in the paper says otherwise. Synthetic30 is made as its Section 4.2.3 says, as near as
the text allows; ours are the seed, no redundant columns, and the random forest that ranks the features.
"""

import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int32s, Int64s, UInt64s
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.answer_bank import AnswerBank
from solvers.pipeline.classifiers import Learner
from solvers.pipeline.emsco import Settings
from solvers.pipeline.objectives import Evaluator
from solvers.pipeline.unit_costs import UnitCosts

T = TypeVar("T")

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
HALVES, QUARTERS = (0.5, 0.5), (0.5, 0.25, 0.25)
"""Parts of the rows: to train on and to evaluate by (Section 4.3); to train, validate and test on (Section 4.4)."""
SCALINGS = ("min-max", "standardised")
"""Of spambase."""
SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A data set: values (rows, n), labels (rows,), which columns are categories (n,), what each costs (n,), and what
    the paper uses on it: the threshold and the parameters."""

    name: str
    values: Floats
    labels: Int32s
    categorical: NDArray[np.bool_]
    costs: Floats
    threshold: float
    settings: Settings

    @property
    def features(self) -> int:
        """Count the features."""
        return len(self.costs)


def read(name: str) -> tuple[Floats, Int32s]:
    """Read a file of numbers with a header and the label last."""
    path = SHARED / name
    if not path.exists():
        raise SystemExit(f"{name} is not in shared/data beside the repository; this part needs it")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1].astype(np.int32)


def heart() -> Case:
    """Table 3; costs are 10 to the power of the cost class, in the order of the file."""
    values, labels = read("heart_failure.csv")
    classes = np.array([1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1])
    return Case("heart", values, labels, np.zeros(12, dtype=bool), 10.0**classes, 0.75, Settings(recombination=0.75))


def pima() -> Case:
    """Table 4; costs are 100 times the cost class."""
    values, labels = read("pima_diabetes.csv")
    classes = np.array([1, 3, 2, 2, 3, 2, 2, 1])
    return Case("pima", values, labels, np.zeros(8, dtype=bool), 100.0 * classes, 0.65, Settings())


def credit() -> Case:
    """Table 6; costs are 10 to the power of the cost class."""
    values, labels = read("australian_credit.csv")
    classes = np.array([2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2])
    categorical = np.isin(np.arange(14), (0, 3, 4, 5, 7, 8, 10, 11))
    return Case("credit", values, labels, categorical, 10.0**classes, 0.75, Settings(beta=2.5))


def synthetic30() -> Case:
    """Section 4.2.3 and Table 5: 1,000 rows, 3 classes, 30 features, 25 of them informative; five cost classes by
    Gini importance, the most important dearest, each 100 more."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    values, labels = make_classification(1000, 30, n_informative=25, n_redundant=0, n_classes=3, random_state=SEED)
    importance = RandomForestClassifier(random_state=SEED).fit(values, labels).feature_importances_
    classes = (np.argsort(np.argsort(importance)) // 6 + 1).astype(np.float64)
    settings = Settings(mutation=0.05, beta=2.5)
    return Case(
        "synthetic30", values, labels.astype(np.int32), np.zeros(30, dtype=bool), 100.0 * classes, 0.65, settings
    )


CASES: dict[str, Callable[[], Case]] = {"heart": heart, "pima": pima, "credit": credit, "synthetic30": synthetic30}


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A case whose rows are cut into parts, the first of which is trained on: their places, prepared rows, labels."""

    case: Case
    learner: Learner
    places: Sequence[Int64s]
    tables: Sequence[Floats]
    labels: Sequence[Int32s]

    @classmethod
    def of(cls, case: Case, places: Sequence[Int64s]) -> "Prepared":
        """Fit the preparation to the first part, apply it to all."""
        preparation = Preparation.fitted(case.values[places[0]], case.categorical)
        ends = np.cumsum([0, *preparation.widths]).tolist()
        tables = [preparation.apply(case.values[part]) for part in places]
        return cls.ready(case, tables, places, tuple(tuple(range(ends[i], ends[i + 1])) for i in range(case.features)))

    @classmethod
    def ready(
        cls, case: Case, tables: Sequence[Floats], places: Sequence[Int64s], columns: tuple[tuple[int, ...], ...]
    ) -> "Prepared":
        """Take rows that are prepared already; columns: those of each feature."""
        labels = [case.labels[part] for part in places]
        classes = int(case.labels.max()) + 1
        return cls(case, Learner(tables[0], labels[0], classes, columns, None, 1.0, ()), places, tables, labels)

    @classmethod
    def cut(cls, case: Case, shares: Sequence[float], seed: int) -> "Prepared":
        """Cut the rows at random, keeping the shares of the classes."""
        from sklearn.model_selection import train_test_split

        rest, places = np.arange(len(case.labels)), []
        for i in range(len(shares) - 1):
            share = shares[i] / sum(shares[i:])
            own, rest = train_test_split(rest, train_size=share, stratify=case.labels[rest], random_state=seed)
            places.append(own)
        return cls.of(case, [*places, rest])

    def answer_bank(self, part: int) -> AnswerBank:
        """Let the classifiers answer for a part; confidences are rounded to single precision to save memory."""

        def answers(masks: UInt64s) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
            confidence, codes = self.learner.answers(self.tables[part], masks)
            return confidence.astype(np.float32), codes

        return AnswerBank(answers, self.labels[part], classes=self.learner.classes)

    def evaluator(self, part: int, threshold: float | None = None) -> Evaluator:
        """Evaluate on a part, at the case's threshold unless another is given."""
        prices = UnitCosts.whole(self.case.costs, len(self.labels[part]))
        return Evaluator(self.answer_bank(part), prices, self.case.threshold if threshold is None else threshold)


def spambase(scaling: str) -> Prepared:
    """Prepare the split; min-max: over all rows, test rows included, as the authors' files are; standardised: by the
    training rows."""
    values, labels = read("spambase.csv")
    with (SHARED / "spambase_emsco_split.csv").open(newline="") as file:
        part_names = np.array([row["split"] for row in csv.DictReader(file)])
    places = [np.flatnonzero(part_names == part) for part in ("train", "val", "test")]
    used = np.concatenate(places)
    n = values.shape[1]
    low, high = values[used].min(axis=0), values[used].max(axis=0)
    case = Case("spambase", values, labels, np.zeros(n, dtype=bool), np.ones(n), 0.75, Settings())
    if scaling != SCALINGS[0]:
        return Prepared.of(case, places)
    tables = [(values[part] - low) / (high - low) for part in places]
    return Prepared.ready(case, tables, places, tuple((i,) for i in range(n)))


def cpu(call: Callable[[], T]) -> tuple[float, T]:
    """Measure one call in seconds of this process's CPU time."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def patient(settings: Settings) -> Settings:
    """Turn the third halting rule off."""
    return replace(settings, patience=settings.generations + 1)
