"""Scikit-learn classifiers by import path: creation, training, and cross-validation.

Accuracy is the mean over fixed folds, the same for every feature set, so that sets are compared on the same items. The
empty feature set predicts the most common class, at cost 0.
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
from models.losses import Losses
from solvers.item_splits import GroupedRows, stratify_labels_by_item

Folds = Sequence[tuple[Int64s, Int64s]]

ALLOWED_MODULES = ("sklearn.",)
"""Allowed modules of learners, as prefixes of dotted names; a setting may add more."""
_DESCRIBED = {"learner", "learner_params"}


def make_classifier(
    path: str,
    params: Mapping[str, Any],
    allowed_modules: Sequence[str] = ALLOWED_MODULES,
    *,
    standardize: bool = False,
    seed: int = 0,
) -> Any:
    """Return an untrained classifier.

    Raises InvalidRequest if the class is not allowed or its parameters are invalid.

    To pass a classifier as a parameter, use ``{"learner": path, "learner_params": {...}}``, also inside lists.

    Args:
        path: import path of a class that is defined in an allowed module.
        standardize: whether to put a StandardScaler before the classifier.
        seed: random_state of the classifier, unless ``params`` has one.

    >>> make_classifier("sklearn.tree.DecisionTreeClassifier", {"max_depth": 2}).get_params()["max_depth"]
    2
    """
    from sklearn.base import ClassifierMixin, is_classifier

    kind = _import_class(path, allowed_modules)
    params = {name: _make_nested(value, allowed_modules, seed) for name, value in params.items()}
    if not issubclass(kind, ClassifierMixin):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} must be a classifier"))
    try:
        classifier = kind(**params)
        is_classifier(classifier)  # checks nested estimators
    except Exception as error:  # a black box may raise anything
        raise InvalidRequest.from_faults(Fault(("learner_params",), f"not valid for {path}: {error}")) from error
    if not (hasattr(kind, "fit") and hasattr(kind, "predict")):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} must have fit and predict"))
    if not is_classifier(classifier):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} must be a classifier"))
    if "random_state" in classifier.get_params(deep=False) and "random_state" not in params:
        classifier.set_params(random_state=seed)
    if not standardize:
        return classifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


def _make_nested(value: Any, allowed_modules: Sequence[str], seed: int) -> Any:
    """Replace descriptions of classifiers in parameters by classifiers."""
    if isinstance(value, list):
        return [_make_nested(each, allowed_modules, seed) for each in value]
    if isinstance(value, dict) and isinstance(value.get("learner"), str) and value.keys() <= _DESCRIBED:
        params = value.get("learner_params", {})
        if isinstance(params, dict):
            return make_classifier(value["learner"], params, allowed_modules, seed=seed)
    return value


def _import_class(path: str, allowed_modules: Sequence[str]) -> type:
    """Import a class if both its path and its definition are in allowed modules."""
    module, _, name = path.rpartition(".")
    listed = ", ".join(allowed_modules)
    if not is_allowed(module, allowed_modules):
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} not allowed; allowed modules: {listed}"))
    try:
        learner = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, RecursionError) as error:
        raise InvalidRequest.from_faults(Fault(("learner",), f"{path} cannot be imported: {error}")) from error
    if not inspect.isclass(learner) or not is_allowed(learner.__module__, allowed_modules):
        raise InvalidRequest.from_faults(
            Fault(("learner",), f"{path} must be a class of the allowed modules: {listed}")
        )
    return learner


def is_allowed(module: str, allowed_modules: Sequence[str]) -> bool:
    """Return whether a module is allowed, or inside of an allowed one.

    >>> is_allowed("sklearn.tree", ["sklearn."]), is_allowed("mine", ["mine"]), is_allowed("mines", ["mine"])
    (True, True, False)
    """
    return any(
        f"{module}.".startswith(allowed if allowed.endswith(".") else f"{allowed}.") for allowed in allowed_modules
    )


def make_folds(dataset: FeatureTable, folds: int, seed: int) -> Folds:
    """Return stratified folds, as pairs of training and test rows; rows of one item are in one fold.

    Raises InvalidRequest if a class has fewer items than folds.
    """
    grouped = GroupedRows.from_codes(dataset.item_codes)
    labels = stratify_labels_by_item(grouped, dataset.labels)
    counts = np.bincount(labels, minlength=len(dataset.classes))
    least = int(np.argmin(counts))
    if counts[least] < folds:
        counted = f"{counts[least]} {grouped.counted}"
        fault = f"class {dataset.classes[least]!r} must have at least {folds} rows for {folds} folds, got {counted}"
        raise InvalidRequest.from_faults(Fault(("folds",), fault))
    from sklearn.model_selection import StratifiedKFold

    split = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed)
    tested = [np.isin(grouped.place, test) for _, test in split.split(np.zeros(len(labels)), labels)]
    return tuple((np.flatnonzero(~part), np.flatnonzero(part)) for part in tested)


def compute_accuracy(right: Bools | Floats, folds: Folds) -> float:
    """Return the mean accuracy over folds, given whether each row is correct, (n,).

    >>> compute_accuracy(np.array([False, True, True]), [(np.array([2]), np.array([0, 1]))])
    0.5
    """
    return float(np.mean([float(np.mean(right[test])) for _, test in folds]))


def cross_validate(
    classifier: Any, table: Floats, labels: Int32s, folds: Folds, losses: Losses | None = None
) -> Bools | Floats:
    """Return the quality of each row's answer, (n,): 1 if correct, else 0.

    Each row is classified by a model that was trained without its fold. With losses, the loss matrix defines the
    quality.
    """
    from sklearn.base import clone

    right = np.zeros(len(labels), dtype=bool if losses is None else np.float64)
    for train, test in folds:
        with convert_errors():
            trained = train_classifier(clone(classifier), table[train], labels[train])
            right[test] = (
                trained.predict(table[test]) == labels[test]
                if losses is None
                else losses.grade_answers(trained.predict_proba(table[test]), labels[test])
            )
    return right


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert every exception that a classifier raises to InvalidRequest."""
    try:
        yield
    except ParsimonyError:
        raise
    except Exception as error:
        raise InvalidRequest.from_faults(Fault(("learner_params",), f"rejected by the learner: {error}")) from error


def train_classifier(classifier: Any, table: Floats, labels: Int32s) -> Any:
    """Train a classifier; raises InvalidRequest for its errors.

    Convergence warnings are ignored.

    Trained nearest-neighbor classifiers are set to brute-force search. A search tree is compiled state, which cannot be
    checked when a model is loaded. Results are equal up to ties.
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
    """Copy a classifier through pickle, so that results are bitwise equal to those of another process."""
    from sklearn.base import clone

    return pickle.loads(pickle.dumps(clone(classifier)))


def iterate_parts(model: Any) -> Iterator[Any]:
    """Yield all objects that a model contains."""
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
