"""Gradient-boosted forests of oblivious trees: training in ``boosting`` (compiled in ``boosting_kernel``), arrays and
evaluation in ``oblivious_trees``."""
