"""Gradient-boosted forests of oblivious trees.

``boosting`` trains them (compiled in ``boosting_kernel``). ``oblivious_trees`` has their arrays and evaluation.
"""
