"""MLServer, from PyPI, in an environment of its own: ``make mlserver`` makes it under ``.cache``."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.patience import patient
from tests.support.servers import environment, free_port, wait_for

PYTHON = Path(__file__).parents[2] / ".cache" / "mlserver" / "bin" / "python"
_TRAIN = """
import json, sys
import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
data = load_digits()
model = LogisticRegression(C=0.01, max_iter=1000).fit(data.data[:700], data.target[:700])
joblib.dump(model, sys.argv[1])
print(json.dumps(model.predict_proba(data.data[700:720]).tolist()))
"""
"""It trains with its own scikit-learn, and tells what the model says to images that it did not learn from."""


@contextmanager
def running_mlserver(folder: Path) -> Iterator[tuple[str, list[list[float]]]]:
    """Train a model, serve it until the block ends; gives the server's address, and the probabilities of 20 images."""
    served = folder / "digits"
    served.mkdir()
    trained = subprocess.run(
        [PYTHON, "-c", _TRAIN, served / "model.joblib"], check=True, capture_output=True, text=True, cwd=folder
    )
    port = free_port()
    settings: dict[str, Any] = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(), "debug": False}
    settings |= {"metrics_port": free_port(), "parallel_workers": 0}
    (folder / "settings.json").write_text(json.dumps(settings))
    about = {"name": "digits", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": {"uri": "model.joblib"}}
    (served / "model-settings.json").write_text(json.dumps(about))
    log, url = folder / "mlserver.log", f"http://127.0.0.1:{port}"
    with log.open("w") as output:
        command = [str(PYTHON.parent / "mlserver"), "start", str(folder)]
        process = subprocess.Popen(
            command, env=environment(folder), cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: _is_ready(url), 60, lambda: log.read_text()[-3000:])
        yield url, json.loads(trained.stdout)
    finally:
        process.terminate()
        process.wait(timeout=patient(20))


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/models/digits/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
