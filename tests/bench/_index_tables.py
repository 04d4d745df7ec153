"""The synthetic study as tables, in the order of the paper's figures, and what it says of the paper's summaries."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray
from rich.table import Table

from models.arrays import Floats
from tests.bench._index_study import (
    ACCURACY_FEATURES,
    ACCURACY_REPEATS,
    ALPHAS,
    COMBINERS,
    COUNTS,
    ITEM_SIZES,
    PLANNED,
    PROBABILITIES,
    PROBABILITY,
    REPEATS,
    SHARES,
    TEST_SIZE,
    TRAINING_SIZE,
    Measured,
    Study,
)
from tests.bench.cascade import table

EXTREMES = {0.0: "best single feature (w = 0)", 1.0: "every feature adds (w = 1)"}
EXACT, COARSE = ALPHAS
NOTE = f"mean ±deviation of {REPEATS} instances"


def short(value: float) -> str:
    """Write a number in few characters.

    >>> short(7), short(0.25), short(1234), short(56_789), short(1_610_157)
    ('7', '0.25', '1,234', '56.8k', '1.61M')
    """
    if value >= 1e6:
        return f"{value / 1e6:.2f}M"
    if value >= 1e4:
        return f"{value / 1e3:.1f}k"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def compact(value: float) -> str:
    """Write a number in at most four characters.

    >>> compact(2.75), compact(78.2), compact(3472), compact(122_512), compact(1_610_157)
    ('2.8', '78', '3.5k', '123k', '1.6M')
    """
    for scale, unit in ((1e6, "M"), (1e3, "k"), (1, "")):
        if value >= scale or scale == 1:
            scaled = value / scale
            return f"{scaled:.0f}{unit}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{unit}"
    raise AssertionError


def spread(values: Sequence[float]) -> str:
    """Write mean and standard deviation.

    >>> spread([1, 3]), spread([5, 5])
    ('2 ±1', '5')
    """
    off = statistics.pstdev(values)
    return f"{compact(statistics.mean(values))} ±{compact(off)}" if off else short(statistics.mean(values))


def micros(values: Sequence[float]) -> str:
    """Write times in microseconds: mean and standard deviation.

    >>> micros([1e-6, 2e-6])
    '1.5 ±0.5'
    """
    return f"{1e6 * statistics.mean(values):.1f} ±{1e6 * statistics.pstdev(values):.1f}"


def tables(study: Study) -> Iterator[Table]:
    """Make the tables of all four metrics."""
    per_combiner: tuple[Callable[[Study, float], Table], ...] = (
        expansions, expansions_by_probability, index_sizes, retrieval_times, accuracies,
    )  # fmt: skip
    for make in per_combiner:
        for combiner in COMBINERS:
            yield make(study, combiner)
    yield by_item_size(study)


def expansions(study: Study, combiner: float) -> Table:
    """Metric 1: sets expanded against the number of features."""
    made = table(
        f"Metric 1, sets expanded for F features: {EXTREMES[combiner]}, p = {PROBABILITY:g}\n{NOTE}; the empty "
        "set counts",
        "F", "Naive-All", *(f"Poly-Dom {alpha:g}" for alpha in ALPHAS), "Greedy", "Gr.-Acc", "Gr.-Cost",
    )  # fmt: skip
    for features in COUNTS:
        one = study.metrics[combiner, features]
        made.add_row(str(features), f"{1 << features:,}", *_expanded(one))
    return made


def expansions_by_probability(study: Study, combiner: float) -> Table:
    """Metric 1 and candidates against the probability that a feature helps."""
    made = table(
        f"Metric 1 by p, 10 features: {EXTREMES[combiner]}\n{NOTE}; of 1,024 sets",
        "p", *(f"Poly-Dom {alpha:g}" for alpha in ALPHAS), "Greedy", *(f"cand. {alpha:g}" for alpha in ALPHAS),
    )  # fmt: skip
    for p in PROBABILITIES:
        one = study.by_probability[combiner, p]
        made.add_row(f"{p:g}", *_expanded(one)[:3], *(spread(one.candidates[alpha]) for alpha in ALPHAS))
    return made


def _expanded(one: Measured) -> list[str]:
    return [*(spread(one.expanded[a]) for a in ALPHAS), *(spread(counts) for counts in one.greedy.values())]


def index_sizes(study: Study, combiner: float) -> Table:
    """Metric 2: what the indexes hold."""
    made = table(
        f"Metric 2, index size, alpha = 0: {EXTREMES[combiner]}\n{NOTE}; Naive-Lookup: candidates; others: skylines,\n"
        "and the entries in all of them",
        "F", "Naive-L.", "Poly-Dom", "entries", "Index-All", "entries", f"P.-D. {COARSE:g}",
    )  # fmt: skip
    for features in COUNTS:
        one = study.metrics[combiner, features]
        columns = (one.candidates, one.points, one.entries, one.points_if_all, one.entries_if_all)
        made.add_row(str(features), *(spread(column[EXACT]) for column in columns), spread(one.points[COARSE]))
    return made


def retrieval_times(study: Study, combiner: float) -> Table:
    """Metric 3: time for one decision, the reply included."""
    made = table(
        f"Metric 3, microseconds for a decision: {EXTREMES[combiner]}\n{NOTE}; the time of making the reply included",
        "F", "Poly-Dom 0", "Naive-L. 0", f"P.-D. {COARSE:g}", f"Naive-L. {COARSE:g}", "Greedy",
    )  # fmt: skip
    for features in COUNTS:
        seconds = study.metrics[combiner, features].seconds
        kinds = [(what, alpha) for alpha in ALPHAS for what in ("poly-dom", "naive")]
        made.add_row(str(features), *(micros(seconds[kind]) for kind in [*kinds, ("greedy", EXACT)]))
    return made


def accuracies(study: Study, combiner: float) -> Table:
    """Metric 4: accuracy against budget at the test size."""
    made = table(
        f"Metric 4, accuracy in %: {EXTREMES[combiner]}, {ACCURACY_FEATURES} features,\nitem size {TEST_SIZE:g}, "
        f"greedy trained at {TRAINING_SIZE:g}; mean ±deviation of {ACCURACY_REPEATS} instances",
        "budget", *(name.replace("Greedy-", "Gr.-").replace("Poly-Dom", "P.-D.") for name, _, _ in PLANNED), "all sets",
    )  # fmt: skip
    curve = study.accuracy[combiner][TEST_SIZE]
    for i, share in enumerate(SHARES):
        cells = [curve.accuracies[name][:, i] for name, _, _ in PLANNED] + [curve.optimum[:, i]]
        made.add_row(f"{share:.1%}", *(f"{100 * cell.mean():.1f} ±{100 * cell.std():.0f}" for cell in cells))
    return made


def by_item_size(study: Study) -> Table:
    """Metric 4, averaged over budgets, against the item's size: greedy sequences know one size only."""
    made = table(
        f"Metric 4 by item size: mean accuracy over all budgets, lost against the best set\n"
        f"(percentage points; {ACCURACY_REPEATS} instances, {ACCURACY_FEATURES} features)",
        "w", "size", *(name for name, _, _ in PLANNED),
    )  # fmt: skip
    for combiner in COMBINERS:
        for size in ITEM_SIZES:
            curve = study.accuracy[combiner][size]
            lost = [100 * (curve.optimum - curve.accuracies[name]).mean(axis=1) for name, _, _ in PLANNED]
            made.add_row(f"{combiner:g}", f"{size:g}", *(f"{each.mean():.2f} ±{each.std():.2f}" for each in lost))
    return made


def verdicts(study: Study) -> Iterator[str]:
    """Say of each of the paper's summaries whether our numbers agree, from the numbers."""
    yield from _about_expansion(study)
    yield from _about_index(study)
    yield from _about_accuracy(study)


def _said(metric: str, agrees: bool, text: str) -> str:
    return f"Metric {metric} {'agrees' if agrees else 'DIFFERS'}: {text}"


def _about_expansion(study: Study) -> Iterator[str]:
    at = {(w, f): study.metrics[w, f] for w in COMBINERS for f in COUNTS}
    fewer = {f: (1 << f) / _mean(at[0.0, f].expanded[EXACT]) for f in (10, 15)}
    yield _said(
        "1",
        min(fewer.values()) >= 10,
        "where the best single feature counts, Poly-Dom with alpha = 0 is to expand at least 10 times fewer sets than "
        f"all; it expands {fewer[10]:.1f} times fewer for 10 features ({short(_mean(at[0.0, 10].expanded[EXACT]))} "
        f"sets, with alpha = {COARSE:g} {short(_mean(at[0.0, 10].expanded[COARSE]))}; the paper reads about 50 and 30 "
        f"off its figure) and {fewer[15]:.1f} times fewer for 15.",
    )
    ratios = [_mean(at[0.0, f].expanded[EXACT]) / _mean(at[0.0, f].greedy["Greedy"]) for f in COUNTS if f >= 8]
    yield _said(
        "1",
        max(ratios) < 3,
        f"Greedy is to expand about as many there; Poly-Dom expands {min(ratios):.1f} to {max(ratios):.1f} times as "
        f"many from 8 to 15 features. Greedy is to grow more slowly; the ratio "
        f"{'grows' if ratios[-1] > 1.5 * ratios[0] else 'does not grow'} with the features.",
    )
    every = all(count == 1 << f for f in COUNTS for count in at[1.0, f].expanded[EXACT])
    yield _said(
        "1",
        every,
        f"where every feature adds, Poly-Dom with alpha = 0 is to expand all sets, and does{'' if every else ' not'}.",
    )
    coarse = {f: (1 << f) / _mean(at[1.0, f].expanded[COARSE]) for f in (10, 15)}
    yield _said(
        "1",
        coarse[10] >= 10,
        f"with alpha = {COARSE:g} it is to expand at least 10 times fewer there too; it expands {coarse[10]:.1f} times "
        f"fewer for 10 features and {coarse[15]:.1f} times fewer for 15.",
    )


def _about_index(study: Study) -> Iterator[str]:
    ten, twelve = study.metrics[1.0, 10], study.metrics[1.0, 12]
    saved = _mean(twelve.points_if_all[EXACT]) / _mean(twelve.points[EXACT])
    yield _said(
        "2",
        saved >= 5,
        f"Poly-Dom-Index-All is to be much larger than Poly-Dom: {saved:.0f} times as many skylines for 12 features "
        f"where every feature adds ({short(_mean(ten.points_if_all[EXACT]))} for 10, "
        f"{short(_mean(twelve.points_if_all[EXACT]))} for 12; the paper reads about 1000 and 6000 off its figure), and "
        f"{_mean(twelve.entries_if_all[EXACT]) / _mean(twelve.entries[EXACT]):.0f} times as many entries.",
    )
    points, entries = (
        _mean(column[EXACT]) / _mean(twelve.candidates[EXACT]) for column in (twelve.points, twelve.entries)
    )
    yield _said(
        "2",
        points <= 2,
        f"Poly-Dom's index is to be almost as small as Naive-Lookup's: it has {points:.2f} skylines for each candidate "
        f"for 12 features, but {entries:.0f} entries for each when all members of all skylines are counted.",
    )
    slower = {(w, f): _ratio(study.metrics[w, f], EXACT) for w in COMBINERS for f in COUNTS}
    most = max(slower, key=lambda key: slower[key])
    least = min(slower, key=lambda key: slower[key])
    yield _said(
        "3",
        slower[1.0, 15] >= 3,
        f"Naive-Lookup is to be much slower, the more so with more features: it takes {slower[1.0, 15]:.1f} times as "
        f"long for 15 features where every feature adds, most {slower[most]:.1f} times ({most[1]} features), but for "
        f"{most[1]} where the best single feature counts {slower[0.0, most[1]]:.1f} times, and at least "
        f"{slower[least]:.1f} times (w = {least[0]:g}, {least[1]} features). Where the best single feature counts "
        f"there are {short(_mean(study.metrics[0.0, 15].candidates[EXACT]))} candidates for 15 features, where every "
        f"feature adds {short(_mean(study.metrics[1.0, 15].candidates[EXACT]))}.",
    )


def _about_accuracy(study: Study) -> Iterator[str]:
    curves = {w: study.accuracy[w][TEST_SIZE].accuracies for w in COMBINERS}
    exact, coarse = PLANNED[0][0], PLANNED[1][0]
    for one, other in (
        (exact, "Greedy"), (exact, "Greedy-Acc"), (coarse, "Greedy"), (coarse, "Greedy-Acc"),
        ("Greedy", "Greedy-Cost"), ("Greedy-Acc", "Greedy-Cost"),
    ):  # fmt: skip
        yield _compared(one, other, [curves[w][one].mean(axis=0) - curves[w][other].mean(axis=0) for w in COMBINERS])
    gaps = [_largest(curves[w][PLANNED[0][0]] - curves[w]["Greedy"]) for w in COMBINERS]
    others = [_largest(curves[w]["Greedy"] - curves[w]["Greedy-Cost"]) for w in COMBINERS]
    yield _said(
        "4",
        max(gaps) >= 0.2 and max(others) >= 0.2,
        "differences are to reach 20 points at some budgets: on single instances Poly-Dom leads Greedy by up to "
        f"{100 * max(gaps):.0f} points, Greedy leads Greedy-Cost by up to {100 * max(others):.0f}.",
    )
    ends = max(abs(curves[w][name][:, i] - study.accuracy[w][TEST_SIZE].optimum[:, i]).max()
               for w in COMBINERS for name in _exact() for i in (0, -1))  # fmt: skip
    yield _said(
        "4",
        bool(ends <= 1e-12),
        "with the whole budget all methods (alpha = 0) are to reach the optimum, with none all are to guess; "
        f"the largest difference is {ends:.2g}.",
    )


def _exact() -> list[str]:
    return [name for name, alpha, _ in PLANNED if alpha == EXACT]


def _mean(values: Sequence[int]) -> float:
    return statistics.mean(values)


def _ratio(one: Measured, alpha: float) -> float:
    return statistics.mean(
        a / b for a, b in zip(one.seconds["naive", alpha], one.seconds["poly-dom", alpha], strict=True)
    )


def _compared(one: str, other: str, leads: Sequence[Floats]) -> str:
    """Say whether the first method is ahead on average at every budget, else where it is behind."""
    least = min(float(lead.min()) for lead in leads)
    behind = [share for lead in leads for share, each in zip(SHARES, lead.tolist(), strict=True) if each < -1e-12]
    text = (
        f"{one} is to be more accurate than {other} over a range of budgets; on average it is ahead by at most "
        f"{100 * max(float(lead.max()) for lead in leads):.1f} points, and behind "
    )
    if not behind:
        return _said("4", True, f"{text}at no budget.")
    return _said(
        "4",
        False,
        f"{text}at {len(behind)} of {len(SHARES) * len(leads)} budgets, from {min(behind):.1%} to {max(behind):.1%} of "
        f"the cost of all features, by at most {-100 * least:.1f} points.",
    )


def _largest(differences: NDArray[Any]) -> float:
    return float(differences.max())
