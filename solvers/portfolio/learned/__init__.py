"""Learned estimators: probability that each classifier is correct on a query, by regressions on its embedding.

OCCAM's estimator is a mean over nearest neighbors. Here two regressions are cross-fitted and averaged, with shrinkage
to each classifier's mean. For an uninformative embedding the estimates are these means, and routing uses the convex
hull of single classifiers.

====================  =======================================================================================
module                purpose
====================  =======================================================================================
``embedding``         centering and dimensionality reduction of embeddings
``regressions``       the averaged regressions: random forests and kernels
``forest``            random forests as arrays
``kernel``            kernel ridge regression
``mixture``           their mean, with shrinkage estimated by cross-validation
``cross_fit``         cross-fitting of the mixture
``estimator``         the fitted estimator
``contents``          its stored arrays
====================  =======================================================================================
"""
