"""Learned estimators: probability that each classifier is correct, by regressions on embeddings.

OCCAM's estimator is a mean over nearest neighbors. Here, three regressions are cross-fitted. Cross-validation chooses
which of them are averaged. The average is shrunk toward each classifier's mean. If the embedding is uninformative,
estimates equal these means. Then routing mixes the classifiers on the convex hull of cost and accuracy.

====================  =======================================================================================
module                purpose
====================  =======================================================================================
``embedding``         centering and dimensionality reduction of embeddings
``regressions``       the regressions: random forests, kernels, and logistic regressions
``forest``            random forests as arrays
``kernel``            kernel ridge regression
``logistic``          logistic regressions, each with a separate strength
``mixture``           choice and mean of the regressions, with shrinkage by cross-validation
``cross_fit``         cross-fitting of the mixture
``estimator``         the fitted estimator
``contents``          stored arrays of the estimator
====================  =======================================================================================
"""
