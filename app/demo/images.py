"""Images of digits, and really trained classifiers of them on features of growing cost: what the demo runs.

Every classifier answers one image at a time, as a service would, with a class and a confidence that was calibrated on
images it did not train on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from models.arrays import Floats
from solvers import Progress

Features = Callable[[Floats], Floats]
SEED = 0
"""Every random choice of the demo follows from it."""
SPOTS = ((1, 3), (2, 5), (3, 2), (3, 4), (4, 4), (5, 2), (5, 5), (6, 3))
SHIFTS = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))


@dataclass(frozen=True, slots=True)
class DigitClassifier:
    """A trained classifier: its features, its model, and whether it looks at shifted copies too."""

    name: str
    group: str
    features: Features
    model: Any
    shifts: tuple[tuple[int, int], ...] = ((0, 0),)

    def answer(self, image: Floats) -> tuple[int, float]:
        """Give the class of one image, (8, 8), and how sure it is."""
        copies = np.stack([np.roll(image, shift, axis=(0, 1)) for shift in self.shifts])
        votes = self.model.predict_proba(self.features(copies)).mean(axis=0)
        best = int(np.argmax(votes))
        return int(self.model.classes_[best]), float(votes[best])


def probabilities(classifier: DigitClassifier, images: Floats) -> Floats:
    """Give how likely a classifier holds each class for each of many images, (n, 8, 8), at once: (n, classes)."""
    moved = [np.roll(images, shift, axis=(1, 2)) for shift in classifier.shifts]
    return np.asarray(np.mean([classifier.model.predict_proba(classifier.features(each)) for each in moved], axis=0))


@dataclass(frozen=True, slots=True)
class Split:
    """Images, (n, 8, 8), and labels: to train on, to trace on, and to run on in the end."""

    train: tuple[Floats, NDArray[np.int64]]
    trace: tuple[Floats, NDArray[np.int64]]
    final: tuple[Floats, NDArray[np.int64]]


def load_split(rng: np.random.Generator) -> Split:
    """Split the 1,797 images at random: two fifths to train, two fifths to trace, one fifth to run on."""
    digits = load_digits()
    order = rng.permutation(len(digits.images))
    images, labels = digits.images[order] / 16.0, digits.target[order]
    cuts = [len(order) * 2 // 5, len(order) * 4 // 5]
    (a, b, c), (x, y, z) = np.split(images, cuts), np.split(labels, cuts)
    return Split((a, x), (b, y), (c, z))


def resized(image: Floats, side: int) -> Floats:
    """Enlarge one image, (n, n), to (side, side), linear between the centres of its pixels."""
    size = len(image)
    at = (np.arange(side) + 0.5) * (size / side) - 0.5
    weights = np.stack([np.interp(at, np.arange(size), row) for row in np.eye(size)], axis=1)
    return np.asarray(weights @ image @ weights.T)


def spots(images: Floats) -> Floats:
    """Give eight pixels."""
    return np.stack([images[:, row, column] for row, column in SPOTS], axis=1)


def profiles(images: Floats) -> Floats:
    """Give the sums of rows and columns."""
    return np.concatenate([images.sum(axis=1), images.sum(axis=2)], axis=1)


def pixels(images: Floats) -> Floats:
    """Give all pixels."""
    return images.reshape(len(images), -1)


def gradients(images: Floats) -> Floats:
    """Give histograms of gradient directions in the four quarters of the image, beside the pixels."""
    down, right = np.gradient(images, axis=(1, 2))
    strength, direction = np.hypot(down, right), (np.arctan2(down, right) + np.pi) * (8 / (2 * np.pi))
    sector = np.minimum(direction.astype(int), 7)
    bins = [np.where(sector == k, strength, 0.0).reshape(len(images), 2, 4, 2, 4).sum(axis=(2, 4)) for k in range(8)]
    return np.concatenate([pixels(images), np.stack(bins, axis=-1).reshape(len(images), -1)], axis=1)


def untrained(seed: int) -> list[DigitClassifier]:
    """Name the classifiers, the cheapest first, the strongest last."""
    kernel = _scaled(_calibrated(SVC(C=10.0)))
    jury = VotingClassifier([("kernel", kernel), ("trees", _trees(200, seed))], voting="soft")
    return [
        DigitClassifier("spots-bayes", "pixels", spots, _calibrated(GaussianNB())),
        DigitClassifier("profiles-lda", "profiles", profiles, _calibrated(LinearDiscriminantAnalysis())),
        DigitClassifier("pixels-logistic", "pixels", pixels, _calibrated(_scaled(LogisticRegression(max_iter=300)))),
        DigitClassifier("pixels-neighbours", "pixels", pixels, _calibrated(KNeighborsClassifier(3))),
        DigitClassifier("gradients-logistic", "gradients", gradients, _calibrated(_scaled(LogisticRegression(C=0.3)))),
        DigitClassifier("gradients-kernel", "gradients", gradients, _calibrated(_scaled(SVC(C=10.0)))),
        DigitClassifier("pixels-forest", "pixels", pixels, _calibrated(_trees(80, seed))),
        DigitClassifier("jury", "jury", gradients, jury, SHIFTS),
    ]


def train(classifier: DigitClassifier, images: Floats, labels: NDArray[np.int64]) -> DigitClassifier:
    """Fit a classifier's model; one that looks at shifted copies learns from them too."""
    copies = np.concatenate([np.roll(images, shift, axis=(1, 2)) for shift in classifier.shifts])
    classifier.model.fit(classifier.features(copies), np.tile(labels, len(classifier.shifts)))
    return classifier


def _trees(count: int, seed: int) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(count, random_state=seed)


def _calibrated(model: Any) -> CalibratedClassifierCV:
    """Calibrate by cross-validation, so that no confidence comes from an image trained on; one model answers."""
    return CalibratedClassifierCV(model, method="sigmoid", cv=4, ensemble=False)


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def train_all(data: tuple[Floats, Any], progress: Progress) -> list[DigitClassifier]:
    """Train every classifier."""
    trained = []
    classifiers = untrained(SEED)
    for done, classifier in enumerate(classifiers):
        progress(done, len(classifiers), f"training {classifier.name}")
        trained.append(train(classifier, *data))
    return trained
