"""The learner, a black box: a scikit-learn classifier by its import path, and the accuracy that it reaches.

Accuracy is the mean over fixed folds, the same for every feature set, so that sets are compared on the same items. The
empty feature set is the most common class at cost 0.
"""

import inspect
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest, ParsimonyError
from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.item_splits import ItemRows, rarest_labels

Folds = Sequence[tuple[Int64s, Int64s]]

ALLOWED_MODULES = ("sklearn.",)
"""Modules that learners may come from, unless a setting adds more: prefixes of dotted names."""
_DESCRIBED = {"learner", "learner_params"}


def make_classifier(
    path: str,
    params: Mapping[str, Any],
    allowed_modules: Sequence[str] = ALLOWED_MODULES,
    *,
    standardize: bool = False,
    seed: int = 0,
) -> Any:
    """Make an untrained classifier; with ``standardize`` behind a StandardScaler. Raises InvalidRequest otherwise.

    Imports from allowed modules only, and takes only classes that are defined in one. A classifier that draws random
    numbers is given ``seed``, unless the parameters say otherwise. A parameter that is a classifier itself is written
    as ``{"learner": path, "learner_params": {...}}``, also inside lists.

    >>> make_classifier("sklearn.tree.DecisionTreeClassifier", {"max_depth": 2}).get_params()["max_depth"]
    2
    """
    from sklearn.base import ClassifierMixin, is_classifier

    kind = _class(path, allowed_modules)
    params = {name: _with_learners(value, allowed_modules, seed) for name, value in params.items()}
    if not issubclass(kind, ClassifierMixin):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} is no classifier"))
    try:
        classifier = kind(**params)
        is_classifier(classifier)  # looks into the estimators that some are given
    except Exception as error:  # a black box may raise anything
        raise InvalidRequest.from_faults(Fault(("learner_params",), f"{path} does not take them: {error}")) from error
    if not (hasattr(kind, "fit") and hasattr(kind, "predict")):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} has no fit and predict"))
    if not is_classifier(classifier):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} is no classifier"))
    if "random_state" in classifier.get_params(deep=False) and "random_state" not in params:
        classifier.set_params(random_state=seed)
    if not standardize:
        return classifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


def _with_learners(value: Any, allowed_modules: Sequence[str], seed: int) -> Any:
    """Put classifiers in the place of what describes them."""
    if isinstance(value, list):
        return [_with_learners(each, allowed_modules, seed) for each in value]
    if isinstance(value, dict) and isinstance(value.get("learner"), str) and value.keys() <= _DESCRIBED:
        params = value.get("learner_params", {})
        if isinstance(params, dict):
            return make_classifier(value["learner"], params, allowed_modules, seed=seed)
    return value


def _class(path: str, allowed_modules: Sequence[str]) -> type:
    """Import a class, if path and class belong to allowed modules."""
    module, _, name = path.rpartition(".")
    listed = ", ".join(allowed_modules)
    if not is_allowed(module, allowed_modules):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} is not in the allowed modules: {listed}"))
    try:
        learner = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, RecursionError) as error:  # what odd names lead to
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} cannot be imported: {error}")) from error
    if not inspect.isclass(learner) or not is_allowed(learner.__module__, allowed_modules):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} is no class of the allowed modules: {listed}"))
    return learner


def is_allowed(module: str, allowed_modules: Sequence[str]) -> bool:
    """Tell whether a module is one of those allowed, or inside one.

    >>> is_allowed("sklearn.tree", ["sklearn."]), is_allowed("mine", ["mine"]), is_allowed("mines", ["mine"])
    (True, True, False)
    """
    return any(
        f"{module}.".startswith(allowed if allowed.endswith(".") else f"{allowed}.") for allowed in allowed_modules
    )


def make_folds(dataset: FeatureTable, folds: int, seed: int) -> Folds:
    """Cut the rows into folds that keep the shares of the classes: pairs of rows to train on and to test on.

    Rows of one item are in one fold. Raises InvalidRequest if a class has fewer items than there are folds.
    """
    grouped = ItemRows.from_codes(dataset.item_codes)
    labels = rarest_labels(grouped, dataset.labels)
    counts = np.bincount(labels, minlength=len(dataset.classes))
    least = int(np.argmin(counts))
    if counts[least] < folds:
        counted = f"{counts[least]} {grouped.counted}"
        fault = f"class {dataset.classes[least]!r} has {counted}, {folds} folds need {folds} of each"
        raise InvalidRequest.from_faults(Fault(("folds",), fault))
    from sklearn.model_selection import StratifiedKFold

    split = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed)
    tested = [np.isin(grouped.place, test) for _, test in split.split(np.zeros(len(labels)), labels)]
    return tuple((np.flatnonzero(~part), np.flatnonzero(part)) for part in tested)


def compute_accuracy(right: Bools, folds: Folds) -> float:
    """Take the mean of the accuracies on folds, given what is right, (n,).

    >>> compute_accuracy(np.array([False, True, True]), [(np.array([2]), np.array([0, 1]))])
    0.5
    """
    return float(np.mean([float(np.mean(right[test])) for _, test in folds]))


def cross_validate(classifier: Any, table: Floats, labels: Int32s, folds: Folds) -> Bools:
    """Tell of each row whether the classifier that was trained without its fold is right about it, (n,)."""
    from sklearn.base import clone

    right = np.zeros(len(labels), dtype=bool)
    for train, test in folds:
        with convert_errors():
            trained = train_classifier(clone(classifier), table[train], labels[train])
            right[test] = trained.predict(table[test]) == labels[test]
    return right


@contextmanager
def convert_errors() -> Iterator[None]:
    """Turn what a black box raises, which may be anything, into a refusal of its parameters."""
    try:
        yield
    except ParsimonyError:
        raise
    except Exception as error:
        raise InvalidRequest.from_faults(Fault(("learner_params",), f"the learner refuses: {error}")) from error


def train_classifier(classifier: Any, table: Floats, labels: Int32s) -> Any:
    """Train a classifier; what it refuses is an InvalidRequest, that it has not converged is no reason to stop.

    Neighbours are found by brute force afterwards, whatever was to find them: the same ones, up to ties. A search tree
    is compiled state, which could not be checked when it is loaded again.
    """
    from sklearn.exceptions import ConvergenceWarning

    with convert_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained = classifier.fit(table, labels)
    for part in iterate_parts(trained):
        if getattr(part, "_fit_method", None) in ("kd_tree", "ball_tree"):
            part._fit_method, part._tree = "brute", None
    return trained


def copy_classifier(classifier: Any) -> Any:
    """Copy as the way into another process does, so that here and there the same comes of it, to the last byte."""
    from sklearn.base import clone

    return pickle.loads(pickle.dumps(clone(classifier)))


def iterate_parts(model: Any) -> Iterator[Any]:
    """Go through everything that a model is made of."""
    pending, seen = [model], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, list | tuple):
            pending.extend(each)
        elif isinstance(each, dict):
            pending.extend(each.values())
        elif isinstance(each, np.ndarray):
            pending.extend(each.ravel().tolist() if each.dtype == object else ())
        elif not isinstance(each, type | ModuleType) and hasattr(each, "__dict__"):
            pending.extend(vars(each).values())
