"""The demo: its worlds are deterministic, its servers agree with its traces, and its builds are queued once."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.demo import generated_tables, run, simulated_models
from app.demo.demo_datasets import PARTS, DemoDataset, DigitExperiment
from app.demo.demo_table import DemoTable
from app.demo.images import SMALL_SHIFTS, DigitClassifier, split_images
from app.demo.servers import list_endpoints, make_application
from app.demo.timing import measure_times
from app.store.repositories import Repositories
from models import FeatureTable, Trace
from models.errors import ParsimonyError
from solvers import no_progress
from tests.support import stored


def test_images_are_split_by_original_and_half_of_the_copies_are_moved() -> None:
    training, trace, unseen = split_images(np.random.default_rng(0))
    originals = [set(images.originals.tolist()) for images in (training, trace, unseen)]
    assert [len(each) for each in originals] == [500, 947, 350]
    assert not originals[0] & originals[1] | originals[0] & originals[2] | originals[1] & originals[2]
    assert len(trace.digits) == 3 * 947
    assert trace.pixels.min() >= 0
    assert trace.pixels.max() <= 1
    again = split_images(np.random.default_rng(0))[1]
    assert np.array_equal(again.pixels, trace.pixels)


class Brightness:
    """A model of two classes, whose probabilities depend on the mean pixel only."""

    classes_ = np.array([0, 1])

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        bright = features.mean(axis=1)
        return np.column_stack((1 - bright, bright))


def _classifier() -> DigitClassifier:
    return DigitClassifier("one", lambda images: images.reshape(len(images), -1), Brightness(), shifts=SMALL_SHIFTS)


def test_one_image_is_classified_as_many_are() -> None:
    images = np.random.default_rng(1).random((5, 8, 8))
    many = _classifier().predict_probabilities(images)
    for image, shares in zip(images, many, strict=True):
        digit, confidence = _classifier().classify(image)
        assert digit == shares.argmax()
        assert confidence == pytest.approx(shares.max())


def test_times_are_positive_and_one_per_item() -> None:
    times = measure_times(lambda item: item + 1, iter([1, 2, 3]))
    assert times.shape == (3,)
    assert np.all(times >= 0)


def test_prompts_differ_and_replies_repeat() -> None:
    prompts = simulated_models.make_prompts(300, np.random.default_rng(3))
    assert len(set(prompts)) == 300
    for model in simulated_models.MODELS:
        replies = [model.answer_prompt(prompt) for prompt in prompts]
        assert replies == [model.answer_prompt(prompt) for prompt in prompts]
        assert all(0 < reply.confidence < 1 for reply in replies)
        assert all(reply.output_tokens <= 256 for reply in replies)


def test_the_strongest_model_is_the_most_accurate_and_the_most_expensive() -> None:
    prompts = simulated_models.make_prompts(1000, np.random.default_rng(4))
    outcomes = [[model.answer_prompt(prompt) for prompt in prompts] for model in simulated_models.MODELS]
    accuracies = [np.mean([reply.correct for reply in replies]) for replies in outcomes]
    costs = [np.mean([reply.cost for reply in replies]) for replies in outcomes]
    assert accuracies == sorted(accuracies)
    assert costs == sorted(costs)


@pytest.mark.parametrize("is_confident", [False, True])
def test_a_trace_of_prompts_has_the_replies_of_all_models(is_confident: bool) -> None:
    prompts = simulated_models.make_prompts(20, np.random.default_rng(5))
    trace = simulated_models.make_prompt_trace(prompts, has_confidences=is_confident).to_dataset()
    assert isinstance(trace, Trace)
    for at, model in enumerate(simulated_models.MODELS):
        replies = [model.answer_prompt(prompt) for prompt in prompts]
        assert trace.quality[:, at].tolist() == [float(reply.correct) for reply in replies]
        assert trace.costs[:, at].tolist() == [reply.cost for reply in replies]
        assert np.isnan(trace.confidences[:, at]).all() != is_confident
    assert trace.embeddings.shape == (20, simulated_models.EMBEDDING_COLUMNS)


def test_servers_answer_as_the_traces_say() -> None:
    client = TestClient(make_application([_classifier()]))
    image = np.random.default_rng(6).random((8, 8))
    digit, confidence = _classifier().classify(image)
    for sent in (image.ravel().tolist(), json.dumps(image.ravel().tolist())):
        reply = client.post("/classifiers/one", json={"image": sent}).json()
        assert (reply["label"], reply["confidence"]) == (str(digit), pytest.approx(confidence))
    prompt = simulated_models.make_prompts(1, np.random.default_rng(7))[0]
    for model in simulated_models.MODELS:
        body = {"model": model.name, "messages": [{"role": "user", "content": prompt}]}
        chat = client.post("/llms/v1/chat/completions", json=body).json()
        expected = model.answer_prompt(prompt)
        assert chat["choices"][0]["message"]["content"] == expected.text
        assert np.exp(chat["choices"][0]["logprobs"]["content"][0]["logprob"]) == pytest.approx(expected.confidence)
        assert chat["usage"]["completion_tokens"] == expected.output_tokens
    embedded = client.post("/llms/v1/embeddings", json={"model": "embedder", "input": [prompt, "x"]}).json()
    assert embedded["data"][0]["embedding"] == pytest.approx(simulated_models.embed_text(prompt).tolist())
    assert [each["index"] for each in embedded["data"]] == [0, 1]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/classifiers/two", {"image": [0.0] * 64}, 404),
        ("/classifiers/one", {"image": [0.0] * 63}, 422),
        ("/classifiers/one", {"image": [2.0] * 64}, 422),
        ("/classifiers/one", {}, 422),
        ("/llms/v1/chat/completions", {"model": "huge", "messages": [{"role": "user", "content": "x"}]}, 404),
    ],
)
def test_servers_refuse_what_they_do_not_know(path: str, body: dict[str, object], status: int) -> None:
    assert TestClient(make_application([_classifier()])).post(path, json=body).status_code == status


def test_each_classifier_of_a_trace_has_an_endpoint() -> None:
    names = set(list_endpoints([_classifier()], 1))
    assert names == {"one", "small", "medium", "large", "embedder"}


def test_documents_cost_by_page_and_welds_by_inspection() -> None:
    documents, welds = (
        make(50, np.random.default_rng(8)) for make in (generated_tables.make_documents, generated_tables.make_welds)
    )
    first, second = documents.to_dataset(), welds.to_dataset()
    assert isinstance(first, FeatureTable)
    assert isinstance(second, FeatureTable)
    assert first.sizes.min() >= 1
    assert first.sizes.max() <= 100
    assert len(second.spec.features) == len(generated_tables.INSPECTIONS)
    items = documents.to_items()
    assert items.sizes == tuple(first.sizes[:, 0].tolist())
    assert set(items.truths) == set(generated_tables.CLASSES.tolist())


def test_parts_have_different_datasets_and_artifacts() -> None:
    assert len({part.dataset for part in PARTS}) == len(PARTS)
    built = [(request.kind, request.name) for part in PARTS for request in part.requests]
    assert len(set(built)) == len(built) >= 7


def make_part(name: str) -> DemoDataset:
    """Return a part with a small trace and one build."""
    return DemoDataset(name, name, {"cascade": {}}, lambda *_: llm_trace())


def llm_trace() -> DemoTable:
    prompts = simulated_models.make_prompts(120, np.random.default_rng(9))
    return simulated_models.make_prompt_trace(prompts, has_confidences=True)


@pytest.mark.slow
def test_each_artifact_is_checked_on_unseen_rows(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "PARTS", (make_part("one"), make_part("two")))
    run.run_demo(repos, if_missing=False, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["name"], each["unseen"]["items"]) for each in found] == [
        ("cascade", "one", 120),
        ("cascade", "two", 120),
    ]
    run.run_demo(repos, if_missing=True, as_json=True)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(run, "PARTS", (make_part("one"), make_part("three")))
    run.run_demo(repos, if_missing=True, as_json=False)
    printed = capsys.readouterr().out
    assert "three" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_missing_builds_are_queued_once_after_the_users_own(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PARTS", (make_part("one"),))
    first = run.prepare_demo(repos, DigitExperiment(), no_progress)
    assert [build.name for build in first] == ["one"]
    own = repos.builds.enqueue_build(stored.request("own").model_copy(update={"dataset": "one"}))
    places = [repos.builds.get(build.id).progress.message.split()[1] for build in (own, first[0])]
    assert places == ["1", "2"]
    assert [build.id for build in run.prepare_demo(repos, DigitExperiment(), no_progress)] == [first[0].id]
    repos.builds.cancel(first[0].id)
    assert [build.name for build in run.prepare_demo(repos, DigitExperiment(), no_progress)] == ["one"]


def test_the_demo_is_followed_until_all_its_builds_have_ended(repos: Repositories) -> None:
    messages: list[tuple[int, int]] = []
    stored.put_trace(repos)
    build = repos.builds.enqueue_build(stored.request())

    def progress(done: int, total: int, message: str) -> None:
        messages.append((done, total))
        repos.builds.cancel(build.id)

    with pytest.raises(ParsimonyError, match="cascade plan: cancelled"):
        run.follow_builds(repos, [build], progress)
    assert messages == [(0, 1), (1, 1)]
    failed = repos.builds.enqueue_build(stored.request())
    repos.builds.end_build(failed.id, "failed", "ran out of memory")
    with pytest.raises(ParsimonyError, match="cascade plan: ran out of memory"):
        run.follow_builds(repos, [failed], no_progress)
