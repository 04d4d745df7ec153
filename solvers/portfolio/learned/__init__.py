"""Learned estimators: how likely each classifier is right about a query, by regressions on its embedding.

OCCAM's estimator is a mean over nearest neighbors. Here two regressions are cross-fitted and mixed, so that what
the rows carry is used and no more: an embedding that tells nothing ends at each classifier's mean, where routing is the
hull of single classifiers.

====================  =======================================================================================
module                what
====================  =======================================================================================
``embedding``         embeddings, centred and reduced
``regressions``       the kinds that are mixed: random forests and kernels
``forest``            random forests as arrays
``kernel``            kernel ridge regression
``mixture``           their mean, believed as far as rows that they had not seen tell
``cross_fit``         the mixture, and what it is worth on rows that chose nothing
``contents``          what a plan keeps of it, as arrays alone
====================  =======================================================================================
"""
