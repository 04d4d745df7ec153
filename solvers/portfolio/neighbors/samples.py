"""Random samples of labeled items (OCCAM, Section 4.1), and their candidate sizes (Appendix A.7)."""

from collections.abc import Iterator

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Int32s
from models.portfolio import PortfolioOptions, Samples, Sampling

COUNTS = (10, 20, 40, 100)
SIZES = (25, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Numbers of samples and sizes that ``auto`` compares, in addition to the largest possible size.

The paper has 40 samples. More and smaller ones vary less, and make single queries slower.
"""


def draw_samples(rng: np.random.Generator, items: int, count: int, size: int, sampling: Sampling = "iid") -> Int32s:
    """Draw samples of distinct items: (count, size) int32 below ``items``.

    Args:
        sampling: ``iid`` for independent samples; ``disjoint`` if no item may be in two samples.
    Raises:
        InvalidRequest: too few items.

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
        raise InvalidRequest.from_faults(
            Fault(("samples", "size"), f"must be at most {items}, the number of items, got {size}")
        )
    if sampling == "disjoint" and count * size > items:
        fault = f"must need at most {items} items, got {count} disjoint samples of {size}"
        raise InvalidRequest.from_faults(Fault(("samples",), fault))


def iterate_sample_sizes(options: PortfolioOptions, items: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the sample sizes to try, each with the numbers of samples to try: (size, counts).

    With ``samples``, only its count is tried, with sizes up to its size. Otherwise, ``max_items`` limits size times
    count.

    >>> list(iterate_sample_sizes(PortfolioOptions(max_items=1000), 60))
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
            yield size, (1,)  # all samples are equal
        else:
            yield size, counts or (min(most // size, COUNTS[-1]),)
