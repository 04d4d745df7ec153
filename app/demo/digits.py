"""Traces of digit classifiers, with times measured on this machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.demo.demo_table import DemoTable
from app.demo.images import SEED, DigitClassifier, Images
from app.demo.timing import measure_times, reduce_timing_noise
from models import TraceSpec
from models.arrays import Floats
from solvers import Progress

EMBEDDING_CLASSIFIER = "neighbors"
"""The classifier whose probabilities are the portfolio's embedding."""
TIMED_IMAGES = 60


def time_classifiers(classifiers: list[DigitClassifier], images: Images, progress: Progress) -> dict[str, Floats]:
    """Return times of answers, one image at a time, in ms, by classifier."""
    times = {}
    with reduce_timing_noise():
        for done, each in enumerate(classifiers):
            progress(done, len(classifiers), f"timing {each.name}")
            times[each.name] = measure_times(each.classify, images.pixels[:TIMED_IMAGES])
    return times


def predict_all(classifiers: list[DigitClassifier], images: Images, progress: Progress) -> dict[str, Floats]:
    """Return the probabilities of each classifier, (n, 10)."""
    probabilities = {}
    for done, each in enumerate(classifiers):
        progress(done, len(classifiers), f"classifying {len(images.digits):,} images with {each.name}")
        probabilities[each.name] = each.predict_probabilities(images.pixels)
    return probabilities


def make_image_trace(
    images: Images, probabilities: dict[str, Floats], times: dict[str, Floats], *, is_embedded: bool
) -> DemoTable:
    """Return the trace of all classifiers on images; copies of an image are one item.

    Args:
        images: (n, 8, 8).
        probabilities: (n, 10), by classifier.
        times: measured times in ms, by classifier; each row gets one of these times, drawn at random.
        is_embedded: whether the trace has embeddings; otherwise it has confidences.
    """
    rng, n = np.random.default_rng(SEED), len(images.digits)
    columns: dict[str, NDArray[Any]] = {"digit": images.digits, "image": images.originals}
    classifiers = []
    for name, shares in probabilities.items():
        columns |= {f"{name}.label": shares.argmax(axis=1), f"{name}.confidence": shares.max(axis=1)}
        columns[f"{name}.cost"] = rng.choice(times[name], n)
        fields = {"prediction": f"{name}.label"} | ({} if is_embedded else {"confidence": f"{name}.confidence"})
        classifiers.append({"name": name, "cost": {"column": f"{name}.cost"}, **fields})
    spec = {"kind": "trace", "label": "digit", "item": "image", "unit": "ms", "classifiers": classifiers}
    embeddings = probabilities[EMBEDDING_CLASSIFIER].astype(np.float32) if is_embedded else None
    return DemoTable(TraceSpec.model_validate(spec), columns, embeddings)
