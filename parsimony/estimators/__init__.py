"""Classifiers with the interface of scikit-learn: ``fit``, ``predict``, and ``predict_proba``.

They require ``parsimony-server``, and build in this process or on a server. After ``fit``, ``savings_`` compares the
classifier with simple baselines on holdout rows, ``curve_`` has its trade-offs, ``decision_cost_`` is the expected mean
cost, and ``plot()`` draws all three. After ``predict`` or ``predict_proba``, ``costs_`` has the cost of each row.
"""

from parsimony.estimators.called_classifiers import CascadeClassifier, PortfolioClassifier
from parsimony.estimators.feature_classifiers import IndexClassifier, PipelineClassifier, PolicyClassifier

__all__ = ["CascadeClassifier", "IndexClassifier", "PipelineClassifier", "PolicyClassifier", "PortfolioClassifier"]
