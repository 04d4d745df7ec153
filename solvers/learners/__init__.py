"""Learners that solvers share: classifiers by their import path, and trained ones as bytes that run no code.

=============  ===============================================================================
module         what it does
=============  ===============================================================================
``learner``    the black box that is trained: made by its import path, cross-validated
``trained``    trained models kept as numbers or archives, and predicting from them
``trusted``    the types that an archive may hold
=============  ===============================================================================
"""
