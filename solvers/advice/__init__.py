"""Model selection across artifact kinds: build every kind that a dataset allows, and recommend one.

Rows are split into three parts, stratified by class. Kinds and simple baselines are trained on the training rows. On
the validation rows, the setting of each kind and then the kind are selected within the limits. All figures are measured
on the holdout rows.

==============  ============================================================================
module          contents
==============  ============================================================================
``advise``      the whole procedure
``candidates``  settings of each kind, evaluated on unseen rows
``fixed_sets``  simple baselines for feature tables: fixed feature sets
``choice``      selection of a setting and a kind within limits
``summary``     the advice in a sentence
==============  ============================================================================
"""

from solvers.advice.advise import advise, check

__all__ = ["advise", "check"]
