"""Seven features of an image of a digit, of any size: what the demo's index chooses from.

Each takes one image, (side, side) of ink from 0 to 1, and gives a vector whose meaning does not depend on the side, so
that one model serves all sizes; what it costs depends on the side, in different ways.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from app.demo.images import SPOTS
from models.arrays import Floats

GRID = 8
"""Sides of at least this many pixels can be looked at; positions are given on a grid of so many cells a side."""
DIRECTIONS = 8
NEIGHBOURS = ((0, 1), (1, 2), (2, 1), (1, 0))
"""Above, right, below and left, as rows and columns of a square of nine."""
CLEAR = 0.1
"""Ink that differs by less than this counts as equal; else the rounding of flat ground would make patterns."""
SMALLEST_HOLE = 0.005
"""Holes of a smaller share of the image are gaps in the ink."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """A feature: its name, how many numbers it gives, and how it is computed: (side, side) to (width,)."""

    name: str
    width: int
    compute: Callable[[Floats], Floats]

    @property
    def columns(self) -> list[str]:
        """Name the columns that it fills."""
        return [f"{self.name}_{i}" for i in range(self.width)]


def extractors() -> tuple[Extractor, ...]:
    """Name all features, roughly the cheapest first."""
    return (
        Extractor("spots", len(SPOTS), spots),
        Extractor("lines", 12, lines),
        Extractor("profiles", 2 * GRID, profiles),
        Extractor("moments", 15, moments),
        Extractor("patterns", 2 ** len(NEIGHBOURS), patterns),
        Extractor("holes", 5, holes),
        Extractor("gradients", 4 * DIRECTIONS, gradients),
    )


def spots(image: Floats) -> Floats:
    """Give the ink of eight single pixels. O(1)."""
    rows, columns = ((2 * np.array(SPOTS) + 1) * len(image) // (2 * GRID)).T
    return np.asarray(image[rows, columns])


def lines(image: Floats) -> Floats:
    """Give for three rows and three columns the mean ink, and how often a stroke begins. O(side)."""
    at = np.array([3, 8, 13]) * len(image) // 16
    scans = np.concatenate((image[at], image[:, at].T))
    ink = scans > 0.5
    begins = np.count_nonzero(ink[:, 1:] & ~ink[:, :-1], axis=1)
    return np.concatenate((scans.mean(axis=1), begins))


def profiles(image: Floats) -> Floats:
    """Give the mean ink of eight bands of rows and of eight bands of columns. O(side²), little for each pixel."""
    starts = np.arange(GRID) * len(image) // GRID
    sums = np.concatenate((np.add.reduceat(image.sum(axis=1), starts), np.add.reduceat(image.sum(axis=0), starts)))
    return np.asarray(sums * (GRID / image.size))


def moments(image: Floats) -> Floats:
    """Give the mean ink, its centre, and its central moments of orders 2 to 4, in sides. O(side²), by matrices."""
    at = (np.arange(len(image)) + 0.5) / len(image)
    total = max(float(image.sum()), 1e-9)
    down, right = float(image.sum(axis=1) @ at) / total, float(image.sum(axis=0) @ at) / total
    powers = np.vander(at - down, 5, increasing=True), np.vander(at - right, 5, increasing=True)
    central = powers[0].T @ image @ powers[1] / total
    higher = [central[i, j] for i in range(5) for j in range(5 - i) if i + j >= 2]
    return np.array([total / image.size, down, right, *higher])


def patterns(image: Floats) -> Floats:
    """Give the shares of local binary patterns: which of four neighbours, an eighth of the side away, have more ink.

    O(side²), some steps for each pixel.
    """
    reach = max(len(image) // GRID, 1)
    inner = image[reach:-reach, reach:-reach]
    size = len(inner)
    code = np.zeros(inner.shape, dtype=np.int64)
    for bit, (row, column) in enumerate(NEIGHBOURS):
        neighbour = image[row * reach : row * reach + size, column * reach : column * reach + size]
        code |= (neighbour > inner + CLEAR).astype(np.int64) << bit
    return np.bincount(code.ravel(), minlength=2 ** len(NEIGHBOURS)) / code.size


def holes(image: Floats) -> Floats:
    """Give the number of holes in the ink; of the largest the area and the centre; and the area outside.

    Holes are found as connected components. O(side²), many steps for each pixel.
    """
    ground = np.pad(image <= 0.4, 1, constant_values=True)  # so that all that is outside hangs together
    labels, count = ndimage.label(ground)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[2:] / image.size
    outside = np.count_nonzero(labels[1:-1, 1:-1] == 1) / image.size
    if not np.any(areas > SMALLEST_HOLE):
        return np.array([0.0, 0.0, 0.0, 0.0, outside])
    largest = int(np.argmax(areas))
    rows, columns = np.nonzero(labels[1:-1, 1:-1] == largest + 2)
    centre = (float(rows.mean() + 0.5) / len(image), float(columns.mean() + 0.5) / len(image))
    return np.array([np.count_nonzero(areas > SMALLEST_HOLE), areas[largest], *centre, outside])


def gradients(image: Floats) -> Floats:
    """Give histograms of gradient directions, weighted by strength, in the image's quarters. O(side²), the dearest."""
    down, right = np.gradient(image)
    sector = ((np.arctan2(down, right) + np.pi) * (DIRECTIONS / (2 * np.pi))).astype(np.int64) % DIRECTIONS
    half = np.arange(len(image)) * 2 // len(image)
    cell = (half[:, None] * 2 + half) * DIRECTIONS + sector
    strengths = np.bincount(cell.ravel(), np.hypot(down, right).ravel(), minlength=4 * DIRECTIONS)
    return np.asarray(strengths * (4 / len(image)))  # strength falls, and pixels grow in number, with the side
