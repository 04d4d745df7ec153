"""Learners by import path, and trained models as bytes that can run no code."""

import json
import warnings
import zipfile
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import Tree
from sklearn.utils import all_estimators
from threadpoolctl import threadpool_limits

from models import FeatureTable, InvalidRequest
from models.errors import CorruptArtifact
from models.index import IndexOptions
from solvers.base import BuildContext
from solvers.index import fit
from solvers.learners.archives import load_archive, predict_archived, to_bytes
from solvers.learners.estimators import make_classifier, train_classifier
from solvers.learners.linear import count_linear_numbers, get_model_kind, predict_linear
from solvers.learners.trusted_types import TRUSTED
from tests.oracles.index import small_table
from tests.support.cases import first_quick

dumps = import_module("skops.io").dumps
LINEAR = [
    ("sklearn.linear_model.LogisticRegression", {}, "softmax"),
    ("sklearn.linear_model.LogisticRegression", {"solver": "newton-cg"}, "softmax"),
    ("sklearn.linear_model.RidgeClassifier", {}, "none"),
    ("sklearn.svm.LinearSVC", {}, "none"),
    ("sklearn.linear_model.SGDClassifier", {}, "none"),
    ("sklearn.linear_model.Perceptron", {}, "none"),
]
OTHERS = [
    ("sklearn.tree.DecisionTreeClassifier", {}),
    ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 3}),
    ("sklearn.naive_bayes.GaussianNB", {}),
    ("sklearn.svm.SVC", {}),
    ("sklearn.linear_model.SGDClassifier", {"loss": "log_loss"}),
    ("sklearn.neural_network.MLPClassifier", {"max_iter": 20, "hidden_layer_sizes": [4]}),
]


def data(classes: int) -> tuple[np.ndarray, np.ndarray]:
    values, labels = load_iris(return_X_y=True)
    return (values, labels) if classes == 3 else (values[labels > 0], labels[labels > 0] - 1)


def trained(path: str, params: dict[str, Any], classes: int, standardize: bool = True) -> tuple[Any, np.ndarray]:
    values, labels = data(classes)
    with threadpool_limits(1):  # tables are so small that threads only wait for each other
        return train_classifier(make_classifier(path, params, standardize=standardize), values, labels), values


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("path", "params", "kind"), LINEAR)
def test_linear_models_are_numbers_and_predict_as_scikit_learn(
    path: str, params: dict[str, Any], kind: str, classes: int, standardize: bool
) -> None:
    model, values = trained(path, params, classes, standardize)
    assert get_model_kind(model) == kind
    numbers = np.frombuffer(to_bytes(model))
    assert len(numbers) == count_linear_numbers(4, classes)
    codes, shares = predict_linear(numbers, values, kind)
    assert codes.tolist() == model.predict(values).tolist()
    assert (shares is None) == (kind == "none")
    if shares is not None:
        assert np.abs(shares - model.predict_proba(values)).max() < 1e-12


@pytest.mark.parametrize(("path", "params"), OTHERS)
def test_other_models_go_through_skops_with_the_same_bytes_each_time(path: str, params: dict[str, Any]) -> None:
    model, values = trained(path, params, 3)
    assert get_model_kind(model) == "skops"
    kept = to_bytes(model)
    assert to_bytes(trained(path, params, 3)[0]) == kept
    codes, shares = predict_archived(kept, values, 3)
    assert codes.tolist() == model.predict(values).tolist()
    if shares is not None:
        assert np.array_equal(shares, model.predict_proba(values))


NESTED = {"learner": "sklearn.linear_model.LogisticRegression", "learner_params": {"C": 0.5}}
ONE = ("FixedThreshold", "OneVsOne", "OneVsRest", "OutputCode", "SelfTraining")
NEEDS: dict[str, dict[str, Any]] = {f"{name}Classifier": {"estimator": NESTED} for name in ONE}
NEEDS["HistGradientBoostingClassifier"] = {"max_iter": 5}
NEEDS["LogisticRegressionCV"] = {"Cs": 2, "cv": 2}
NEEDS["TunedThresholdClassifierCV"] = {"estimator": NESTED, "cv": 2, "thresholds": 5}
NEEDS |= {
    f"{name}Classifier": {"n_estimators": 5} for name in ("AdaBoost", "ExtraTrees", "GradientBoosting", "RandomForest")
}
NEEDS["StackingClassifier"] = NEEDS["VotingClassifier"] = {"estimators": [["one", NESTED], ["two", NESTED]]}
SEVERAL_ANSWERS = {"ClassifierChain", "MultiOutputClassifier"}
"""Those that answer several questions at once, and no single one."""
EVERY = sorted(
    f"{kind.__module__}.{name}"
    for name, kind in all_estimators(type_filter="classifier")
    if name not in SEVERAL_ANSWERS
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", first_quick([2, 3]))
@pytest.mark.parametrize("path", EVERY)
def test_every_classifier_of_scikit_learn_can_be_kept(path: str, classes: int) -> None:
    name = path.rpartition(".")[2]
    if classes == 3 and "Threshold" in name:
        pytest.skip("scikit-learn has it for two classes only")
    model, values = trained(path, NEEDS.get(name, {}), classes, standardize=False)
    expected = model.predict(values)
    kind, kept = get_model_kind(model), to_bytes(model)
    if kind == "skops":
        codes, _ = predict_archived(kept, values, classes)
    else:
        codes, _ = predict_linear(np.frombuffer(kept), values, kind)
    assert codes.tolist() == expected.tolist()


def inside(name: str, **params: object) -> dict[str, Any]:
    return {"learner": f"sklearn.{name}", "learner_params": params}


TREE, BOOSTED = inside("tree.DecisionTreeClassifier"), "sklearn.ensemble.HistGradientBoostingClassifier"
TUNED = "sklearn.model_selection.TunedThresholdClassifierCV"
WEIGHTS = {0: 1.0, 1: 2.0, 2: 1.0}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *(("sklearn.svm.SVC", {"kernel": kernel, "probability": kernel == "poly"}) for kernel in ("linear", "poly")),
    ("sklearn.neighbors.KNeighborsClassifier", {"metric": "manhattan", "weights": "distance"}),
    *(("sklearn.neighbors.KNeighborsClassifier", {"algorithm": name}) for name in ("ball_tree", "kd_tree")),
    *(("sklearn.neural_network.MLPClassifier", {"solver": name, "max_iter": 5}) for name in ("lbfgs", "sgd")),
    ("sklearn.neural_network.MLPClassifier", {"early_stopping": True, "max_iter": 5}),
    ("sklearn.tree.DecisionTreeClassifier", {"criterion": "entropy", "class_weight": WEIGHTS}),
    ("sklearn.tree.DecisionTreeClassifier", {"criterion": "log_loss", "splitter": "random"}),
    ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 3, "oob_score": True, "n_jobs": 2}),
    *(
        ("sklearn.ensemble.BaggingClassifier", {"estimator": each, "n_estimators": 3, "max_features": 0.5})
        for each in (TREE, inside("svm.SVC"), inside("ensemble.RandomForestClassifier", n_estimators=2))
    ),
    ("sklearn.ensemble.AdaBoostClassifier", {"estimator": inside("naive_bayes.GaussianNB"), "n_estimators": 3}),
    *(
        ("sklearn.ensemble.StackingClassifier", {"estimators": [["a", TREE]], "final_estimator": each})
        for each in (TREE, inside("ensemble.HistGradientBoostingClassifier", max_iter=3), inside("svm.SVC"))
    ),
    ("sklearn.ensemble.VotingClassifier", {"estimators": [["a", TREE], ["b", NESTED]], "weights": [1, 2]}),
    ("sklearn.calibration.CalibratedClassifierCV", {"estimator": TREE, "method": "isotonic"}),
    ("sklearn.calibration.CalibratedClassifierCV", {"estimator": TREE, "method": "temperature", "ensemble": False}),
    (BOOSTED, {"max_iter": 3, "early_stopping": True}),
    (BOOSTED, {"max_iter": 3, "class_weight": WEIGHTS, "max_features": 0.5, "interaction_cst": "pairwise"}),
    ("sklearn.ensemble.GradientBoostingClassifier", {"n_estimators": 3, "loss": "exponential"}),
    ("sklearn.ensemble.GradientBoostingClassifier", {"n_estimators": 3, "init": NESTED, "subsample": 0.5}),
    ("sklearn.linear_model.LogisticRegressionCV", {"Cs": 3, "class_weight": "balanced"}),
    *(("sklearn.linear_model.SGDClassifier", {"loss": name}) for name in ("log_loss", "modified_huber")),
    ("sklearn.linear_model.RidgeClassifierCV", {"class_weight": WEIGHTS}),
    ("sklearn.linear_model.LogisticRegression", {"solver": "liblinear"}),
    ("sklearn.gaussian_process.GaussianProcessClassifier", {"multi_class": "one_vs_one"}),
    ("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", {"solver": "eigen", "shrinkage": "auto"}),
    ("sklearn.semi_supervised.LabelSpreading", {"kernel": "knn"}),
    ("sklearn.neighbors.NearestCentroid", {"metric": "manhattan"}),
    *(
        (TUNED, {"estimator": NESTED, "scoring": name, "cv": 2, "thresholds": 5})
        for name in ("accuracy", "f1", "precision", "recall", "jaccard")
    ),
]


def for_two_only(path: str, params: dict[str, Any]) -> bool:
    return "Threshold" in path or "exponential" in params.values() or "liblinear" in params.values()


def needed(classes: int, kind: type[np.integer[Any]]) -> set[str]:
    """Collect what the archives of all classifiers hold, as pairs of loader and path."""
    types: set[str] = set()
    values, labels = data(classes)
    for path, params in [*((path, NEEDS.get(path.rpartition(".")[2], {})) for path in EVERY), *VARIANTS]:
        if classes == 3 and for_two_only(path, params):
            continue
        standardize = not path.startswith("sklearn.naive_bayes.")
        with threadpool_limits(1):  # threads that wait for each other are most of the time here
            model = train_classifier(
                make_classifier(path, params, standardize=standardize), values, labels.astype(kind)
            )
        archive = zipfile.ZipFile(BytesIO(dumps(model)))
        types |= {f"{node['__loader__']} {node['__module__']}.{node['__class__']}" for node in nodes(archive)}
    return types


def nodes(archive: zipfile.ZipFile) -> list[dict[str, Any]]:
    inner: list[dict[str, Any]] = []
    json.loads(archive.read("schema.json"), object_hook=lambda each: inner.append(each) if "__loader__" in each else 0)
    return inner


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_list_of_trusted_types_is_what_classifiers_need() -> None:
    types = needed(2, np.int32) | needed(3, np.int32) | needed(2, np.int64)
    assert sorted(types - set(TRUSTED)) == []
    assert sorted(set(TRUSTED) - types) == []
    assert list(TRUSTED) == sorted(TRUSTED)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", first_quick([2, 3]))
@pytest.mark.parametrize(("path", "params"), VARIANTS)
def test_classifiers_with_other_parameters_are_kept_too(path: str, params: dict[str, Any], classes: int) -> None:
    if classes == 3 and for_two_only(path, params):
        pytest.skip("scikit-learn has it for two classes only")
    model, values = trained(path, params, classes)
    if get_model_kind(model) == "skops":
        codes, shares = predict_archived(to_bytes(model), values, classes)
        assert codes.tolist() == model.predict(values).tolist()
        if shares is not None:
            assert np.array_equal(shares, model.predict_proba(values))


def test_harmful_types_are_neither_kept_nor_loaded() -> None:
    with pytest.raises(InvalidRequest, match=r"untrusted types: .*functools\.partial"):
        to_bytes(trained("sklearn.ensemble.HistGradientBoostingClassifier", {"categorical_features": [0]}, 3, False)[0])
    harmful = dumps(FunctionTransformer(func=warnings.warn))
    with pytest.raises(CorruptArtifact, match=r"untrusted types: .*warn"):
        load_archive(harmful, 4)
    with pytest.raises(CorruptArtifact, match=r"untrusted types: .*warn"):
        load_archive(harmful, 4, ("_warnings", "warnings"))  # a function is no class of a learner's module


def file_reader(path: Path) -> Any:
    """Forge a model that answers what stands in a file: its classes are the words that it counts there."""
    values, labels = data(3)
    names = np.array([str(path)] * len(values))
    named = VotingClassifier([("a", DummyClassifier())]).fit(values, labels)
    named.estimators_ = [DummyClassifier(strategy="constant", constant=str(path)).fit(values, names)]
    counter = ColumnTransformer([("v", CountVectorizer(input="filename", vocabulary=["zebra", "root"]), 0)])
    counter.fit(named.transform(values[:3]))
    last = LogisticRegression().fit(np.array([[0, 0], [5, 0], [0, 5]]), [0, 1, 2])
    return make_pipeline(named, counter, last)


def test_a_model_that_reads_files_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("zebra")
    forged = file_reader(secret)
    with pytest.raises(CorruptArtifact, match=r"untrusted types: .*ColumnTransformer, .*CountVectorizer"):
        load_archive(dumps(forged), 4)
    with pytest.raises(InvalidRequest, match="PCA, then GaussianNB"):
        to_bytes(make_pipeline(PCA(1), GaussianNB()).fit(*data(3)))


def broken_tree() -> Any:
    model = trained("sklearn.tree.DecisionTreeClassifier", {}, 3, standardize=False)[0]
    state = model.tree_.__getstate__()
    state["nodes"]["left_child"][0] = state["nodes"]["right_child"][0] = 10**9
    model.tree_ = Tree(4, np.array([3], dtype=np.intp), 1)
    model.tree_.__setstate__(state)
    return model


def fitted(name: str, params: dict[str, Any], **state: Any) -> Any:
    model = trained(f"sklearn.{name}", params, 3, standardize=False)[0]
    for key, value in state.items():
        setattr(model, key, value)
    return model


def forgeries() -> dict[str, tuple[Any, str]]:
    """Give models that ended or misused the process which tried them, and what is said of each now."""
    values, labels = data(3)
    ensemble = {"estimators": [["a", TREE]]}

    def voting(*members: Any) -> Any:
        return fitted("ensemble.VotingClassifier", ensemble, estimators_=list(members), named_estimators_={})

    boosted = fitted("ensemble.GradientBoostingClassifier", {"n_estimators": 2})
    boosted.estimators_ = np.full((1, 1500), boosted.estimators_[0, 0], dtype=object)
    forest = fitted("ensemble.RandomForestClassifier", {"n_estimators": 2})
    forest.estimators_[1] = DecisionTreeClassifier().fit(np.tile(values, 9), labels)
    machine = fitted("svm.SVC", {}, kernel="precomputed", shape_fit_=(4, 4))
    machine.support_ = np.full(len(machine.support_), 2**31 - 8, dtype=np.int32)
    hidden = fitted("ensemble.VotingClassifier", ensemble, estimators_={broken_tree()}, named_estimators_={})
    narrow = fitted("tree.DecisionTreeClassifier", {}, n_features_in_=1)
    good, scaler = fitted("tree.DecisionTreeClassifier", {}), StandardScaler().fit(values)
    bound = FunctionTransformer(func=broken_tree().predict_proba)
    inner = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(values, labels)
    return {
        "columns": (boosted, "an ensemble of 1 x 1500 trees is inconsistent"),
        "members": (forest, "an ensemble of 2 trees is inconsistent"),
        "precomputed": (machine, "inconsistent"),
        "set": (hidden, r"untrusted types: builtins\.set"),
        "loose": (voting(good, broken_tree().tree_), "1 of 2 trees have no estimator"),
        "listed": (voting(broken_tree()), "indices out of range"),
        "narrower": (make_pipeline(PCA(1).fit(values), narrow), r"untrusted types: sklearn\.decomposition\._pca\.PCA"),
        "narrow": (make_pipeline(StandardScaler().fit(values[:, :1]), narrow), "must have 4 columns"),
        "half": (make_pipeline(scaler, narrow), "must have 4 columns"),
        "method": (make_pipeline(bound, narrow), "FunctionTransformer, .*DecisionTreeClassifier by MethodNode"),
        "two": (make_pipeline(scaler, scaler, narrow), "StandardScaler, then"),
        "no classifier": (OneClassSVM().fit(values), "OneClassSVM"),
        "regressor": (DecisionTreeRegressor().fit(values, labels), "got DecisionTreeRegressor"),
        "inner": (voting(inner), "Pipeline not as the root"),
        "voting": (fitted("ensemble.VotingClassifier", ensemble, estimators_=5), "cannot be read: "),
        "state": (fitted("svm.SVC", {}, _n_support="many"), "inconsistent"),
        "shares": (
            fitted("naive_bayes.GaussianNB", {}, classes_=np.arange(2)),
            "cannot predict|predictions have shapes",
        ),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_models_that_were_made_up_are_refused_and_nothing_else_is_raised() -> None:
    for name, (model, message) in forgeries().items():
        with pytest.raises(CorruptArtifact, match=message):
            pytest.fail(f"{name}: {predict_archived(dumps(model), data(3)[0], 3)}")


@pytest.mark.parametrize("change", [{"protocol": 0}, {"protocol": True}, {"__loader__": {}}, {"__class__": ["x"]}])
def test_a_schema_that_was_made_up_is_refused(change: dict[str, Any]) -> None:
    def forged(schema: dict[str, Any]) -> bytes:
        out = BytesIO()
        with zipfile.ZipFile(BytesIO(kept)) as old, zipfile.ZipFile(out, "w") as new:
            for name in old.namelist():
                new.writestr(name, json.dumps(schema) if name == "schema.json" else old.read(name))
        return out.getvalue()

    kept = to_bytes(trained("sklearn.naive_bayes.GaussianNB", {}, 3)[0])
    with zipfile.ZipFile(BytesIO(kept)) as archive:
        schema = json.loads(archive.read("schema.json"))
    assert load_archive(forged(schema), 4) is not None
    with pytest.raises(CorruptArtifact):
        load_archive(forged({**schema, **change}), 4)


def test_a_model_that_would_predict_in_many_processes_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = joblib.Parallel.__init__

    def watched(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        asked.append(self._effective_n_jobs())

    model = fitted("ensemble.BaggingClassifier", {"n_estimators": 3}, n_jobs=2)
    monkeypatch.setattr(joblib.Parallel, "__init__", watched)
    codes, _ = predict_archived(to_bytes(model), data(3)[0], 3)
    assert asked
    assert set(asked) == {1}
    assert len(codes) == 150


def test_a_learner_of_ones_own_is_kept_where_its_module_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_learner.py").write_text(OWN_LEARNER)
    monkeypatch.syspath_prepend(tmp_path)
    table = small_table(rows=60, features=2)
    options = IndexOptions(learner="own_learner.Nearest")
    with pytest.raises(InvalidRequest, match=r"own_learner\.Nearest not allowed"):
        fit(table, options, np.random.default_rng(0), BuildContext())
    plan = fit(table, options, np.random.default_rng(0), BuildContext(learner_modules=("own_learner",))).plan
    items = [{f"c{j}": float(value) for j, value in enumerate(row)} for row in table.values]
    labels = plan.predict(("f0", "f1"), items, ("own_learner",)).labels
    assert np.mean([label == table.classes[c] for label, c in zip(labels, table.labels, strict=True)]) > 0.35
    with pytest.raises(CorruptArtifact, match=r"untrusted types: own_learner\.Nearest, own_learner\._Centres"):
        plan.predict(("f0", "f1"), items)


OWN_LEARNER = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class _Centres:
    def __init__(self, rows):
        self.rows = rows

class Nearest(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.centres_ = _Centres(np.array([X[y == c].mean(axis=0) for c in self.classes_]))
        return self

    def predict(self, X):
        return self.classes_[((X[:, None] - self.centres_.rows) ** 2).sum(axis=2).argmin(axis=1)]
"""


def test_bytes_that_are_no_model_are_refused() -> None:
    packed = dumps(GaussianNB().fit(*data(3)), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CorruptArtifact, match=r"compressed entries: .*schema\.json"):
        load_archive(packed, 4)
    kept = to_bytes(trained("sklearn.naive_bayes.GaussianNB", {}, 3)[0])
    for broken in (b"", b"PK", kept[: len(kept) // 2], b"\x00" * 100):
        with pytest.raises(CorruptArtifact, match="the model cannot be read"):
            load_archive(broken, 4)
    with pytest.raises(CorruptArtifact, match="must have 3 columns"):
        predict_archived(kept, np.zeros((1, 3)), 3)
    with pytest.raises(CorruptArtifact, match="must be below 2, got 2"):
        predict_archived(kept, data(3)[0], 2)
    unfitted = make_classifier("sklearn.naive_bayes.GaussianNB", {})
    unfitted.n_features_in_ = 4
    with pytest.raises(CorruptArtifact, match="cannot predict"):
        predict_archived(to_bytes(unfitted), data(3)[0], 3)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("os.system", "os.system not allowed; allowed modules: sklearn."),
        ("sklearnx.Thing", "sklearnx.Thing not allowed"),
        ("sklearn.nothing.Thing", "cannot be imported"),
        ("sklearn.linear_model.Nothing", "cannot be imported"),
        ("sklearn.datasets.load_iris", "must be a class of the allowed modules"),
        ("sklearn.utils.fixes.Path", "must be a class of the allowed modules|cannot be imported"),
        ("sklearn.preprocessing.StandardScaler", "must be a classifier"),
        ("sklearn.linear_model.LinearRegression", "must be a classifier"),
        ("sklearn.ensemble.VotingClassifier", "learner_params: "),
    ],
)
def test_only_classifiers_of_allowed_modules_are_made(path: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        make_classifier(path, {})


def test_more_modules_can_be_allowed_and_parameters_are_those_of_the_learner() -> None:
    path, tree = "sklearn.dummy.DummyClassifier", "sklearn.tree.DecisionTreeClassifier"
    assert type(make_classifier(path, {}, ("sklearn.dummy",))).__name__ == "DummyClassifier"
    with pytest.raises(InvalidRequest, match=r"allowed modules: sklearn\.tree"):
        make_classifier(path, {}, ("sklearn.tree",))
    with pytest.raises(InvalidRequest, match="surprise"):
        make_classifier(tree, {"surprise": 1})
    with pytest.raises(InvalidRequest, match=r"learner_params: .*max_depth"):
        train_classifier(make_classifier(tree, {"max_depth": -3}), *data(2))
    assert [make_classifier(tree, params, seed=7).random_state for params in ({}, {"random_state": 3})] == [7, 3]
    for multi_class, kind in (("ovr", "lbfgs"), (None, "liblinear")):  # one class against the rest is no softmax
        model = make_classifier("sklearn.linear_model.LogisticRegression", {"solver": kind})
        model.multi_class = multi_class
        assert get_model_kind(model) == "skops"


@pytest.mark.parametrize("field", ["left", "right", "feature_idx", "is_categorical"])
def test_a_tree_that_points_outside_itself_is_refused(field: str) -> None:
    model = trained("sklearn.ensemble.HistGradientBoostingClassifier", {"max_iter": 2}, 3, standardize=False)[0]
    assert load_archive(to_bytes(model), 4) is not None
    model._predictors[0][0].nodes[field][0] = 200
    for broken in (model, broken_tree()):
        with pytest.raises(CorruptArtifact, match="indices out of range"):
            load_archive(dumps(broken), 4)


@pytest.mark.parametrize("learner", ["sklearn.tree.DecisionTreeClassifier", "sklearn.linear_model.RidgeClassifier"])
def test_an_index_of_any_learner_predicts(learner: str) -> None:
    table: FeatureTable = small_table(rows=60, features=2)
    cache: dict[str, bytes] = {}
    options = IndexOptions(learner=learner)
    plan = fit(table, options, np.random.default_rng(0), BuildContext(cache=cache)).plan
    messages: list[str] = []
    run = BuildContext(lambda done, total, message: messages.append(message), cache=cache)
    fit(table, options, np.random.default_rng(0), run)
    assert messages[-1].startswith("done: 0 feature sets trained")
    assert "; 0 models trained" in messages[-1]
    items = [{f"c{j}": float(value) for j, value in enumerate(row)} for row in table.values]
    predicted = plan.predict(("f0", "f1"), items)
    right = np.mean([label == table.classes[c] for label, c in zip(predicted.labels, table.labels, strict=True)])
    assert right > 0.4
    assert (predicted.probabilities is None) == (learner.endswith("RidgeClassifier"))


def test_a_tree_of_other_columns_and_forged_support_vectors_are_refused() -> None:
    tree = trained("sklearn.tree.DecisionTreeClassifier", {}, 3, standardize=False)[0]
    with pytest.raises(CorruptArtifact, match="must have 3 columns"):
        load_archive(to_bytes(tree), 3)
    tree.n_features_in_ = 3
    with pytest.raises(CorruptArtifact, match="indices out of range"):
        load_archive(to_bytes(tree), 3)
    machine = trained("sklearn.svm.SVC", {}, 3, standardize=False)[0]
    assert load_archive(to_bytes(machine), 4) is not None
    machine._n_support = np.array([-2, 2, len(machine.support_)], dtype=np.int32)
    with pytest.raises(CorruptArtifact, match="inconsistent"):
        load_archive(to_bytes(machine), 4)
