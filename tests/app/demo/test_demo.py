"""The demo's parts: features mean the same at every size, and the index part works from images to table."""

import json
from typing import Any

import numpy as np
import pytest

from app.building.worker import build_locally
from app.demo import index, run
from app.demo.image_features import Extractor, extractors
from app.demo.images import SEED, Split, load_split, resized
from app.demo.stage import Stage
from app.demo.timing import timed
from app.store.builds import checked_request
from app.store.repositories import Repositories
from models import ArtifactRecord
from models.arrays import Floats
from models.errors import ParsimonyError
from models.index import IndexQuery
from solvers import Progress, no_progress
from tests.support import stored

EXTRACTORS = pytest.mark.parametrize("extractor", extractors(), ids=lambda extractor: extractor.name)


@pytest.fixture(scope="module")
def split() -> Split:
    return load_split(np.random.default_rng(SEED))


def table(extractor: Extractor, images: Floats, side: int) -> Floats:
    return np.array([extractor.compute(resized(image, side)) for image in images])


def smaller(split: Split, count: int) -> Split:
    parts = ((images[:count], labels[:count]) for images, labels in (split.train, split.trace, split.final))
    return Split(*parts)


def test_an_image_is_enlarged_linearly_and_keeps_its_ink(split: Split) -> None:
    image = split.train[0][0]
    assert np.allclose(resized(image, 8), image)
    for side in (16, 48, 100):
        large = resized(image, side)
        assert large.shape == (side, side)
        assert large.min() >= image.min()
        assert large.max() <= image.max()
        assert abs(large.mean() - image.mean()) < 0.02
    assert np.allclose(resized(np.array([[0.0, 1.0], [0.0, 1.0]]), 4)[0], [0.0, 0.25, 0.75, 1.0])


@EXTRACTORS
@pytest.mark.parametrize("side", [8, 20, 32, 48, 100])
def test_features_have_their_width_at_every_size_and_leave_the_image_alone(
    extractor: Extractor, side: int, split: Split
) -> None:
    for image in (*(resized(each, side) for each in split.train[0][:5]), np.zeros((side, side)), np.ones((side, side))):
        before, values = image.copy(), extractor.compute(image)
        assert len(values) == extractor.width == len(extractor.columns)
        assert np.all(np.isfinite(values))
        assert np.array_equal(values, extractor.compute(image))
        assert np.array_equal(image, before)


@EXTRACTORS
def test_a_digit_has_nearly_the_same_features_at_two_sizes(extractor: Extractor, split: Split) -> None:
    """Nearly: by how far two sizes of one digit differ, against how far two digits differ."""
    images = split.train[0][:60]
    small, large = table(extractor, images, 48), table(extractor, images, 160)
    between = np.abs(large - np.roll(large, 1, axis=0)).mean()
    assert np.abs(large - small).mean() < 0.15 * between


def test_features_see_what_they_are_named_after() -> None:
    features = {extractor.name: extractor.compute for extractor in extractors()}
    ring = np.zeros((32, 32))
    ring[8:24, 8:24] = 1.0
    disc = ring.copy()
    ring[12:20, 12:20] = 0.0
    assert features["holes"](disc)[0] == 0
    assert features["holes"](ring)[:4].tolist() == [1, 1 / 16, 0.5, 0.5]
    assert features["moments"](ring)[:3] == pytest.approx([ring.mean(), 0.5, 0.5])
    assert features["lines"](ring)[6:].tolist() == [0, 2, 0, 0, 2, 0]
    assert features["profiles"](disc).tolist() == [0, 0, 0.5, 0.5, 0.5, 0.5, 0, 0] * 2
    assert features["patterns"](disc).sum() == pytest.approx(1)
    assert features["gradients"](disc).sum() > 0


def test_making_the_next_item_is_not_timed() -> None:
    answers, times = timed(lambda item: item + 1, iter([1, 2, 3]))
    assert answers == [2, 3, 4]
    assert times.shape == (3,)
    assert np.all(times >= 0)


def index_part(repos: Repositories, split: Split, progress: Progress) -> index.IndexOutcome:
    stage = Stage(split)
    index.store(repos, stage, progress)
    (request,) = index.REQUESTS
    record = build_locally(repos, request, checked_request(request)[1], no_progress)
    return index.run(repos, [record], stage, progress)


@pytest.mark.slow
def test_the_index_part_works_from_images_to_table(
    repos: Repositories, split: Split, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[tuple[int, int, str]] = []
    assert not repos.artifacts.has_artifact("index", index.ARTIFACT)
    outcome = index_part(repos, smaller(split, 120), lambda *step: steps.append(step))
    assert repos.artifacts.has_artifact("index", index.ARTIFACT)
    assert repos.artifacts.get_record("index", "digits-sizes") == outcome.record
    assert any("timing" in message for _, _, message in steps)
    check_rows(outcome)
    check_costs(repos, outcome)
    row = index.keep_to(repos.artifacts.load_plan(outcome.record), 0.0, 96, smaller(split, 60).final)
    assert (row.features, row.predicted_ms) == ((), 0)
    assert 0 <= row.accuracy < 0.4
    outcome.print()
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert json.loads(json.dumps(outcome.facts()))["index"]["images"] == 120


def check_rows(outcome: index.IndexOutcome) -> None:
    """Every decision promises to keep its budget, and larger budgets promise no less."""
    rows = {(row.budget_ms, row.side): row for row in outcome.rows}
    assert len(rows) == len(outcome.rows) == len(index.BUDGET_SHARES) * len(index.HELD_OUT_SIDES)
    assert all(row.predicted_ms <= row.budget_ms for row in outcome.rows)
    assert all(row.measured_mean_ms <= row.measured_maximum_ms for row in outcome.rows)
    assert outcome.exceeding == pytest.approx(1 - np.mean([row.within_budget for row in outcome.rows]))
    for side in index.HELD_OUT_SIDES:
        promised = [row.predicted_accuracy for row in outcome.rows if row.side == side]
        assert promised == sorted(promised)
    assert max(row.accuracy for row in outcome.rows) > 0.85


def check_costs(repos: Repositories, outcome: index.IndexOutcome) -> None:
    """Every feature was timed at every measured side, and the index prefers nothing that it cannot pay."""
    info = repos.datasets.get_info("digits-features")
    for feature in info.spec.model_dump()["features"]:
        assert {row[0] for row in feature["cost"]["timings"]} == set(index.MEASURED_SIDES)
    plan: Any = repos.artifacts.load_plan(outcome.record)
    nothing = plan.decide(IndexQuery(size=96.0, budget=0.0))
    assert (nothing.features, nothing.cost) == ((), 0.0)


class Fake:
    """A part of the demo that builds nothing, which is there, or has something left to build."""

    DATASET = "none"

    def __init__(self, name: str, *, there: bool) -> None:
        self.name, self.ran = name, 0
        self.REQUESTS = () if there else (stored.request(name),)

    def store(self, repos: Repositories, stage: Stage, progress: Progress) -> None:
        stored.put_trace(repos)

    def run(self, repos: Repositories, records: list[ArtifactRecord], stage: Stage, progress: Progress) -> "Fake":
        assert [record.name for record in records] == [request.name for request in self.REQUESTS]
        self.ran += 1
        return self

    def facts(self) -> dict[str, Any]:
        return {self.name: self.ran}

    def print(self) -> None:
        """Print nothing."""


@pytest.mark.parametrize(
    ("there", "if_missing", "ran"),
    [
        ((False, False), True, [1, 1]),
        ((True, False), True, [0, 1]),
        ((False, True), True, [1, 0]),
        ((True, True), True, [0, 0]),
        ((True, True), False, [1, 1]),
    ],
)
def test_only_what_is_missing_is_made_if_so_told(
    repos: Repositories,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    there: tuple[bool, bool],
    if_missing: bool,
    ran: list[int],
) -> None:
    fakes = [Fake("one", there=there[0]), Fake("two", there=there[1])]
    monkeypatch.setattr(run, "PARTS", tuple(fakes))
    run.run_demo(repos, if_missing=if_missing, as_json=True)
    assert [fake.ran for fake in fakes] == ran
    out, err = capsys.readouterr()
    assert ("are there" in err) == (not any(ran))
    facts = json.loads(out) if any(ran) else {"savings": {}}
    built = [f"cascade {fake.name}" for fake, there_already in zip(fakes, there, strict=True) if not there_already]
    assert list(facts.pop("savings")) == built
    assert facts == {fake.name: 1 for fake in fakes if fake.ran}


def test_what_is_missing_is_queued_once_and_its_dataset_stored_once(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that is stopped in between goes on where it was."""
    one, two = Fake("one", there=False), Fake("two", there=True)
    monkeypatch.setattr(run, "PARTS", (one, two))
    first = run.prepare_demo(repos, no_progress)
    assert [build.name for build in first] == ["one"]
    assert [build.id for build in run.prepare_demo(repos, no_progress)] == [first[0].id]
    repos.builds.cancel(first[0].id)
    assert [build.name for build in run.prepare_demo(repos, no_progress)] == ["one"]


def test_the_demo_is_followed_until_all_its_builds_have_ended_and_one_that_is_cancelled_made_nothing(
    repos: Repositories,
) -> None:
    messages: list[str] = []
    stored.put_trace(repos)
    build = repos.builds.enqueue_build(stored.request())

    def progress(done: int, total: int, message: str) -> None:
        messages.append(f"{done}/{total} {message}")
        repos.builds.cancel(build.id)

    with pytest.raises(ParsimonyError, match="cascade plan: cancelled"):
        run.follow(repos, [build], progress)
    assert [message.split()[0] for message in messages] == ["0/1", "1/1"]
    failed = repos.builds.enqueue_build(stored.request())
    repos.builds.end_build(failed.id, "failed", "ran out of memory")
    with pytest.raises(ParsimonyError, match="cascade plan: ran out of memory"):
        run.follow(repos, [failed], no_progress)
