"""Hypothesis strategies, and seeded generators, of what the solvers are given."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from models import CostColumn, Trace, TraceClassifier, TraceSpec
from models.cascade import Classifier

_TIMES = st.one_of(st.integers(0, 12).map(float), st.floats(0.001, 50, allow_subnormal=False))
_POWERS = st.one_of(st.sampled_from([0.125, 0.25, 0.5, 0.75, 0.875]), st.floats(0.001, 0.999))
_EXTRAS = st.one_of(st.none(), st.integers(0, 6).map(float), st.floats(0, 20))


@st.composite
def classifier_sets(draw: st.DrawFn, most: int = 6) -> list[Classifier]:
    """Draw up to ``most`` IDK classifiers and one or two deterministic ones, in any order."""
    members = draw(st.lists(st.tuples(_TIMES, _POWERS, _EXTRAS, st.sampled_from([None, "a", "b"])), max_size=most))
    ends = draw(st.lists(st.tuples(_TIMES, st.just(1.0), _EXTRAS, st.none()), min_size=1, max_size=2))
    drawn = []
    for i, (time, p, extra, group) in enumerate([*members, *ends]):
        worst = None if extra is None else time + extra
        drawn.append(
            Classifier(name=f"K{i}", execution_time=time, success_probability=p, group=group, worst_case_time=worst)
        )
    return draw(st.permutations(drawn))


def random_classifiers(
    rng: np.random.Generator, n: int, *, groups: int, whole: bool, ends: int = 1, power: float = 1.0
) -> list[Classifier]:
    """Make n IDK classifiers and ``ends`` deterministic ones in random order.

    whole: small whole times and few probabilities, so that ties are common; else real ones below ``power``. About half
    have a worst-case time of their own. groups: how many groups there are; some classifiers have none.
    """
    made = []
    for i in range(n + ends):
        last = i >= n
        low, high = (3, 20) if last else (0, 10)
        time = float(rng.integers(low, high)) if whole else float(rng.uniform(low + 0.1, high))
        p = float(rng.choice([0.25, 0.5, 0.75, 0.875])) if whole else float(rng.uniform(0.01, 0.99)) * power
        extra = float(rng.integers(0, 6)) if whole else float(rng.uniform(0, 5))
        made.append(
            Classifier(
                name=f"D{i}" if last else f"K{i}",
                execution_time=time,
                success_probability=1.0 if last else p,
                group=None if last or rng.random() < 0.2 else f"g{rng.integers(groups)}",
                worst_case_time=time + extra if rng.random() < 0.5 else None,
            )
        )
    return [made[i] for i in rng.permutation(len(made))]


def even_groups(
    rng: np.random.Generator, sizes: Sequence[int], power: float = 0.5, spread: float = 0.5
) -> list[Classifier]:
    """Make groups of the given sizes, and one deterministic classifier of time 100.

    Probabilities are below ``power``, ratios of time to probability within ``spread`` of 60: the closer, the harder.
    """
    made = []
    for group, size in enumerate(sizes):
        for rank in range(size):
            p = float(rng.uniform(0.01, power))
            time = 60 * p * float(rng.uniform(1 - spread, 1 + spread))
            made.append(
                Classifier(name=f"K{group}.{rank}", execution_time=time, success_probability=p, group=f"g{group}")
            )
    return [*made, Classifier(name="D", execution_time=100.0, success_probability=1.0)]


def random_trace(rng: np.random.Generator, rows: int, n: int, *, measured: bool = False, unit: str = "ms") -> Trace:
    """Make a trace of n classifiers with confidences, and a last one, the most accurate, without.

    Confidence and correctness come from one difficulty per row, so that the classifiers depend on each other in a way
    that is neither independent nor fully dependent. measured: costs differ from row to row.
    """
    label = rng.integers(0, 3, rows)
    difficulty = rng.random(rows)
    columns: dict[str, NDArray[np.generic]] = {"label": label}
    specs = []
    for j in range(n + 1):
        skill = 0.99 if j == n else 0.3 + 0.6 * (j + 1) / (n + 1)
        margin = skill - difficulty + 0.3 * rng.standard_normal(rows)
        right = (margin > 0) if j < n else rng.random(rows) < skill
        columns[f"p{j}"] = np.where(right, label, (label + 1 + rng.integers(0, 2, rows)) % 3)
        columns[f"c{j}"] = np.round(1 / (1 + np.exp(-6 * margin)), 3)
        time = 40.0 if j == n else 1.0 + 2.0 * j
        columns[f"t{j}"] = time * rng.uniform(0.5, 1.5, rows)
        specs.append(
            TraceClassifier(
                name="last" if j == n else f"idk{j}",
                cost=CostColumn(column=f"t{j}") if measured else time,
                prediction=f"p{j}",
                confidence=None if j == n else f"c{j}",
                group=None if j == n else f"g{j % 2}",
            )
        )
    spec = TraceSpec(kind="trace", label="label", unit=unit, classifiers=tuple(specs))
    return Trace.from_columns(spec, columns)
