"""A real MLServer with a really trained model stands behind ``open-inference``."""

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.app.running.test_endpoint_caller import called
from tests.support.mlserver_process import PYTHON, running_mlserver

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="MLServer is not installed: make mlserver"),
]
LABELS = [str(digit) for digit in range(10)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[list[float]]]]:
    with running_mlserver(tmp_path_factory.mktemp("mlserver")) as served:
        yield served


def test_its_probabilities_are_what_the_model_says(served: tuple[str, list[list[float]]]) -> None:
    url, expected = served
    shape = {"model": "digits", "input": "predict", "probabilities_output": "predict_proba", "labels": LABELS}
    endpoint = {"protocol": "open-inference", "url": url, **shape}
    for row, shares in enumerate(expected):
        (heard,) = called({"digits": endpoint}, "digits", load_digits().data[700 + row].tolist())
        assert heard.error is None, heard.error
        assert heard.label == LABELS[int(np.argmax(shares))]
        assert [heard.scores[name] for name in LABELS] == pytest.approx(shares)  # type: ignore[index]


def test_its_refusals_are_told(served: tuple[str, list[list[float]]]) -> None:
    url, _ = served
    endpoint = {
        "protocol": "open-inference",
        "url": url,
        "model": "digits",
        "label_output": "predict",
        "labels": LABELS,
    }
    short, *_ = called({"digits": endpoint}, "digits", [1.0, 2.0])
    assert (short.label, short.error is not None and "answered" in short.error) == (None, True)
    nobody, *_ = called({"digits": endpoint | {"model": "nobody"}}, "digits", [0.0] * 64)
    assert nobody.error == "answered 404"
