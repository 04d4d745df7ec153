"""Advice: every method that a dataset allows, built on the same rows, and which of them to take.

The rows are cut into three parts, each with its share of every class. Methods, and simple alternatives, learn from the
first. The second chooses: of each method the setting, and among the methods one, within the limits asked for. The third
chose nothing, and every figure is from it.

==============  ============================================================================
module          what it does
==============  ============================================================================
``advise``      the whole of it
``candidates``  every setting of every method, and what it did with rows it never saw
``fixed_sets``  simple alternatives where features cost: fixed sets of them
``choice``      which setting, and which method, within limits
``sentence``    the advice in a sentence
==============  ============================================================================
"""

from solvers.advice.advise import advise, check

__all__ = ["advise", "check"]
