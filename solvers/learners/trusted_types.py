"""Allowlist of types in archived models: exactly those that scikit-learn's classifiers need.

skops itself trusts all of scikit-learn, but some of its classes read files. So the loader and the type or function of
every node are checked against this list before any object is created.
"""

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from solvers.learners.estimators import is_allowed

TRUSTED = (
    "DictNode builtins.dict",
    "DictNode sklearn.utils._bunch.Bunch",
    "FunctionNode sklearn.metrics._classification.accuracy_score",
    "FunctionNode sklearn.metrics._classification.balanced_accuracy_score",
    "FunctionNode sklearn.metrics._classification.f1_score",
    "FunctionNode sklearn.metrics._classification.jaccard_score",
    "FunctionNode sklearn.metrics._classification.precision_score",
    "FunctionNode sklearn.metrics._classification.recall_score",
    "JsonNode builtins.str",
    "ListNode builtins.list",
    "LossNode sklearn._loss._loss.CyExponentialLoss",
    "LossNode sklearn._loss._loss.CyHalfBinomialLoss",
    "LossNode sklearn._loss._loss.CyHalfMultinomialLoss",
    "LossNode sklearn.linear_model._sgd_fast.Hinge",
    "LossNode sklearn.linear_model._sgd_fast.ModifiedHuber",
    "NdArrayNode numpy.float64",
    "NdArrayNode numpy.int64",
    "NdArrayNode numpy.ndarray",
    "NdArrayNode numpy.uint64",
    "ObjectNode sklearn._loss.link.HalfLogitLink",
    "ObjectNode sklearn._loss.link.Interval",
    "ObjectNode sklearn._loss.link.LogitLink",
    "ObjectNode sklearn._loss.link.MultinomialLogit",
    "ObjectNode sklearn._loss.loss.ExponentialLoss",
    "ObjectNode sklearn._loss.loss.HalfBinomialLoss",
    "ObjectNode sklearn._loss.loss.HalfMultinomialLoss",
    "ObjectNode sklearn.calibration.CalibratedClassifierCV",
    "ObjectNode sklearn.calibration._CalibratedClassifier",
    "ObjectNode sklearn.calibration._SigmoidCalibration",
    "ObjectNode sklearn.calibration._TemperatureScaling",
    "ObjectNode sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    "ObjectNode sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
    "ObjectNode sklearn.dummy.DummyClassifier",
    "ObjectNode sklearn.ensemble._bagging.BaggingClassifier",
    "ObjectNode sklearn.ensemble._forest.ExtraTreesClassifier",
    "ObjectNode sklearn.ensemble._forest.RandomForestClassifier",
    "ObjectNode sklearn.ensemble._gb.GradientBoostingClassifier",
    "ObjectNode sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "ObjectNode sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "ObjectNode sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "ObjectNode sklearn.ensemble._stacking.StackingClassifier",
    "ObjectNode sklearn.ensemble._voting.VotingClassifier",
    "ObjectNode sklearn.ensemble._weight_boosting.AdaBoostClassifier",
    "ObjectNode sklearn.gaussian_process._gpc.GaussianProcessClassifier",
    "ObjectNode sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "ObjectNode sklearn.gaussian_process.kernels.ConstantKernel",
    "ObjectNode sklearn.gaussian_process.kernels.Product",
    "ObjectNode sklearn.gaussian_process.kernels.RBF",
    "ObjectNode sklearn.isotonic.IsotonicRegression",
    "ObjectNode sklearn.linear_model._logistic.LogisticRegression",
    "ObjectNode sklearn.linear_model._logistic.LogisticRegressionCV",
    "ObjectNode sklearn.linear_model._passive_aggressive.PassiveAggressiveClassifier",
    "ObjectNode sklearn.linear_model._perceptron.Perceptron",
    "ObjectNode sklearn.linear_model._ridge.RidgeClassifier",
    "ObjectNode sklearn.linear_model._ridge.RidgeClassifierCV",
    "ObjectNode sklearn.linear_model._stochastic_gradient.SGDClassifier",
    "ObjectNode sklearn.metrics._scorer._CurveScorer",
    "ObjectNode sklearn.metrics._scorer._Scorer",
    "ObjectNode sklearn.model_selection._classification_threshold.FixedThresholdClassifier",
    "ObjectNode sklearn.model_selection._classification_threshold.TunedThresholdClassifierCV",
    "ObjectNode sklearn.multiclass.OneVsOneClassifier",
    "ObjectNode sklearn.multiclass.OneVsRestClassifier",
    "ObjectNode sklearn.multiclass.OutputCodeClassifier",
    "ObjectNode sklearn.multiclass._ConstantPredictor",
    "ObjectNode sklearn.naive_bayes.BernoulliNB",
    "ObjectNode sklearn.naive_bayes.CategoricalNB",
    "ObjectNode sklearn.naive_bayes.ComplementNB",
    "ObjectNode sklearn.naive_bayes.GaussianNB",
    "ObjectNode sklearn.naive_bayes.MultinomialNB",
    "ObjectNode sklearn.neighbors._classification.KNeighborsClassifier",
    "ObjectNode sklearn.neighbors._classification.RadiusNeighborsClassifier",
    "ObjectNode sklearn.neighbors._nearest_centroid.NearestCentroid",
    "ObjectNode sklearn.neighbors._unsupervised.NearestNeighbors",
    "ObjectNode sklearn.neural_network._multilayer_perceptron.MLPClassifier",
    "ObjectNode sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "ObjectNode sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "ObjectNode sklearn.pipeline.Pipeline",
    "ObjectNode sklearn.preprocessing._data.StandardScaler",
    "ObjectNode sklearn.preprocessing._label.LabelBinarizer",
    "ObjectNode sklearn.preprocessing._label.LabelEncoder",
    "ObjectNode sklearn.semi_supervised._label_propagation.LabelPropagation",
    "ObjectNode sklearn.semi_supervised._label_propagation.LabelSpreading",
    "ObjectNode sklearn.semi_supervised._self_training.SelfTrainingClassifier",
    "ObjectNode sklearn.svm._classes.LinearSVC",
    "ObjectNode sklearn.svm._classes.NuSVC",
    "ObjectNode sklearn.svm._classes.SVC",
    "ObjectNode sklearn.tree._classes.DecisionTreeClassifier",
    "ObjectNode sklearn.tree._classes.DecisionTreeRegressor",
    "ObjectNode sklearn.tree._classes.ExtraTreeClassifier",
    "ObjectNode sklearn.utils._metadata_requests.MetadataRequest",
    "ObjectNode sklearn.utils._metadata_requests.MethodMetadataRequest",
    "RandomGeneratorNode numpy.random._generator.Generator",
    "RandomStateNode numpy.random.mtrand.RandomState",
    "TreeNode sklearn.tree._tree.Tree",
    "TupleNode builtins.tuple",
    "TypeNode builtins.int",
    "TypeNode builtins.str",
    "TypeNode numpy.int32",
    "TypeNode numpy.int64",
)
"""Pairs of a skops loader and a type that it may load.

Generated by archiving every classifier of scikit-learn, with two and three classes, standardized or not, nested, and
with common parameters; ``test_the_list_of_trusted_types_is_what_classifiers_need`` fails for missing and for unneeded
types. Before adding a type, check it with malicious state: in ``__setstate__``, when it is called, and in place of
another part of a classifier. It must not open files, import, start processes, or call objects by name.
"""
_PROTOCOL = 2
"""Minimum skops protocol; older ones are loaded by other code."""
_PIPELINE = "sklearn.pipeline.Pipeline"


def find_untrusted(schema: Any, modules: Sequence[str] = ()) -> list[str]:
    """Return the untrusted types in an archive's schema; classes defined in ``modules`` are trusted.

    A pipeline is trusted only as the root. Raises ValueError for an old protocol.

    >>> node = {"__loader__": "ListNode", "__module__": "builtins", "__class__": "list", "content": []}
    >>> find_untrusted({**node, "protocol": 2}), find_untrusted({**node, "protocol": 2, "__class__": "set"})
    ([], ['builtins.set'])
    """
    protocol = schema["protocol"]
    if type(protocol) is not int or protocol < _PROTOCOL:
        raise ValueError(f"protocol must be at least {_PROTOCOL}, got {protocol}")
    trusted = set(TRUSTED)
    paths = {entry.partition(" ")[2] for entry in TRUSTED}
    loaders = {entry.partition(" ")[0] for entry in TRUSTED}
    unknown = set()
    for node in _nodes(schema):
        loader, path = node["__loader__"], _path_of(node)
        if path == _PIPELINE and node is not schema:
            unknown.add(f"{path} not as the root")
        elif f"{loader} {path}" not in trusted and not (loader in loaders and _is_class_of(path, modules)):
            unknown.add(f"{path} by {loader}" if path in paths else path)
    return sorted(unknown)


def list_types(schema: Any) -> list[str]:
    """List the types and functions in a schema."""
    return sorted({_path_of(node) for node in _nodes(schema)})


def _path_of(node: dict[str, Any]) -> str:
    """Return the dotted name of a node's type."""
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield everything that skops may treat as a node."""
    pending = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if "__loader__" in each:
                yield each
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _is_class_of(path: str, modules: Sequence[str]) -> bool:
    """Return whether a path is a class that one of the modules defines, not one that it imports."""
    module, _, name = path.rpartition(".")
    if not is_allowed(module, modules):
        return False
    candidate = getattr(import_module(module), name, None)
    return inspect.isclass(candidate) and is_allowed(candidate.__module__, modules)
