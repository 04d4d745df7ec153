"""Samples of labelled items (OCCAM, Section 4.1): which items, how many samples, of what size (Appendix A.7)."""

from collections.abc import Iterator

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Int32s
from models.portfolio import PortfolioOptions, Samples, Sampling

COUNTS = (10, 20, 40, 100)
SIZES = (25, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Numbers of samples and of their items that ``auto`` compares, beside the largest size that there can be. The paper
has 40 samples; more of them, if smaller, vary less, and make single queries slower."""


def draw_samples(rng: np.random.Generator, items: int, count: int, size: int, sampling: Sampling = "iid") -> Int32s:
    """Draw samples of items: (count, size) int32 below ``items``, none twice in one sample.

    iid: each sample independently of the others; disjoint: no item in two of them. Raises InvalidRequest if there are
    too few items.

    >>> draw_samples(np.random.default_rng(0), 6, 3, 2, "disjoint").shape
    (3, 2)
    """
    check_sample_size(items, count, size, sampling)
    if sampling == "iid":
        return np.stack([rng.choice(items, size, replace=False) for _ in range(count)]).astype(np.int32)
    return rng.permutation(items)[: count * size].reshape(count, size).astype(np.int32)


def check_sample_size(items: int, count: int, size: int, sampling: Sampling) -> None:
    """Raise InvalidRequest if there are too few items for such samples."""
    if size > items:
        raise InvalidRequest.at(Fault(("samples", "size"), f"is {size}, there are {items} items to draw from"))
    if sampling == "disjoint" and count * size > items:
        asked = f"{count} disjoint samples of {size} need {count * size} items, there are {items} to draw from"
        raise InvalidRequest.at(Fault(("samples",), asked))


def list_shapes(options: PortfolioOptions, items: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """List the sizes to compare, with the numbers of samples of each: (size, counts).

    Up to the options' own samples, or as many items as ``auto`` may have.

    >>> list(list_shapes(PortfolioOptions(max_items=1000), 60))
    [(25, (10, 20, 40)), (50, (10, 20)), (60, (1,))]
    """
    given = options.samples
    if isinstance(given, Samples):
        check_sample_size(items, given.count, given.size, options.sampling)
        for size in (*(size for size in SIZES if size < given.size), given.size):
            yield size, (given.count,)
        return
    most = options.max_items if options.sampling == "iid" else min(options.max_items, items)
    largest = min(items, most, SIZES[-1])
    for size in (*(size for size in SIZES if size < largest), largest):
        counts = tuple(count for count in COUNTS if count * size <= most)
        if size == items:
            yield size, (1,)  # all are the same
        else:
            yield size, counts or (min(most // size, COUNTS[-1]),)
