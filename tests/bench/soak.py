"""Half an hour of mixed traffic on a whole service, with a fault every few seconds: what is lost, what is wrong?

Every answer is checked against the plan decoded in this process, batches of assignments too. At the end the bytes of
every version that was promised are read and held against their SHA-256, and every outcome that was granted must have
been counted once.
The exit status is 1 if anything that must be 0 is not.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench._soak_faults import FAULTS
from tests.bench._soak_house import House
from tests.bench._soak_look_ups import NAME, Answers, ask_on, learn, settle
from tests.bench._soak_writes import Ledger, Writer, counted_builds, miscounted, take_stock, unended
from tests.support.subjects import SAMPLES, build_all, upload_all

ASKING = 2
FAULT_S = (3.0, 8.0)
BUILDS_END_S = 180.0
EXAMPLES = 5


@dataclass
class Soak:
    """A soak, and what it has found."""

    house: House
    answers: Answers = field(default_factory=Answers)
    ledger: Ledger = field(default_factory=Ledger)
    faults: Counter[str] = field(default_factory=Counter)
    lost: dict[Any, str] = field(default_factory=dict)
    miscounted: list[str] = field(default_factory=list)
    unhealed: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak, print the table, and exit with 1 if it shows a broken promise."""
    parser = argparse.ArgumentParser(prog="parsimony bench soak", description="Mixed traffic with random faults.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="parsimony-soak-") as folder:
        soak = Soak(House(Path(folder) / "house"))
        try:
            run(soak, 60 * chosen.minutes, chosen.seed)
            reported = report(soak)
        finally:
            soak.house.close()
    if chosen.json:
        sys.stdout.write(json.dumps(reported) + "\n")
    else:
        Console(width=None if console.is_terminal else 80).print(table(reported, chosen.minutes))
    sys.exit(any(reported["must be 0"].values()))


def run(soak: Soak, seconds: float, seed: int) -> None:
    """Prepare, let traffic and faults run, and take stock."""
    upload_all(soak.house.server)
    build_all(soak.house.server, NAME)
    soak.ledger.published |= {(solver, 1) for solver in SAMPLES}
    with soak.house.client() as client:
        paths = {solver: f"/v1/artifacts/{solver}/{NAME}" for solver in SAMPLES}
        originals = {solver: client.get(f"{path}/versions/1/export").content for solver, path in paths.items()}
        for solver, path in paths.items():
            learn(soak.answers, (solver, 1), client.get(path).json(), originals[solver])
        decision = client.get(f"/v1/cascades/{NAME}/decision").json()["decision"]
    stop = threading.Event()
    writer = Writer(soak.house, soak.ledger, soak.answers, originals, decision, random.Random(seed))
    tasks: list[Callable[[], None]] = [lambda: writer.run(stop)]
    tasks += [_asking(soak, seed + number, stop) for number in range(1, ASKING + 1)]
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        _harm(soak, time.monotonic() + seconds, random.Random(seed))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    soak.house.wait_until_whole()
    soak.unhealed += [f"build {build} does not end" for build in unended(soak.house, soak.ledger, BUILDS_END_S)]
    _learn(soak, whole=True)
    soak.miscounted = miscounted(soak.house, soak.ledger)


def _asking(soak: Soak, seed: int, stop: threading.Event) -> Callable[[], None]:
    return lambda: ask_on(soak.house, soak.answers, seed, stop)


def _harm(soak: Soak, until: float, draw: random.Random) -> None:
    """Do one fault after the other, every one once before any is repeated."""
    waiting: list[str] = []
    while time.monotonic() < until:
        waiting = waiting or draw.sample(sorted(FAULTS), len(FAULTS))
        name = waiting.pop()
        soak.faults[name] += 1
        try:
            with FAULTS[name](soak.house, draw):
                time.sleep(draw.uniform(*FAULT_S))
            soak.house.mend_workers()
            soak.house.wait_until_whole()
        except AssertionError as error:
            soak.unhealed.append(f"after {name}: {error}")
        _learn(soak)
        soak.memory.append(soak.house.memory_mb())


def _learn(soak: Soak, *, whole: bool = False) -> None:
    """Read what is new, or everything, and check the answers that waited for it."""
    soak.lost = take_stock(soak.house, soak.ledger, soak.answers, whole=whole)
    settle(soak.answers)


def report(soak: Soak) -> dict[str, Any]:
    """Tell what was found."""
    answers, ledger = soak.answers, soak.ledger
    unknown = [str(version) for version, *_ in answers.open]
    broken = {
        "lost artifacts": [f"{version} {why}" for version, why in soak.lost.items()],
        "outcomes miscounted": soak.miscounted,
        "wrong answers": answers.wrong,
        "answers unchecked": unknown,
        "look-ups refused": answers.unexcused,
        "internal errors": ledger.internal,
        "not whole again": soak.unhealed,
    }
    return {
        "requests": {
            **answers.counts,
            **ledger.counts,
            "versions published": len(ledger.published),
            "outcomes told": ledger.outcomes,
        },
        "builds": counted_builds(soak.house),
        "errors by kind": dict(sorted((answers.errors + ledger.errors).items())),
        "faults": dict(sorted(soak.faults.items())),
        "memory of a server, MB": _memory(soak.memory),
        "must be 0": {name: len(each) for name, each in broken.items()},
        "examples": {name: each[:EXAMPLES] for name, each in broken.items() if each},
    }


def _memory(seen: list[float]) -> dict[str, float]:
    """Tell what a process took after the first faults, at the end, and at most."""
    if not seen:
        return {}
    third = max(len(seen) // 3, 1)
    first, last = sum(seen[:third]) / third, sum(seen[-third:]) / third
    return {"first third": round(first, 1), "last third": round(last, 1), "most": round(max(seen), 1)}


def table(reported: dict[str, Any], minutes: float) -> Table:
    """Lay the report out."""
    shown = Table(title=f"soak, {minutes:g} minutes", title_justify="left")
    shown.add_column("what")
    shown.add_column("found", justify="right")
    for group, values in reported.items():
        for number, (name, value) in enumerate(values.items()):
            shown.add_row(f"{group}: {name}", _shown(value), end_section=number == len(values) - 1)
    return shown


def _shown(value: Any) -> str:
    return "\n".join(str(each)[:100] for each in value) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    main()
