"""What running costs: a chat through an artifact beside one through a bare proxy of the same HTTP library.

Both pass the chat on to the same model, which answers at once. Each server is a process on one core; rounds alternate.
What counts is the CPU time of the server's process for a request, and the time that is added to a caller's wait.
"""

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from tests.bench._applications import running_application
from tests.conftest import upload
from tests.support.servers import running_server

REQUESTS = 1500
AT_ONCE = 8
ROUNDS = 5
CHAT = {"model": "cascade/trace", "messages": [{"role": "user", "content": "which animal is it?"}]}
Round = tuple[float, list[float]]
"""CPU of a request, in µs, and how long each took, in ms."""


def main() -> None:
    """Run the rounds and print the table."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        _, model = stack.enter_context(running_application("tests.bench._run_apps:model", folder))
        target = f"http://127.0.0.1:{model}/v1"
        settings: dict[str, Any] = {"endpoint_hosts": "127.0.0.1", "log_level": "warning"}
        server = stack.enter_context(running_server(folder / "service", **settings))
        upload(server)
        for name in ("fast", "middle", "strong"):
            endpoint = {"protocol": "openai-chat", "url": target, "model": name}
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        proxy = stack.enter_context(
            running_application("tests.bench._run_apps:proxy", folder, BENCH_MODEL=f"{target}/chat/completions")
        )
        servers = {
            "the model itself": (None, model),
            "a bare proxy": proxy,
            "Parsimony, a cascade": (psutil.Process(server.process.pid), server.port),
        }
        rounds: dict[str, list[Round]] = {name: [] for name in servers}
        for number in range(ROUNDS + 1):
            for name, (process, port) in servers.items():
                one = asyncio.run(_round(process, port))
                if number:  # the first one warms up
                    rounds[name].append(one)
    _print(rounds)


async def _round(process: psutil.Process | None, port: int) -> Round:
    """Send chats, some at a time, on kept-alive connections."""
    url, waits = f"http://127.0.0.1:{port}/v1/chat/completions", list[float]()
    async with aiohttp.ClientSession() as session:

        async def ask(count: int) -> None:
            for _ in range(count):
                begun = time.perf_counter()
                async with session.post(url, json=CHAT) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()
                waits.append(1000 * (time.perf_counter() - begun))

        before = _cpu(process)
        await asyncio.gather(*(ask(REQUESTS // AT_ONCE) for _ in range(AT_ONCE)))
        return (_cpu(process) - before) / len(waits) * 1e6, waits


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
        table.add_row(
            name,
            f"{statistics.median(spent):.0f}" if spent[0] else "",
            f"{statistics.median(ratios):.2f}" if spent[0] else "",
            f"{min(ratios):.2f}-{max(ratios):.2f}" if spent[0] else "",
            f"{np.percentile(waits, 50):.2f}",
            f"{np.percentile(waits, 99):.2f}",
        )
    console = Console()
    Console(width=None if console.is_terminal else 80).print(table)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
