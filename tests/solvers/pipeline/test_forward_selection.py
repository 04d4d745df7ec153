"""Forward selection, by hand."""

import numpy as np

from models.arrays import Int8s
from solvers.pipeline.forward_selection import order_by_forward_selection
from solvers.pipeline.objectives import ConfigurationScores


def test_forward_selection_takes_what_sets_most_rows_right_for_its_cost() -> None:
    """By hand: 3 is free; 1 sets 8 right for 2; then 0 adds 6 for 3; what is left, 2, costs least for nothing."""
    right = {0b1000: 0, 0b1001: 6, 0b1010: 8, 0b1100: 3, 0b1011: 14, 0b1110: 8, 0b1111: 14}

    def evaluate(chromosomes: Int8s) -> ConfigurationScores:
        masks = ((chromosomes >= 0) << np.arange(4)).sum(axis=1).tolist()
        rights = np.array([right.get(mask, 0) for mask in masks])
        return ConfigurationScores(20, rights, rights, np.ones(len(masks)))

    assert order_by_forward_selection(evaluate, np.array([3.0, 2.0, 1.0, 0.0])).tolist() == [3, 1, 0, 2]
