"""Noisy digit images, and classifiers of increasing cost trained on them.

Half of the images are shifted. Data: the 1,797 digits of scikit-learn (UCI, Optical Recognition of Handwritten
Digits).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models.arrays import Floats
from solvers import Progress

SEED = 0
"""Every random choice of the demo follows from it."""
TRAINING_IMAGES, TRACE_IMAGES = 500, 947
"""The remaining 350 images are for the check of what was promised."""
COPIES = 3
"""Copies of each image in the trace, each moved and noisy in its own way."""
DISTANCE_SHARES = (0.5, 0.3, 0.2)
"""Shares of images moved by 0, 1, and 2 pixels."""
NOISE = 0.06
SMALL_SHIFTS = tuple((down, right) for down in range(-1, 2) for right in range(-1, 2))
LARGE_SHIFTS = tuple((down, right) for down in range(-2, 3) for right in range(-2, 3))
Shifts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Images:
    """Images, (n, 8, 8) from 0 to 1, their digits, and each copy's original."""

    pixels: Floats
    digits: NDArray[np.int64]
    originals: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DigitClassifier:
    """A trained classifier.

    Attributes:
        name: its name in the trace.
        features: computes features from images.
        model: a model of scikit-learn.
        trained_shifts: shifts of the training images.
        shifts: shifts of an image; probabilities are means over all shifted images.
    """

    name: str
    features: Callable[[Floats], Floats]
    model: Any
    trained_shifts: Shifts = ((0, 0),)
    shifts: Shifts = ((0, 0),)

    def predict_probabilities(self, images: Floats) -> Floats:
        """Return the probability of each digit, (n, 10), of images (n, 8, 8)."""
        moved = [self.model.predict_proba(self.features(_shifted(images, shift))) for shift in self.shifts]
        return np.asarray(np.mean(moved, axis=0))

    def classify(self, image: Floats) -> tuple[int, float]:
        """Return the digit on one image, (8, 8), and the confidence."""
        copies = np.stack([np.roll(image, shift, axis=(0, 1)) for shift in self.shifts])
        probabilities = self.model.predict_proba(self.features(copies)).mean(axis=0)
        best = int(np.argmax(probabilities))
        return best, float(probabilities[best])


def split_images(rng: np.random.Generator) -> tuple[Images, Images, Images]:
    """Return clean training images, images of the trace, and unseen images.

    The last two have shifted and noisy copies.
    """
    digits = load_digits()
    order = rng.permutation(len(digits.images))
    images, labels = digits.images[order] / 16.0, digits.target[order]
    training, trace, fresh = np.split(np.arange(len(order)), np.cumsum([TRAINING_IMAGES, TRACE_IMAGES]))
    return (
        Images(_noisy(images[training], rng), labels[training], training),
        _distorted(images[trace], labels[trace], trace, rng),
        _distorted(images[fresh], labels[fresh], fresh, rng),
    )


def _distorted(images: Floats, labels: NDArray[np.int64], rows: NDArray[np.int64], rng: np.random.Generator) -> Images:
    copies = np.repeat(images, COPIES, axis=0)
    for at, distance in enumerate(rng.choice(len(DISTANCE_SHARES), len(copies), p=DISTANCE_SHARES).tolist()):
        shift = rng.permutation([distance, rng.integers(distance + 1)]) * rng.choice([-1, 1], 2)
        copies[at] = np.roll(copies[at], shift, axis=(0, 1))
    return Images(_noisy(copies, rng), np.repeat(labels, COPIES), np.repeat(rows, COPIES))


def _noisy(images: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(np.clip(images + NOISE * rng.normal(size=images.shape), 0, 1))


def train_classifiers(images: Images, progress: Progress) -> list[DigitClassifier]:
    """Train the classifiers, the cheapest first."""
    classifiers = _untrained()
    for done, each in enumerate(classifiers):
        progress(done, len(classifiers), f"training {each.name}")
        moved = np.concatenate([_shifted(images.pixels, shift) for shift in each.trained_shifts])
        each.model.fit(each.features(moved), np.tile(images.digits, len(each.trained_shifts)))
    return classifiers


def _untrained() -> list[DigitClassifier]:
    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    neighbors = KNeighborsClassifier(100, weights=_weigh_neighbors)
    small = ExtraTreesClassifier(200, random_state=SEED)
    large = ExtraTreesClassifier(600, bootstrap=True, max_samples=0.4, random_state=SEED)
    return [
        DigitClassifier("logistic", _flat, _calibrated(logistic)),
        DigitClassifier("neighbors", _flat, _calibrated(neighbors), SMALL_SHIFTS),
        DigitClassifier("small-jury", _gradients, small, SMALL_SHIFTS, SMALL_SHIFTS),
        DigitClassifier("large-jury", _gradients, large, LARGE_SHIFTS, LARGE_SHIFTS),
    ]


def _weigh_neighbors(distances: Floats) -> Floats:
    return np.exp(-(distances**2))


def _calibrated(model: Any) -> CalibratedClassifierCV:
    """Calibrate by cross-validation, so that no confidence is from a training image.

    A single model answers.
    """
    return CalibratedClassifierCV(model, method="sigmoid", cv=4, ensemble=False)


def _shifted(images: Floats, shift: tuple[int, int]) -> Floats:
    return np.roll(images, shift, axis=(1, 2))


def _flat(images: Floats) -> Floats:
    return images.reshape(len(images), -1)


def _gradients(images: Floats) -> Floats:
    """Return the pixels, and histograms of gradient directions in the four quarters of each image."""
    down, right = np.gradient(images, axis=(1, 2))
    strength, direction = np.hypot(down, right), (np.arctan2(down, right) + np.pi) * (8 / (2 * np.pi))
    sector = np.minimum(direction.astype(int), 7)
    bins = [np.where(sector == k, strength, 0.0).reshape(len(images), 2, 4, 2, 4).sum(axis=(2, 4)) for k in range(8)]
    return np.concatenate([_flat(images), np.stack(bins, axis=-1).reshape(len(images), -1)], axis=1)
