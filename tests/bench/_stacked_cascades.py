"""A prototype: cascades that combine the answers of all called classifiers, for ``parsimony bench policy --area``.

For each set of classifiers, a multinomial logistic regression predicts the class from their labels, and from the
log-odds of their calibrated confidences by label. Its highest probability is compared with the accept threshold. Its
predictions on the learning half are of other folds. The search has all orders of all sets: one accept level at first,
then thresholds of their own by coordinate descent.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from models import Trace
from models.arrays import Floats, Int64s
from models.cascade import CascadeOptions
from solvers.budget_mixture import lower_hull
from solvers.cascade.frontier.calibration import calibrate_confidences
from solvers.cascade.frontier.fit import fit_frontier
from solvers.cascade.frontier.rows import ThresholdCascade

FOLDS, LEVELS, SWEEPS = 5, 40, 2
CAUTION = 0.3
"""Inverse of the regressions' penalty, chosen on other seeds than are reported."""
PENALTY_ROWS = 2.0
"""Rows that each further classifier has to correct, as in ``solvers.cascade.frontier.search``."""
LEAST = 1e-3
Combined = dict[tuple[int, ...], tuple[Floats, Floats]]
"""By set of called classifiers: confidence of the combined answer, (n,), and whether it is correct, (n,)."""
Found = list[tuple[float, float, ThresholdCascade]]
"""Mean cost, mean error, and cascade."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers of k classifiers. truth: (n,), predicted: (n, k), integer classes; sure: (n, k); costs: (n, k)."""

    truth: Int64s
    predicted: Int64s
    sure: Floats
    costs: Floats

    @classmethod
    def from_trace(cls, trace: Trace) -> "Answers":
        classes = np.array([int(label) for label in trace.classes])
        return cls(classes[trace.labels], classes[trace.predictions], np.nan_to_num(trace.confidences), trace.costs)

    def take(self, rows: Int64s) -> "Answers":
        return Answers(self.truth[rows], self.predicted[rows], self.sure[rows], self.costs[rows])

    @property
    def labels(self) -> int:
        return 1 + int(max(self.predicted.max(), self.truth.max()))


def list_sets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(1, count + 1) for chosen in combinations(range(count), size)]


def combine(learned: Answers, fresh: Answers) -> Combined:
    """Fit the regression of every set to some rows, and answer others."""
    labels = max(learned.labels, fresh.labels)
    known, asked = (_describe(learned, rows, labels) for rows in (learned, fresh))
    found: Combined = {}
    for chosen in list_sets(learned.predicted.shape[1]):
        model = LogisticRegression(C=CAUTION, max_iter=60, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(np.hstack([known[k] for k in chosen]), learned.truth)
        chances = model.predict_proba(np.hstack([asked[k] for k in chosen]))
        right = model.classes_[chances.argmax(axis=1)] == fresh.truth
        found[chosen] = chances.max(axis=1), right.astype(np.float64)
    return found


def _describe(learned: Answers, rows: Answers, labels: int) -> list[Floats]:
    """Return the inputs of each classifier, (n, 2 labels): its label, and its log-odds at the label."""
    inputs = []
    for k in range(learned.predicted.shape[1]):
        right = (learned.predicted[:, k] == learned.truth).astype(np.float64)
        every = np.arange(len(right))
        curve = calibrate_confidences(learned.sure[:, k], right, every, learned.predicted[:, k], 0)
        chance = np.clip(np.interp(rows.sure[:, k], curve.confidences, curve.curve), LEAST, 1 - LEAST)
        hot = np.eye(labels)[rows.predicted[:, k]]
        inputs.append(np.hstack([hot, hot * np.log(chance / (1 - chance))[:, None]]))
    return inputs


def cross_fit(answers: Answers, fold: Int64s) -> Combined:
    """Answer the rows of each fold by regressions of the other folds."""
    n = len(answers.truth)
    found: Combined = {chosen: (np.zeros(n), np.zeros(n)) for chosen in list_sets(answers.predicted.shape[1])}
    for part in np.unique(fold):
        own = np.flatnonzero(fold == part)
        for chosen, (sure, right) in combine(answers.take(np.flatnonzero(fold != part)), answers.take(own)).items():
            found[chosen][0][own], found[chosen][1][own] = sure, right
    return found


def replay(combined: Combined, costs: Floats, cascade: ThresholdCascade) -> tuple[float, float]:
    """Return mean cost and error of a cascade."""
    cost = wrong = 0.0
    waiting = np.arange(len(costs))
    for place, k in enumerate(cascade.members):
        sure, right = (each[waiting] for each in combined[tuple(sorted(cascade.members[: place + 1]))])
        cost += float(costs[waiting, k].sum())
        level = cascade.thresholds[place] if place < len(cascade.thresholds) else -np.inf
        wrong += float((1 - right[sure >= level]).sum())
        waiting = waiting[sure < level]
    return cost / len(costs), wrong / len(costs)


def search(combined: Combined, costs: Floats) -> Found:
    """Return the cascades on the hull of cost and penalized error, of all orders and thresholds."""
    levels = np.unique(
        np.quantile(np.concatenate([sure for sure, _ in combined.values()]), np.linspace(0.02, 1, LEVELS))
    )
    orders = [order for chosen in list_sets(costs.shape[1]) for order in permutations(chosen)]
    tried = [
        ThresholdCascade(order, (level,) * (len(order) - 1))
        for order in orders
        for level in (levels.tolist() if len(order) > 1 else [1.0])
    ]
    hull = _hull(combined, costs, tried)
    improved = [
        _improve(combined, costs, cascade, levels[::2].tolist(), _price(hull, place))
        for place, (_, _, cascade) in enumerate(hull)
        if len(cascade.members) > 2
    ]
    return _hull(combined, costs, [*(cascade for _, _, cascade in hull), *improved])


def _hull(combined: Combined, costs: Floats, cascades: Sequence[ThresholdCascade]) -> Found:
    replays = [replay(combined, costs, each) for each in cascades]
    spent, wrong = np.array(replays).T
    wrong = wrong + PENALTY_ROWS * (np.array([len(each.members) for each in cascades]) - 1) / len(costs)
    return [(float(spent[i]), float(wrong[i]), cascades[i]) for i in lower_hull(spent, wrong)]


def _price(hull: Found, place: int) -> float:
    (cost, wrong, _), (more, less, _) = hull[max(place - 1, 0)], hull[min(place + 1, len(hull) - 1)]
    return (wrong - less) / max(more - cost, 1e-12)


def _improve(
    combined: Combined, costs: Floats, cascade: ThresholdCascade, levels: list[float], price: float
) -> ThresholdCascade:
    """Improve one threshold at a time."""

    def objective(each: ThresholdCascade) -> float:
        return float(np.dot(replay(combined, costs, each), (price, 1.0)))

    for place in list(range(len(cascade.thresholds))) * SWEEPS:
        own = cascade.thresholds
        tried = [ThresholdCascade(cascade.members, (*own[:place], level, *own[place + 1 :])) for level in levels]
        cascade = min((cascade, *tried), key=objective)
    return cascade


def measure_area(points: Sequence[tuple[float, float]], ends: tuple[float, float]) -> float:
    """Return the mean error over costs between two ends, from (cost, error) points and mixtures of neighbors."""
    costs, errors = np.array(sorted(points)).T
    return float(np.interp(np.linspace(*ends, 201), costs, errors).mean())


def compare_areas(train: Trace, test: Trace, ends: tuple[float, float], seed: int) -> tuple[float, bool]:
    """Return the area of stacked cascades on the test half, and whether cross-validation prefers them."""
    answers, asked = Answers.from_trace(train), Answers.from_trace(test)
    fold = np.random.default_rng(seed).permutation(train.rows) % FOLDS
    crossed = cross_fit(answers, fold)
    fresh = combine(answers, asked)
    points = [replay(fresh, asked.costs, cascade) for _, _, cascade in search(crossed, answers.costs)]
    gains = _gains_by_fold(train, answers, crossed, fold)
    is_better = float(gains.mean()) > float(gains.std(ddof=1)) / FOLDS**0.5
    return measure_area(points, ends), is_better


def _gains_by_fold(train: Trace, answers: Answers, crossed: Combined, fold: Int64s) -> Floats:
    """Return the area that stacking saves on each fold, with thresholds of the other folds, (folds,)."""
    parts = [(np.flatnonzero(fold != part), np.flatnonzero(fold == part)) for part in range(FOLDS)]
    _, _, outcomes = fit_frontier(train, CascadeOptions(), parts, lambda _: None)
    hull = lower_hull(outcomes.costs.mean(axis=1), 1 - outcomes.right.mean(axis=1))
    means, gains = answers.costs.mean(axis=0), []
    for others, own in parts:
        some, rest = ({chosen: (a[rows], b[rows]) for chosen, (a, b) in crossed.items()} for rows in (own, others))
        points = [replay(some, answers.costs[own], each) for _, _, each in search(rest, answers.costs[others])]
        last = [(float(outcomes.costs[i, own].mean()), float(1 - outcomes.right[i, own].mean())) for i in hull]
        ends = float(means.min()), float(means.max())
        gains.append(measure_area(last, ends) - measure_area(points, ends))
    return np.array(gains)
