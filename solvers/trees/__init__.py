"""Boosted forests of oblivious trees, which policies and portfolios share: grown by ``boosting`` (compiled in
``boosting_kernel``), kept and evaluated as the arrays of ``oblivious_trees``."""
