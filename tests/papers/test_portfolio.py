"""The numbers that OCCAM prints, as far as they can be checked without its images."""

import numpy as np
import pytest

from models.portfolio import Samples
from solvers.portfolio.baselines import find_dominated
from solvers.portfolio.neighbors.samples import draw_samples

TABLE_1 = {  # normalised cost by price in dollars, for 10,000 queries
    "ResNet-18": (0.076, 0.15),
    "ResNet-34": (0.116, 0.22),
    "ResNet-50": (0.148, 0.29),
    "ResNet-101": (0.270, 0.52),
    "SwinV2-T": (0.277, 0.53),
    "SwinV2-S": (0.511, 0.98),
    "SwinV2-B": (0.519, 1.00),
}
TABLE_6 = {  # accuracy in percent, price in dollars, normalised cost
    "ResNet-18": (67.1, 0.064, 0.14),
    "VGG19": (70.6, 0.070, 0.15),
    "VGG19_BN": (73.0, 0.074, 0.16),
    "MNASNet1_3": (75.7, 0.096, 0.21),
    "RegNet_X_800MF": (76.7, 0.120, 0.26),
    "ViT_B_16": (81.6, 0.127, 0.27),
    "ConvNeXt_Tiny": (82.0, 0.157, 0.34),
    "RegNet_X_16GF": (82.2, 0.217, 0.46),
    "RegNet_X_32GF": (82.3, 0.220, 0.47),
    "ViT_L_16": (84.7, 0.224, 0.48),
    "ViT_H_14": (85.5, 0.352, 0.75),
    "RegNet_Y_128GF": (86.0, 0.467, 1.00),
}


@pytest.mark.parametrize("table", [TABLE_1, {name: row[1:] for name, row in TABLE_6.items()}])
def test_normalised_costs_are_shares_of_the_dearest(table: dict[str, tuple[float, float]]) -> None:
    """Tables 1 and 6, to the printed digit; prices are rounded too, so the last digit may be off by one."""
    dearest = max(price for price, _ in table.values())
    for price, normalised in table.values():
        assert abs(price / dearest - normalised) < 0.0101


def test_ten_per_cent_less_is_the_budget_that_the_paper_says() -> None:
    assert round(0.9 * 0.519, 3) == 0.467


def test_the_twelve_classifiers_of_table_6_beat_each_other_nowhere_and_others_are_beaten() -> None:
    names = list(TABLE_6)
    accuracies, costs = (np.array([TABLE_6[name][i] for name in names]) for i in (0, 1))
    assert find_dominated(names, accuracies, costs) == {}
    worse = [*names, "worse"]
    winners = find_dominated(worse, np.append(accuracies, 82.0), np.append(costs, 0.2))
    assert winners == {"worse": "ConvNeXt_Tiny"}


def test_equals_beat_each_other_not() -> None:
    assert find_dominated(["a", "b"], np.array([0.8, 0.8]), np.array([1.0, 1.0])) == {}


def test_the_papers_samples_can_be_drawn() -> None:
    """Section 5.1: K = 40 samples of 1,000 of 40,000 items."""
    samples = Samples(count=40, size=1000)
    for sampling in ("iid", "disjoint"):
        drawn = draw_samples(np.random.default_rng(0), 40_000, samples.count, samples.size, sampling)
        assert drawn.shape == (40, 1000)
