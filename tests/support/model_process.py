"""Runs the server of trained classifiers as a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.patience import patient
from tests.support.servers import free_port, wait_for


class ModelServer:
    """The process, and its switches."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=patient(10), trust_env=False)

    def close(self) -> None:
        self._client.close()

    def switch(self, **faults: str) -> None:
        """Switch faults on, by classifier, the others off; counting begins anew."""
        self._client.put("/faults", json=faults)

    def counted(self) -> dict[str, Any]:
        """Tell what was called, what was answered and who left before, by classifier."""
        counted: dict[str, Any] = self._client.get("/calls").json()
        return counted

    def answers(self) -> bool:
        try:
            return self._client.get("/calls").status_code == 200
        except httpx.TransportError:
            return False

    def json_endpoint(self, name: str, **changes: Any) -> dict[str, Any]:
        shape = {"body": {"pixels": "{{item}}"}, "label": "/answer/label", "confidence": "/answer/sure"}
        return {"protocol": "json", "url": f"{self.url}/json/{name}", **shape, **changes}

    def inference_endpoint(self, name: str, **changes: Any) -> dict[str, Any]:
        """Give the endpoint of a classifier, in the Open Inference Protocol."""
        labels = [str(digit) for digit in range(10)]
        shape = {"model": name, "probabilities_output": "probabilities", "labels": labels}
        return {"protocol": "open-inference", "url": self.url, **shape, **changes}

    def chat_endpoint(self, name: str, **changes: Any) -> dict[str, Any]:
        answer = {"kind": "choice", "labels": [str(digit) for digit in range(10)]}
        return {"protocol": "openai-chat", "url": self.url, "model": name, "answer": answer, **changes}


@contextmanager
def running_models() -> Iterator[ModelServer]:
    port = free_port()
    command = [sys.executable, "-m", "tests.support.model_server", str(port)]
    with subprocess.Popen(command) as process:
        server = ModelServer(port)
        try:
            wait_for(server.answers, 60, "the model server does not answer")
            yield server
        finally:
            server.close()
            process.terminate()
