"""Trained models as bytes and arrays: linear ones as numbers, the others through skops; nothing loaded can run code.

A linear model of d columns and k rows of coefficients is the numbers mean (d,), scale (d,), coefficients (k · d,) and
intercepts (k,), one after the other. Every other model is a skops archive, made the same for the same model: skops
names its entries by memory addresses and dates them, so both are replaced by counters.
"""

import inspect
import io
import json
import zipfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Fault, InvalidRequest
from models.errors import CorruptArtifact
from solvers.index.learner import is_allowed, parts_of

Floats = NDArray[np.float64]

TRUSTED = (
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.metrics._classification.balanced_accuracy_score",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)
"""What skops may build beside what it trusts of itself (scikit-learn's estimators, NumPy's arrays and numbers). Trees
are looked through after loading: their nodes are indices that scikit-learn follows unchecked."""
_LINKS = {
    "LogisticRegression": "softmax",
    "RidgeClassifier": "none",
    "LinearSVC": "none",
    "Perceptron": "none",
    "SGDClassifier": "none",
}
_OVR = {"liblinear": "ovr"}
"""Solvers that train one class against the rest."""
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)
"""What readers raise at bytes, and scikit-learn at models, that were made up."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def kind_of(classifier: Any) -> str:
    """Tell how a classifier is kept: "softmax" or "none" (linear, with such probabilities or without), or "skops".

    >>> from sklearn.linear_model import LogisticRegression
    >>> kind_of(LogisticRegression())
    'softmax'
    """
    last = classifier.steps[-1][1] if hasattr(classifier, "steps") else classifier
    kind = type(last)
    if not kind.__module__.startswith("sklearn.linear_model.") and not kind.__module__.startswith("sklearn.svm."):
        return "skops"
    if kind.__name__ == "SGDClassifier" and last.loss in ("log_loss", "modified_huber"):
        return "skops"  # probabilities that are no softmax
    if kind.__name__ == "LogisticRegression" and "ovr" in (getattr(last, "multi_class", None), _OVR.get(last.solver)):
        return "skops"
    return _LINKS.get(kind.__name__, "skops")


def to_bytes(classifier: Any, modules: Sequence[str] = ()) -> bytes:
    """Keep a trained classifier; raises InvalidRequest if it holds types neither trusted nor of ``modules``."""
    if kind_of(classifier) == "skops":
        return _archive(classifier, modules)
    last, scaler = classifier, None
    if hasattr(classifier, "steps"):
        scaler, last = classifier.steps[0][1], classifier.steps[-1][1]
    coefficients = np.atleast_2d(last.coef_)
    d = coefficients.shape[1]
    mean, scale = (np.zeros(d), np.ones(d)) if scaler is None else (scaler.mean_, scaler.scale_)
    intercepts = np.broadcast_to(last.intercept_, coefficients.shape[:1])
    return np.concatenate((mean, scale, coefficients.reshape(-1), intercepts)).astype("<f8").tobytes()


def linear_length(columns: int, classes: int) -> int:
    """Count the numbers of a linear model."""
    rows = 1 if classes == 2 else classes
    return 2 * columns + rows * columns + rows


def predict_linear(numbers: Floats, table: Floats, link: str) -> tuple[NDArray[np.intp], Floats | None]:
    """Predict as scikit-learn does: the class of the largest score, and with "softmax" the probabilities.

    numbers: as in the module's docstring; table: (n, d). Returns class codes (n,) and probabilities (n, classes).
    """
    d = table.shape[1]
    mean, scale, rest = numbers[:d], numbers[d : 2 * d], numbers[2 * d :]
    rows = len(rest) // (d + 1)
    coefficients, intercepts = rest[: rows * d].reshape(rows, d), rest[rows * d :]
    scores = (table - mean) / scale @ coefficients.T + intercepts
    if rows == 1:
        codes = (scores[:, 0] > 0).astype(np.intp)
        scores = np.concatenate((np.zeros_like(scores), scores), axis=1)
    else:
        codes = np.argmax(scores, axis=1)
    if link == "none":
        return codes, None
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return codes, np.asarray(raised / raised.sum(axis=1, keepdims=True))


def predict_archived(
    data: bytes, table: Floats, classes: int, modules: Sequence[str] = ()
) -> tuple[NDArray[np.intp], Floats | None]:
    """Load a model and predict: class codes (n,), and probabilities (n, classes) if it gives any."""
    model = from_archive(data, table.shape[1], modules)
    if getattr(model, "n_features_in_", None) != table.shape[1]:
        raise CorruptArtifact(f"the model is not one of {table.shape[1]} columns")
    try:
        codes = np.asarray(model.predict(table)).astype(np.intp)
        probabilities = np.asarray(model.predict_proba(table)) if hasattr(model, "predict_proba") else None
    except _UNREADABLE as error:
        raise CorruptArtifact(f"the model cannot predict: {error}") from error
    if codes.min() < 0 or codes.max() >= classes:
        raise CorruptArtifact(f"the model answers class {codes.max()}, there are {classes}")
    return codes, probabilities


def from_archive(data: bytes, columns: int, modules: Sequence[str] = ()) -> Any:
    """Load a model of so many columns whose types are all trusted; raises CorruptArtifact for any other bytes.

    modules: whose classes are trusted too, whatever state the bytes give them; for learners of one's own.
    """
    skops = import_module("skops.io")
    try:
        types = skops.get_untrusted_types(data=data)
        strangers = _strangers(types, modules)
        if strangers:
            raise CorruptArtifact(f"the model holds types that are not trusted: {', '.join(strangers)}")
        model = skops.loads(data, trusted=types)
    except _UNREADABLE as error:
        raise CorruptArtifact(f"the model cannot be read: {error}") from error
    _check_parts(model, columns)
    return model


def _strangers(types: Sequence[str], modules: Sequence[str]) -> list[str]:
    return sorted(path for path in set(types) - set(TRUSTED) if not _is_class_of(path, modules))


def _is_class_of(path: str, modules: Sequence[str]) -> bool:
    """Tell whether a path names a class that one of the modules defines, and not what it merely imports."""
    module, _, name = path.rpartition(".")
    if not is_allowed(module, modules):
        return False
    found = getattr(import_module(module), name, None)
    return inspect.isclass(found) and is_allowed(found.__module__, modules)


def _archive(classifier: Any, modules: Sequence[str]) -> bytes:
    """Write a skops archive that depends on nothing but the model."""
    skops = import_module("skops.io")
    data = skops.dumps(classifier)
    strangers = _strangers(skops.get_untrusted_types(data=data), modules)
    if strangers:
        fault = f"its models hold types that are not trusted to be loaded again: {', '.join(strangers)}"
        raise InvalidRequest.at(Fault(("learner",), fault))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        names: dict[str, str] = {}
        numbers: dict[int, int] = {}
        schema = _renamed(json.loads(old.read("schema.json")), names, numbers)
        entries = {"schema.json": json.dumps(schema, sort_keys=True).encode()}
        entries |= {kept: old.read(name) for name, kept in names.items()}
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3
            new.writestr(info, content)
    return out.getvalue()


def _renamed(node: Any, names: dict[str, str], numbers: dict[int, int]) -> Any:
    """Copy a schema with memory addresses and the names made from them replaced, in the order that they are met."""
    if isinstance(node, list):
        return [_renamed(each, names, numbers) for each in node]
    if not isinstance(node, dict):
        return node
    copy: dict[str, Any] = {}
    for key, value in node.items():
        if key == "__id__":
            copy[key] = numbers.setdefault(value, len(numbers) + 1)
        elif key == "file" and isinstance(value, str):
            copy[key] = names.setdefault(value, f"{len(names)}.{value.rpartition('.')[2]}")
        else:
            copy[key] = _renamed(value, names, numbers)
    return copy


def _check_parts(model: Any, columns: int) -> None:
    """Refuse trees and support vectors whose numbers point outside, or back: scikit-learn would follow them."""
    for part in parts_of(model):
        kind = type(part)
        if kind.__module__.startswith("sklearn."):
            if kind.__name__ == "Tree":
                _check_tree(part, columns)
            elif kind.__name__ == "TreePredictor":
                _check_predictor(part, columns)
            elif hasattr(part, "_n_support"):
                _check_support(part, columns)


def _check_predictor(tree: Any, columns: int) -> None:
    """Look through a tree of histogram boosting; splits by category are not kept (their sets are followed too)."""
    nodes, count = tree.nodes, len(tree.nodes)
    inner = nodes[nodes["is_leaf"] == 0]
    own = np.flatnonzero(nodes["is_leaf"] == 0)
    fine = (
        count > 0
        and bool(np.all((inner["left"] > own) & (inner["left"] < count)))
        and bool(np.all((inner["right"] > own) & (inner["right"] < count)))
        and bool(np.all((inner["feature_idx"] >= 0) & (inner["feature_idx"] < columns)))
        and not np.any(nodes["is_categorical"])
    )
    if not fine:
        raise CorruptArtifact(f"a tree of {count} nodes points outside itself")


def _check_tree(tree: Any, columns: int) -> None:
    nodes = np.arange(tree.node_count)
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    leaf = left == -1
    inner = ~leaf
    fine = (
        np.all((left[inner] > nodes[inner]) & (left[inner] < tree.node_count))
        and np.all((right[inner] > nodes[inner]) & (right[inner] < tree.node_count))
        and np.all((feature[inner] >= 0) & (feature[inner] < tree.n_features))
        and tree.node_count > 0
        and tree.n_features == columns
    )
    if not fine:
        raise CorruptArtifact(f"a tree of {tree.node_count} nodes points outside itself")


def _check_support(machine: Any, columns: int) -> None:
    """Hold the arrays of a support vector machine, which libsvm trusts, against each other."""
    counts, vectors = np.asarray(machine._n_support), np.asarray(machine.support_vectors_)
    classes, pairs = len(machine.classes_), len(machine.classes_) * (len(machine.classes_) - 1) // 2
    fine = (
        counts.shape == (classes,)
        and bool(np.all(counts >= 0))
        and vectors.shape == (int(counts.sum()), columns)
        and np.asarray(machine.support_).shape == vectors.shape[:1]
        and np.asarray(machine._dual_coef_).shape == (classes - 1, len(vectors))
        and np.asarray(machine._intercept_).shape == (pairs,)
        and np.asarray(machine._probA).shape in ((0,), (pairs,))
        and np.asarray(machine._probB).shape == np.asarray(machine._probA).shape
    )
    if not fine:
        raise CorruptArtifact(f"a support vector machine of {len(vectors)} vectors contradicts itself")
