"""Shared machine-learning code: classifiers by import path, and safe serialization of trained models.

=================  =======================================================================
module             contents
=================  =======================================================================
``estimators``     classifiers by import path, training, and cross-validation
``archives``       trained models as skops archives, and their predictions
``linear``         linear models as arrays of numbers, and their predictions
``trusted_types``  types that an archive may contain
=================  =======================================================================
"""
