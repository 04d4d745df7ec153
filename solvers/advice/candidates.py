"""Every setting of every method that a dataset allows, and what it did with rows that the build had not seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import Dataset, DatasetFacts, InvalidRequest, ParsimonyError, Value
from models.advice import ExcludedKind
from models.errors import Cancelled, SolverTimeout
from solvers.base import BuildContext, part_of
from solvers.kind import AnyKind
from solvers.savings import Replay

STEPS_PER_KIND = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One setting of a method. params: to build it with; query: to ask it with; replay: what it did with the rows that
    choose and, behind them, those that report."""

    kind: str
    params: Mapping[str, Any]
    query: Mapping[str, Any]
    replay: Replay


def evaluate_candidates(
    kinds: list[AnyKind], learned: Dataset, fresh: Dataset, seed: int, seconds: float, run: BuildContext
) -> tuple[list[Candidate], list[ExcludedKind]]:
    """Build each method on some rows and try its settings on others; those that could not be built, and why.

    Each may take an equal share of the seconds that are left, so that what a quick one does not need goes to the next.
    """
    candidates: list[Candidate] = []
    left_out = []
    for at, kind in enumerate(kinds):
        if run.elapsed() >= seconds:
            left_out.append(
                ExcludedKind(kind=kind.name, reason=f"the {seconds:.0f} s were over before its turn", timed_out=True)
            )
            continue
        share = run.elapsed() + max(seconds - run.elapsed(), 0.0) / (len(kinds) - at)
        try:
            parts = part_of(run.progress, at * STEPS_PER_KIND, (at + 1) * STEPS_PER_KIND, len(kinds) * STEPS_PER_KIND)
            candidates += _tried(kind, learned, fresh, seed, replace(run, progress=parts), share)
        except Cancelled:
            raise
        except ParsimonyError as error:
            left_out.append(ExcludedKind(kind=kind.name, reason=str(error), timed_out=isinstance(error, SolverTimeout)))
    return candidates, left_out


def _tried(
    kind: AnyKind, learned: Dataset, fresh: Dataset, seed: int, run: BuildContext, until: float
) -> list[Candidate]:
    """Build a method by each of its trials that the dataset allows, and try its settings. A later trial that takes too
    long leaves what those before it gave; raises SolverTimeout if the first does."""
    every = list[Candidate]()
    trials = _allowed(kind, learned)
    for at, (params, options) in enumerate(trials):
        steps = STEPS_PER_KIND // len(trials)
        part = part_of(run.progress, at * steps, (at + 1) * steps, STEPS_PER_KIND)
        limited = _limited(replace(run, progress=part), kind.name, until)
        try:
            plan = kind.fit(learned, options, np.random.default_rng(seed), limited).plan
        except SolverTimeout:
            if every:
                break
            raise
        every += [
            Candidate(kind.name, params, trade_off.query, trade_off.replay)
            for trade_off in kind.replay_settings(plan, fresh)
        ]
    return every


def _allowed(kind: AnyKind, learned: Dataset) -> list[tuple[Mapping[str, Any], Value]]:
    """List the trials that a dataset allows, or, if it allows none, the first: what refuses that refuses the method."""
    trials = [(params, kind.options.model_validate(dict(params))) for params in kind.trials]
    allowed, facts = list[tuple[Mapping[str, Any], Value]](), DatasetFacts.from_dataset(learned)
    for params, options in trials:
        try:
            kind.check(facts, options)
        except InvalidRequest:
            continue
        allowed.append((params, options))
    return allowed or trials[:1]


def _limited(run: BuildContext, name: str, until: float) -> BuildContext:
    """Say whose progress it is, and stop it when its time is over."""
    started = run.elapsed()

    def progress(done: int, total: int, message: str) -> None:
        run.progress(done, total, f"{name}: {message}")
        if run.elapsed() > until:
            raise SolverTimeout(f"did not end within its share of the time, {max(until - started, 0.0):.0f} s")

    return replace(run, progress=progress, elapsed=lambda: run.elapsed() - started)
