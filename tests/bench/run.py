"""What running costs: a chat through an artifact beside one through a bare proxy of the same HTTP library.

Both pass the chat on to the same model, which answers at once. Each server is a process on one core; rounds alternate.
What counts is the CPU time of the server's process for a request, and the time that is added to a caller's wait.

``parsimony bench run --litellm``: LiteLLM's proxy too, in the same rounds; then it and Parsimony both check a key.
"""

import argparse
import asyncio
import os
import secrets
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
from rich.table import Table

from tests.bench._applications import running_application
from tests.bench._litellm import running_litellm
from tests.bench._rounds import print_table
from tests.conftest import upload
from tests.support.servers import running_server

REQUESTS = 1500
AT_ONCE = 8
ROUNDS = 5
MESSAGES = [{"role": "user", "content": "which animal is it?"}]
Round = tuple[float, list[float]]
"""CPU of a request, in µs, and how long each took, in ms."""


@dataclass(frozen=True)
class Through:
    """What chats are sent through. chats: how many a round; LiteLLM takes long for each."""

    process: psutil.Process | None
    port: int
    model: str = "fast"
    chats: int = REQUESTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench run", description=__doc__)
    parser.add_argument("--litellm", action="store_true", help="measure LiteLLM's proxy, too; installs it from PyPI")
    with_litellm = parser.parse_args().litellm
    key = f"sk-{secrets.token_urlsafe(32)}" if with_litellm else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        _, model = stack.enter_context(running_application("tests.bench._run_apps:model", folder))
        target = f"http://127.0.0.1:{model}/v1"
        settings: dict[str, Any] = {"endpoint_hosts": "127.0.0.1", "log_level": "warning"}
        if key is not None:
            settings["api_keys"] = f"{key}:build"
        server = stack.enter_context(running_server(folder / "service", **settings))
        server.client.headers.update(_headers(key))
        upload(server)
        for name in ("fast", "middle", "strong"):
            endpoint = {"protocol": "openai-chat", "url": target, "model": name}
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        proxy = stack.enter_context(
            running_application("tests.bench._run_apps:proxy", folder, BENCH_MODEL=f"{target}/chat/completions")
        )
        servers = {
            "the model itself": Through(None, model),
            "a bare proxy": Through(*proxy),
            "Parsimony, a cascade": Through(psutil.Process(server.process.pid), server.port, "cascade/trace"),
        }
        if key is not None:
            litellm = stack.enter_context(running_litellm(target, folder, key))
            servers[f"LiteLLM's proxy, {REQUESTS // 5}"] = Through(*litellm, chats=REQUESTS // 5)
        rounds: dict[str, list[Round]] = {name: [] for name in servers}
        for number in range(ROUNDS + 1):
            for name, through in servers.items():
                one = asyncio.run(send_round(through, key))
                if number:  # the first one warms up
                    rounds[name].append(one)
    _print(rounds)


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


async def send_round(through: Through, key: str | None) -> Round:
    url, waits = f"http://127.0.0.1:{through.port}/v1/chat/completions", list[float]()
    chat = {"model": through.model, "messages": MESSAGES}
    async with aiohttp.ClientSession(headers=_headers(key)) as session:

        async def ask(count: int) -> None:
            for _ in range(count):
                begun = time.perf_counter()
                async with session.post(url, json=chat) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()
                waits.append(1000 * (time.perf_counter() - begun))

        before = _cpu(through.process)
        await asyncio.gather(*(ask(through.chats // AT_ONCE) for _ in range(AT_ONCE)))
        return (_cpu(through.process) - before) / len(waits) * 1e6, waits


def _cpu(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


def _print(rounds: dict[str, list[Round]]) -> None:
    table = Table(title=f"a chat, {ROUNDS} rounds of {REQUESTS}, {AT_ONCE} at a time", title_justify="left")
    for title in ("through", "CPU µs", "times bare", "spread", "p50 ms", "p99 ms"):
        table.add_column(title, justify="left" if title == "through" else "right")
    bare = [cpu for cpu, _ in rounds["a bare proxy"]]
    for name, done in rounds.items():
        spent = [cpu for cpu, _ in done]
        ratios = [mine / other for mine, other in zip(spent, bare, strict=True)]
        waits = np.concatenate([waits for _, waits in done])
        cpu = (
            f"{statistics.median(spent):.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
        )
        table.add_row(
            name, *(cpu if spent[0] else ("", "", "")), *(f"{np.percentile(waits, at):.2f}" for at in (50, 99))
        )
    print_table(table)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
