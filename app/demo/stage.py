"""What the demo's parts share: the images, the classifiers, and what a part is."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from app.demo.images import DigitClassifier, Split, train_all
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest
from solvers import Progress


@dataclass(slots=True)
class Stage:
    """The images, and the classifiers, which the first part that needs them trains."""

    split: Split
    _trained: list[DigitClassifier] = field(default_factory=list)

    def classifiers(self, progress: Progress) -> list[DigitClassifier]:
        """Give the trained classifiers, the cheapest first."""
        if not self._trained:
            self._trained = train_all(self.split.train, progress)
        return self._trained


class Outcome(Protocol):
    """What a part of the demo found when it did what its artifacts decide."""

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        ...

    def print(self) -> None:
        """Print it for people."""
        ...


class Part(Protocol):
    """A part of the demo; each module of this room that is named after a kind is one."""

    @property
    def DATASET(self) -> str:
        """The dataset that it stores."""
        ...

    @property
    def REQUESTS(self) -> tuple[BuildRequest, ...]:
        """What is to be built from it."""
        ...

    def store(self, repos: Repositories, stage: Stage, progress: Progress) -> None:
        """Measure on this machine, and store the dataset."""
        ...

    def run(self, repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> Outcome:
        """Do what the artifacts that were built decide."""
        ...
