"""Safe serialization of trained models: linear models as numbers (``linear``), others as skops archives.

Archives are reproducible: the memory addresses and dates that skops writes are replaced.

Security: loading and predicting from untrusted bytes creates only types of ``trusted_types``, and classes of modules
that the caller names, with any state. It runs no code of the archive, opens no files, and starts no processes. Every
failure is a CorruptArtifact. Not covered: compiled code of scikit-learn with malicious state. Trees and support vectors
are checked. Still, a crafted state can crash the process, or exhaust its time and memory. So a server must call
``predict_archived`` in a sandbox process.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Fault, InvalidRequest
from models.arrays import Floats
from models.errors import CorruptArtifact
from solvers.learners.estimators import iterate_parts
from solvers.learners.linear import get_model_kind, pack_linear
from solvers.learners.trusted_types import find_untrusted, list_types
from solvers.stored_zip import write_stored_zip

_UNCHECKED = ("sklearn.ensemble._forest", "sklearn.ensemble._gb")
"""Ensembles that check a table once for all their trees."""


def to_bytes(classifier: Any, modules: Sequence[str] = ()) -> bytes:
    """Serialize a trained classifier.

    Raises InvalidRequest for types that are neither trusted nor defined in ``modules``.
    """
    if get_model_kind(classifier) == "skops":
        return _write_archive(classifier, modules)
    return pack_linear(classifier).astype("<f8").tobytes()


def predict_archived(
    data: bytes, table: Floats, classes: int, modules: Sequence[str] = ()
) -> tuple[NDArray[np.intp], Floats | None]:
    """Load a model and predict in this thread.

    Returns class codes (n,), and probabilities (n, classes) or None.

    Raises CorruptArtifact for any failure, except a crash of the process (see the module's docstring).
    """
    import joblib

    model = load_archive(data, table.shape[1], modules)
    with _convert_errors("the model cannot predict"), joblib.parallel_config(backend="sequential"):
        codes = np.asarray(model.predict(table)).astype(np.intp)
        probabilities = _probabilities(model, table)
        if codes.size and (codes.min() < 0 or codes.max() >= classes):
            raise CorruptArtifact(f"predicted class must be below {classes}, got {codes.max()}")
        if codes.shape != (len(table),) or (probabilities is not None and probabilities.shape != (len(table), classes)):
            shapes = f"{codes.shape} and {None if probabilities is None else probabilities.shape}"
            raise CorruptArtifact(f"predictions have shapes {shapes} for {len(table)} items of {classes} classes")
    return codes, probabilities


def _probabilities(model: Any, table: Floats) -> Floats | None:
    """Return probabilities or None: with some parameters, ``predict_proba`` exists but raises."""
    try:
        return np.asarray(model.predict_proba(table), dtype=np.float64) if hasattr(model, "predict_proba") else None
    except ValueError:
        return None


def load_archive(data: bytes, columns: int, modules: Sequence[str] = ()) -> Any:
    """Load a model of trusted types; raises CorruptArtifact for any other bytes.

    Args:
        columns: expected number of columns.
        modules: modules whose classes are trusted too, with any state.
    """
    skops = import_module("skops.io")
    with _convert_errors("the model cannot be read"):
        schema = _schema(data)
        untrusted = find_untrusted(schema, modules)
        if untrusted:
            raise CorruptArtifact(f"the model has untrusted types: {', '.join(untrusted)}")
        model = skops.loads(data, trusted=list_types(schema))
        steps = _steps(model)
        if any(step.n_features_in_ != columns for step in steps):
            raise CorruptArtifact(f"the model must have {columns} columns")
        _check_parts(model)
    return model


@contextmanager
def _convert_errors(what: str) -> Iterator[None]:
    """Convert any exception to CorruptArtifact."""
    try:
        yield
    except CorruptArtifact:
        raise
    except Exception as error:
        raise CorruptArtifact(f"{what}: {error}") from error


def _schema(data: bytes) -> Any:
    """Read the schema of an archive; compressed entries are rejected."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise CorruptArtifact(f"the model has compressed entries: {', '.join(packed)}")
        return json.loads(archive.read("schema.json"))


def _steps(model: Any) -> list[Any]:
    """Return the steps of a model: a classifier, alone or after a StandardScaler; raises TypeError otherwise."""
    from sklearn.base import ClassifierMixin
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = [step for _, step in model.steps] if type(model) is Pipeline else [model]
    kinds = [type(step) for step in steps]
    if kinds[:-1] not in ([], [StandardScaler]) or not issubclass(kinds[-1], ClassifierMixin):
        sequence = ", then ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"must be a classifier, alone or after a StandardScaler, got {sequence}")
    return steps


def _write_archive(classifier: Any, modules: Sequence[str]) -> bytes:
    """Return a reproducible skops archive."""
    try:
        _steps(classifier)
        data = import_module("skops.io").dumps(classifier)
        untrusted = find_untrusted(_schema(data), modules)
    except Exception as error:  # skops calls every part for its state
        raise InvalidRequest.from_faults(Fault(("learner",), f"its models cannot be serialized: {error}")) from error
    if untrusted:
        fault = f"its models have untrusted types: {', '.join(untrusted)}"
        raise InvalidRequest.from_faults(Fault(("learner",), fault))
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        names: dict[str, str] = {}
        numbers: dict[Any, int] = {}
        schema = _renumber(json.loads(old.read("schema.json")), names, numbers)
        entries = {"schema.json": json.dumps(schema, sort_keys=True).encode()}
        entries |= {kept: old.read(name) for name, kept in names.items()}
    return write_stored_zip(entries)


def _renumber(node: Any, names: dict[str, str], numbers: dict[Any, int]) -> Any:
    """Copy a schema with memory addresses, and names made from them, numbered in order.

    Equal plain values become one entry.
    """
    if isinstance(node, list):
        return [_renumber(each, names, numbers) for each in node]
    if not isinstance(node, dict):
        return node
    copy: dict[str, Any] = {}
    for key, value in node.items():
        if key == "__id__":
            plain = node.get("__loader__") == "JsonNode"
            copy[key] = numbers.setdefault((node["content"],) if plain else value, len(numbers) + 1)
        elif key == "file" and isinstance(value, str):
            copy[key] = names.setdefault(value, f"{len(names)}.{value.rpartition('.')[2]}")
        else:
            copy[key] = _renumber(value, names, numbers)
    return copy


def _check_parts(model: Any) -> None:
    """Reject trees and support vectors with indices out of range or with cycles.

    Indices must fit the columns of their estimator.
    """
    owned, trees = set(), set()
    for part in iterate_parts(model):
        kind = type(part)
        if not kind.__module__.startswith("sklearn."):
            continue
        if kind.__name__ in ("Tree", "TreePredictor"):
            trees.add(id(part))
        elif hasattr(part, "tree_"):
            _check_tree(part.tree_, part.n_features_in_)
            owned.add(id(part.tree_))
        elif hasattr(part, "_predictors"):
            for tree in chain.from_iterable(part._predictors):
                _check_predictor(tree, part.n_features_in_)
                owned.add(id(tree))
        elif hasattr(part, "_n_support"):
            _check_support(part, part.n_features_in_)
        elif kind.__module__ in _UNCHECKED and hasattr(part, "estimators_"):  # not an untrained one
            _check_members(part)
    if not trees <= owned:
        raise CorruptArtifact(f"{len(trees - owned)} of {len(trees)} trees have no estimator")


def _check_members(ensemble: Any) -> None:
    """Check the trees of an ensemble that passes its table to them unchecked."""
    members = np.asarray(ensemble.estimators_, dtype=object)
    boosted = 1 if ensemble.n_classes_ == 2 else ensemble.n_classes_
    is_valid = (
        members.size > 0
        and members.shape[1:] in ((), (boosted,))
        and all(tree.n_features_in_ == ensemble.n_features_in_ for tree in members.flat)
    )
    if not is_valid:
        raise CorruptArtifact(f"an ensemble of {' x '.join(map(str, members.shape))} trees is inconsistent")


def _check_predictor(tree: Any, columns: int) -> None:
    """Check a tree of histogram boosting; categorical splits are rejected."""
    nodes, count = tree.nodes, len(tree.nodes)
    inner = nodes[nodes["is_leaf"] == 0]
    own = np.flatnonzero(nodes["is_leaf"] == 0)
    is_valid = (
        count > 0
        and bool(np.all((inner["left"] > own) & (inner["left"] < count)))
        and bool(np.all((inner["right"] > own) & (inner["right"] < count)))
        and bool(np.all((inner["feature_idx"] >= 0) & (inner["feature_idx"] < columns)))
        and not np.any(nodes["is_categorical"])
    )
    if not is_valid:
        raise CorruptArtifact(f"a tree of {count} nodes has indices out of range")


def _check_tree(tree: Any, columns: int) -> None:
    nodes = np.arange(tree.node_count)
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    leaf = left == -1
    inner = ~leaf
    is_valid = (
        np.all((left[inner] > nodes[inner]) & (left[inner] < tree.node_count))
        and np.all((right[inner] > nodes[inner]) & (right[inner] < tree.node_count))
        and np.all((feature[inner] >= 0) & (feature[inner] < tree.n_features))
        and tree.node_count > 0
        and tree.n_features == columns
    )
    if not is_valid:
        raise CorruptArtifact(f"a tree of {tree.node_count} nodes has indices out of range")


def _check_support(machine: Any, columns: int) -> None:
    """Check the arrays of a support vector machine, which libsvm trusts."""
    counts, vectors = np.asarray(machine._n_support), np.asarray(machine.support_vectors_)
    classes, pairs = len(machine.classes_), len(machine.classes_) * (len(machine.classes_) - 1) // 2
    is_valid = (
        counts.shape == (classes,)
        and bool(np.all(counts >= 0))
        and vectors.shape == (int(counts.sum()), columns)
        and np.asarray(machine.support_).shape == vectors.shape[:1]
        and np.asarray(machine._dual_coef_).shape == (classes - 1, len(vectors))
        and np.asarray(machine._intercept_).shape == (pairs,)
        and np.asarray(machine._probA).shape in ((0,), (pairs,))
        and np.asarray(machine._probB).shape == np.asarray(machine._probA).shape
        and machine.kernel != "precomputed"  # whose support_ points into the table
    )
    if not is_valid:
        raise CorruptArtifact(f"a support vector machine of {len(vectors)} vectors is inconsistent")
