"""LiteLLM's proxy, from PyPI, in an environment of its own under ``.cache``, made when it is first asked for.

It starts with a key only, which is drawn here, given to it as its own settings take it, and sent with each request.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from tests.support.servers import environment, free_port

VERSION = "1.108.7"
START_S = 120.0
HERE = Path(__file__).parents[2] / ".cache" / "litellm"


def program() -> Path:
    """Give the proxy's program; makes its environment if there is none."""
    made = HERE / VERSION / "bin" / "litellm"
    if not made.exists():
        uv = Path(sys.executable).parent / "uv"
        cache = {"UV_CACHE_DIR": str(HERE.parent / "uv")}
        for command in (
            ["venv", "--quiet", "--clear", "--python", sys.executable, str(HERE / VERSION)],
            ["pip", "install", "--quiet", "--python", str(HERE / VERSION / "bin/python"), f"litellm[proxy]=={VERSION}"],
        ):
            subprocess.run([uv, *command], check=True, env=os.environ | cache)
    return made


@contextmanager
def running_litellm(target: str, folder: Path, key: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run it on a free port in front of a model behind OpenAI's chat API, ``target``, until the block ends."""
    port, config = free_port(), folder / "litellm.yaml"
    model = f'{{model: openai/fast, api_base: "{target}", api_key: none}}'
    config.write_text(f"model_list: [{{model_name: fast, litellm_params: {model}}}]")
    options = f"--host 127.0.0.1 --port {port} --telemetry False --config"
    command = [str(program()), *options.split(), str(config)]
    variables = environment(folder) | {"LITELLM_MASTER_KEY": key, "LITELLM_LOG": "ERROR"}
    log = folder / "litellm.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + START_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"LiteLLM's proxy does not answer:\n{log.read_text()[-2000:]}")
            time.sleep(0.5)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait(timeout=20)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
