"""Learned estimators: how likely each classifier is right about a query, by regressions on its embedding.

OCCAM's estimator is a mean over nearest neighbours. Here several regressions are cross-fitted and mixed, so that what
the rows carry is used and no more: an embedding that tells nothing ends at each classifier's mean, where routing is the
hull of single classifiers.

====================  =======================================================================================
module                what
====================  =======================================================================================
``embedding``         embeddings, centred and reduced
``regressions``       the columns that are mixed: logistic curves, means of neighbours, forests, trees, kernels
``forest``            random forests as arrays
``kernel``            kernel ridge regression
``mixture``           how much of each column, learned from rows that it had not seen
``cross_fit``         which mixture is taken, and what it is worth on rows that chose nothing
``contents``          what a plan keeps of it, as arrays alone
====================  =======================================================================================
"""
