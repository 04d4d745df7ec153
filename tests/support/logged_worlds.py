"""Worlds of logged calls whose truth is known, to hold off-policy estimates against."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Trace, TraceSpec
from models.arrays import Bools, Floats, Int64s
from solvers.off_policy import DecisionRule, make_single_call_rule

NAMES = ("small", "middle", "strong")
PRICES = np.array([1.0, 4.0, 20.0])


@dataclass(frozen=True, kw_only=True)
class LoggedWorld:
    """Items whose difficulty the embedding shows in part, and a log of who was called for them.

    dependence: how strongly who is called depends on the difficulty. floor: the smallest chance of a call. joint: how
    calls of a row depend on each other: ``one`` per row, ``independent``, ``at_once`` (the small classifier, and all
    others with the chance ``floor``), or ``nested`` (each classifier for a part of the rows of the previous one).
    threshold: the cascade accepts the small classifier's answer from it on; None: the rule calls one classifier, by
    the embedding. repeats: rows of an item.
    """

    dependence: float = 0.0
    floor: float = 0.2
    joint: str = "one"
    threshold: float | None = None
    has_propensities: bool = True
    repeats: int = 1

    def draw(self, seed: int, rows: int) -> "Draw":
        rng = np.random.default_rng(seed)
        items = rows // self.repeats
        hard = np.repeat(rng.random(items), self.repeats)
        luck = np.repeat(rng.normal(size=items), self.repeats)  # what rows of an item share
        noise = rng.normal(size=(len(hard), 3))
        skill = np.array([1.2, 1.6, 2.4]) - np.array([2.4, 1.6, 1.0]) * hard[:, None]
        right = (skill + 0.7 * luck[:, None] + 0.7 * noise > 0).astype(float)
        costs = PRICES * (0.5 + hard[:, None]) * np.exp(0.2 * rng.normal(size=(len(hard), 3)))
        sure = 1 / (1 + np.exp(-(skill[:, 0] + 0.4 * luck + 0.6 * rng.normal(size=len(hard)))))
        embeddings = np.column_stack((hard + 0.1 * rng.normal(size=len(hard)), rng.normal(size=len(hard))))
        seen = embeddings[:, 0]
        called, propensities = self._log(seen, rng)
        return Draw(
            self, right, costs, sure, embeddings, called, propensities, np.repeat(np.arange(items), self.repeats)
        )

    def _log(self, seen: Floats, rng: np.random.Generator) -> tuple[Bools, Floats]:
        n = len(seen)
        if self.joint == "nested":
            propensities = np.tile(self.floor ** np.array([0.0, 0.5, 1.0]), (n, 1))
            return rng.random((n, 1)) < propensities, propensities
        if self.joint == "at_once":
            called = np.ones((n, 3), dtype=np.bool_)
            called[:, 1:] = (rng.random(n) < self.floor)[:, None]
            return called, np.tile([1.0, self.floor, self.floor], (n, 1))
        leaning = np.exp(self.dependence * np.outer(2 * seen - 1, [-1.0, 0.0, 1.0]))
        shares = leaning / leaning.sum(axis=1, keepdims=True)
        propensities = self.floor + (1 - 3 * self.floor) * shares
        if self.joint == "independent":
            propensities[:, 1] = 1.0  # each row has a call
            called = rng.random((n, 3)) < propensities
            return called, propensities
        chosen = (rng.random(n)[:, None] > propensities.cumsum(axis=1)).sum(axis=1)
        return np.arange(3) == chosen[:, None], propensities


@dataclass(frozen=True)
class Draw:
    world: LoggedWorld
    right: Floats
    costs: Floats
    sure: Floats
    embeddings: Floats
    called: Bools
    propensities: Floats
    items: Int64s

    def trace(self) -> Trace:
        own: list[dict[str, Any]] = [{"name": n, "correct": n, "cost": {"column": f"{n}_usd"}} for n in NAMES]
        if self.world.has_propensities:
            own = [{**one, "propensity": f"{one['name']}_p"} for one in own]
        joint = "smallest" if self.world.joint in ("at_once", "nested") else "product"
        spec = {"kind": "trace", "unit": "USD", "classifiers": own, "item": "item", "joint_propensity": joint}
        columns: dict[str, Any] = {"item": self.items.astype(str)}
        for j, name in enumerate(NAMES):
            columns[name] = np.where(self.called[:, j], self.right[:, j], np.nan)
            columns[f"{name}_usd"] = np.where(self.called[:, j], self.costs[:, j], np.nan)
            columns[f"{name}_p"] = np.where(self.called[:, j], self.propensities[:, j], np.nan)
        return Trace.from_columns(TraceSpec.model_validate(spec), columns, self.embeddings.astype(np.float32))

    @property
    def paths(self) -> Bools:
        """The calls of the version: one by the embedding, or those of the cascade of the small and the strong."""
        threshold = self.world.threshold
        if threshold is None:
            easy = self.embeddings[:, 0] < 0.55
            return np.column_stack((easy, np.zeros_like(easy), ~easy))
        goes_on = self.sure < threshold
        return np.column_stack((np.ones_like(goes_on), np.zeros_like(goes_on), goes_on))

    @property
    def outcomes(self) -> tuple[Floats, Floats]:
        """What the version would have answered, and cost, in each row."""
        last = self.paths[:, 2]
        return np.where(last, self.right[:, 2], self.right[:, 0]), (self.costs * self.paths).sum(axis=1)

    def rule(self, trace: Trace) -> DecisionRule:
        """Return the version's rule, as far as the log shows it."""
        if self.world.threshold is None:
            return make_single_call_rule(trace, self.paths.argmax(axis=1))
        called = trace.called if trace.is_partial else np.ones_like(self.called)
        paths = self.paths
        supported = np.asarray((called | ~paths).all(axis=1))
        paths[:, 2] &= called[:, 0]
        quality, costs = (np.where(supported, each, np.nan) for each in self.outcomes)
        return DecisionRule(paths=paths, supported=supported, quality=quality, costs=costs)


def measure_truth(world: LoggedWorld, rows: int = 400_000) -> tuple[float, float]:
    """Return the version's true accuracy and cost."""
    quality, costs = world.draw(987_654, rows).outcomes
    return float(quality.mean()), float(costs.mean())
