"""Parts of the demo: datasets, builds, and unseen rows to check estimates.

The parts are simulated language models with servers, classifiers of real images, and two simulated tables. Neither
holdout rows of the builds nor unseen rows are used for tuning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.demo import generated_tables, simulated_models
from app.demo.demo_table import DemoTable
from app.demo.digits import EMBEDDING_CLASSIFIER, make_image_trace, predict_all, time_classifiers
from app.demo.images import SEED, DigitClassifier, Images, split_images, train_classifiers
from models import BuildRequest
from models.arrays import Floats
from solvers import Progress

ROWS = 2000
"""Rows of each simulated world."""
UNSEEN_SEED = SEED + 1


@dataclass(slots=True)
class DigitExperiment:
    """Images and classifiers of digits, which are trained and timed at first use."""

    images: tuple[Images, Images, Images] = field(default_factory=lambda: split_images(np.random.default_rng(SEED)))
    _classifiers: list[DigitClassifier] = field(default_factory=list)
    _times: dict[str, Floats] = field(default_factory=dict)
    _probabilities: dict[int, dict[str, Floats]] = field(default_factory=dict)

    def get_classifiers(self, progress: Progress) -> list[DigitClassifier]:
        """Return the trained classifiers, cheapest first."""
        if not self._classifiers:
            self._classifiers = train_classifiers(self.images[0], progress)
        return self._classifiers

    def make_table(self, progress: Progress, *, is_unseen: bool, is_embedded: bool) -> DemoTable:
        """Return the trace of the demo's logged images or, with ``is_unseen``, of unseen images."""
        images, classifiers = self.images[1 + is_unseen], self.get_classifiers(progress)
        if not self._times:
            self._times = time_classifiers(classifiers, images, progress)
        if is_unseen not in self._probabilities:
            self._probabilities[is_unseen] = predict_all(classifiers, images, progress)
        return make_image_trace(images, self._probabilities[is_unseen], self._times, is_embedded=is_embedded)


Make = Callable[[DigitExperiment, Progress, bool], DemoTable]
"""Returns the rows of a part, or unseen ones of the same kind."""


@dataclass(frozen=True, slots=True)
class DemoDataset:
    """A dataset and the builds from it.

    Attributes:
        dataset: name of the dataset.
        artifact: name of all artifacts built from the dataset.
        params: parameters of the build of each kind.
        make: returns the rows of the dataset.
    """

    dataset: str
    artifact: str
    params: Mapping[str, Mapping[str, str]]
    make: Make

    @property
    def requests(self) -> tuple[BuildRequest, ...]:
        """Requests of the builds of the dataset."""
        return tuple(
            BuildRequest(kind=kind, name=self.artifact, dataset=self.dataset, params=dict(own), seed=SEED)
            for kind, own in self.params.items()
        )


def _make_rng(is_unseen: bool) -> np.random.Generator:
    return np.random.default_rng(UNSEEN_SEED if is_unseen else SEED)


def _simulate(make: Callable[[int, np.random.Generator], DemoTable]) -> Make:
    """Return rows of a simulated world; nothing is measured."""
    return lambda _world, _progress, is_unseen: make(ROWS, _make_rng(is_unseen))


def _classify_digits(*, is_embedded: bool) -> Make:
    return lambda world, progress, is_unseen: world.make_table(progress, is_unseen=is_unseen, is_embedded=is_embedded)


def _trace_prompts(*, has_confidences: bool) -> Make:
    return _simulate(
        lambda count, rng: simulated_models.make_prompt_trace(
            simulated_models.make_prompts(count, rng), has_confidences=has_confidences
        )
    )


_EMBEDDER = {"embedder": simulated_models.EMBEDDER}
_FEATURES = {"feature_classifier": EMBEDDING_CLASSIFIER}
PARTS = (
    DemoDataset("welds", "welds", {"pipeline": {}}, _simulate(generated_tables.make_welds)),
    DemoDataset("prompts", "prompts", {"cascade": {}, "policy": _EMBEDDER}, _trace_prompts(has_confidences=True)),
    DemoDataset("documents", "documents", {"index": {}}, _simulate(generated_tables.make_documents)),
    DemoDataset("prompts-embedded", "prompts", {"portfolio": _EMBEDDER}, _trace_prompts(has_confidences=False)),
    DemoDataset("digits", "digits", {"cascade": {}, "policy": {}}, _classify_digits(is_embedded=False)),
    DemoDataset("digits-embedded", "digits", {"portfolio": _FEATURES}, _classify_digits(is_embedded=True)),
)
"""Fast ones first: there is something to look at within seconds."""
