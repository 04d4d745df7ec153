"""Candidates of advice: every setting of every kind that a dataset allows, evaluated on unseen rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from models import Dataset, DatasetFacts, InvalidRequest, ParsimonyError, Trace, Value
from models.advice import ExcludedKind
from models.errors import Cancelled, SolverTimeout
from solvers.base import BuildContext, Plan, scale_progress
from solvers.kind import AnyKind
from solvers.partial_traces import prepare_rows, replay_on_complete_rows
from solvers.savings import Replay, SettingReplay

STEPS_PER_KIND = 1000
MIN_COMPLETE_ROWS = 500
"""Complete rows among the unseen rows of a partial trace by which a kind that needs them can be compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One setting of a kind: build parameters, query, and replay.

    The replay has the validation rows first, then the holdout rows.
    """

    kind: str
    params: Mapping[str, Any]
    query: Mapping[str, Any]
    replay: Replay


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRows:
    """Training and unseen rows: as logged, and with estimates for missing calls.

    If no calls are missing, the estimated rows equal the logged rows.
    """

    learned: Dataset
    unseen: Dataset
    estimated_learned: Dataset
    estimated_unseen: Dataset

    def select_learned(self, kind: AnyKind, seed: int) -> Dataset:
        """Return the rows that a kind is built from.

        Raises InvalidRequest if the kind needs complete rows and the partial trace has too few of them.
        """
        if kind.takes_partial_traces:
            return self.estimated_learned
        unseen = self.unseen
        if isinstance(unseen, Trace) and unseen.is_partial and unseen.complete_rows < MIN_COMPLETE_ROWS:
            raise InvalidRequest(
                f"all classifiers were called in {unseen.complete_rows} of {unseen.rows} unseen rows; "
                f"{MIN_COMPLETE_ROWS} are needed to compare it with others"
            )
        return prepare_rows(self.learned, seed, takes_partial=False)

    def replay_settings(self, kind: AnyKind, plan: Plan, seed: int) -> Sequence[SettingReplay]:
        """Return the outcomes of a plan's settings on unseen rows."""
        if isinstance(self.unseen, Trace) and self.unseen.is_partial and not kind.takes_partial_traces:
            return replay_on_complete_rows(self.unseen, seed, partial(kind.replay_settings, plan))
        return kind.replay_settings(plan, self.estimated_unseen)


def evaluate_candidates(
    kinds: list[AnyKind], rows: CandidateRows, seed: int, seconds: float, run: BuildContext
) -> tuple[list[Candidate], list[ExcludedKind]]:
    """Build each kind on training rows and evaluate its settings on unseen rows.

    Return the candidates and the excluded kinds.

    Each kind has an equal share of the remaining seconds.
    """
    candidates: list[Candidate] = []
    excluded = []
    for at, kind in enumerate(kinds):
        if run.elapsed() >= seconds:
            reason = f"time limit of {seconds:.0f} s reached before its start"
            excluded.append(ExcludedKind(kind=kind.name, reason=reason, timed_out=True))
            continue
        share = run.elapsed() + max(seconds - run.elapsed(), 0.0) / (len(kinds) - at)
        try:
            parts = scale_progress(
                run.progress, at * STEPS_PER_KIND, (at + 1) * STEPS_PER_KIND, len(kinds) * STEPS_PER_KIND
            )
            candidates += _evaluate_kind(kind, rows, seed, replace(run, progress=parts), share)
        except Cancelled:
            raise
        except ParsimonyError as error:
            excluded.append(ExcludedKind(kind=kind.name, reason=str(error), timed_out=isinstance(error, SolverTimeout)))
    return candidates, excluded


def _evaluate_kind(kind: AnyKind, rows: CandidateRows, seed: int, run: BuildContext, until: float) -> list[Candidate]:
    """Build a kind by each of its trials that the dataset allows, and evaluate its settings.

    On a timeout, return the trials that finished; raises SolverTimeout if none did.
    """
    every, learned = list[Candidate](), rows.select_learned(kind, seed)
    trials = _list_trials(kind, learned)
    for at, (params, options) in enumerate(trials):
        steps = STEPS_PER_KIND // len(trials)
        part = scale_progress(run.progress, at * steps, (at + 1) * steps, STEPS_PER_KIND)
        limited = _limited(replace(run, progress=part), kind.name, until)
        try:
            plan = kind.fit(learned, options, np.random.default_rng(seed), limited).plan
        except SolverTimeout:
            if every:
                break
            raise
        every += [
            Candidate(kind.name, params, trade_off.query, trade_off.replay)
            for trade_off in rows.replay_settings(kind, plan, seed)
        ]
    return every


def _list_trials(kind: AnyKind, learned: Dataset) -> list[tuple[Mapping[str, Any], Value]]:
    """List the trials that the dataset allows.

    If it allows none, list the first trial: its error then excludes the kind.
    """
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
    """Return a build context that prefixes progress and stops the build in time."""
    started = run.elapsed()

    def progress(done: int, total: int, message: str) -> None:
        run.progress(done, total, f"{name}: {message}")
        if run.elapsed() > until:
            raise SolverTimeout(f"exceeded its share of the time limit, {max(until - started, 0.0):.0f} s")

    return replace(run, progress=progress, elapsed=lambda: run.elapsed() - started)
