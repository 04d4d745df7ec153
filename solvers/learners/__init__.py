"""Learners that solvers share: classifiers by their import path, and trained ones as bytes that run no code.

=================  =======================================================================
module             what it does
=================  =======================================================================
``estimators``     the black box that is trained: made by its import path, cross-validated
``archives``       trained models kept as archives, and predicting from them
``linear``         the same for linear models, kept as numbers
``trusted_types``  the types that an archive may hold
=================  =======================================================================
"""
