"""Text of the advice: the recommendation and its reason in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.advice import AdviceLimits, KindAdvice
from models.savings import SimpleBaseline, format_share


def format_query(query: Mapping[str, Any]) -> str:
    """Format a query.

    >>> format_query({"budget": 2.5}), format_query({"deadline": 1 / 3})
    ('budget=2.5', 'deadline=0.3333')
    """
    return " ".join(f"{name}={value:.4g}" for name, value in query.items())


def format_limits(limits: AdviceLimits, unit: str, *, has_losses: bool = False, has_log: bool = False) -> str:
    """Format limits as the start of a sentence.

    >>> format_limits(AdviceLimits(budget=5, min_accuracy=0.9), "ms"), format_limits(AdviceLimits(), "ms")
    ('For at most 5 ms per item and at least 90 % accuracy', 'For the lowest cost at nearly the best accuracy')
    """
    parts = []
    if limits.budget is not None:
        parts.append(f"at most {limits.budget:g} {unit} per item")
    if limits.deadline is not None:
        parts.append(f"never more than {limits.deadline:g} {unit}")
    if limits.min_accuracy is not None:
        parts.append(f"at least {100 * limits.min_accuracy:g} % accuracy")
    without = f"For the lowest cost at {'the accuracy of the log' if has_log else 'nearly the best accuracy'}"
    return f"For {' and '.join(parts)}" if parts else "For the lowest cost and loss" if has_losses else without


def write_summary(
    limits: AdviceLimits,
    unit: str,
    kinds: Sequence[KindAdvice],
    simple: SimpleBaseline | None,
    late: Sequence[str] = (),
    *,
    reached: bool = True,
    has_log: bool = False,
) -> tuple[str, str]:
    """Return the recommended kind or baseline, and the reason as a sentence.

    Args:
        simple: the best baseline within the limits.
        late: kinds that exceeded the time limit.
        reached: whether any kind or baseline reached the wanted accuracy on validation rows.
        has_log: whether the calls of a log are among the baselines.
    """
    has_losses = any(one.loss is not None for one in kinds) or (simple is not None and simple.loss is not None)
    start = format_limits(limits, unit, has_losses=has_losses, has_log=has_log)
    write = _write_recommendation if reached else _write_nearest
    recommended, sentence = write(start, limits, unit, kinds, simple)
    hint = f" Time limit exceeded for {_join_names(late)}; increase it." if late else ""
    return recommended, sentence + hint


def _write_nearest(
    start: str, limits: AdviceLimits, unit: str, kinds: Sequence[KindAdvice], simple: SimpleBaseline | None
) -> tuple[str, str]:
    """Recommend the most accurate alternative if none reaches the requested accuracy."""
    best = next((one for one in kinds if one.verdict == "best" and one.accuracy is not None), None)
    start = f"{start}, nothing is accurate enough"
    if best is not None and (simple is None or (best.accuracy or 0.0) >= simple.accuracy):
        return best.kind, f"{start}; the most accurate is the {best.kind}: {_format_figures(best, unit)}."
    if simple is None:
        return "nothing", f"{start}: every kind and every baseline exceeds these limits."
    return simple.name, f"{start}; the most accurate is {_format_baseline(simple, unit)}."


def _write_recommendation(
    start: str, limits: AdviceLimits, unit: str, kinds: Sequence[KindAdvice], simple: SimpleBaseline | None
) -> tuple[str, str]:
    best = next((one for one in kinds if one.verdict == "best"), None)
    if best is None and simple is None:
        return "nothing", f"{start}, every kind and every baseline exceeds these limits."
    if best is None:
        assert simple is not None
        none = "no kind is within these limits" if kinds else "no kind could be built"
        return simple.name, f"{start}, use {_format_baseline(simple, unit)}; {none}."
    similar = [one.kind for one in kinds if one.verdict == "similar"]
    baseline = _find_equal_baseline(best, limits, simple)
    if baseline is not None:
        text = f"{_format_baseline(baseline, unit)}{_format_shortfall(baseline.accuracy, limits)}"
        return baseline.name, f"{start}, use {text}; {_no_better_kind([best.kind, *similar])}."
    same = f"; not significantly different: {_join_names(similar)}" if similar else ""
    short = _format_shortfall(best.accuracy, limits)
    return best.kind, f"{start}, use the {best.kind}: {_format_figures(best, unit)}{short}{same}."


def _format_shortfall(accuracy: float | None, limits: AdviceLimits) -> str:
    """Explain a holdout accuracy below the requested one."""
    if accuracy is None or limits.min_accuracy is None or accuracy >= limits.min_accuracy:
        return ""
    return f" (on validation rows it reached {100 * limits.min_accuracy:g} %; request a little more)"


def _find_equal_baseline(
    best: KindAdvice, limits: AdviceLimits, simple: SimpleBaseline | None
) -> SimpleBaseline | None:
    """Return a baseline within the budget that is not significantly worse than the best kind, if any."""
    savings = best.savings
    if savings is None or savings.verdict == "significant":
        return None
    wanted = min(limits.min_accuracy or 0.0, best.accuracy or 0.0)
    if (limits.budget is None or savings.baseline.cost <= limits.budget) and savings.baseline.accuracy >= wanted:
        return savings.baseline
    low = best.accuracy_interval[0] if best.accuracy_interval else 0.0
    return simple if simple is not None and simple.accuracy >= max(low, wanted) else None


def _format_baseline(simple: SimpleBaseline, unit: str) -> str:
    return f"{simple.name}: {_format_outcome(simple, unit)}"


def _format_outcome(one: SimpleBaseline | KindAdvice, unit: str) -> str:
    if one.loss is None:
        return f"{one.accuracy:.1%} accuracy for {one.cost:.4g} {unit} per item"
    return f"a cost of {one.cost:.4g} and a loss of {one.loss:.4g} {unit} per item"


def _no_better_kind(kinds: Sequence[str]) -> str:
    return f"no kind is significantly better (closest: {_join_names(kinds)})"


def _format_figures(best: KindAdvice, unit: str) -> str:
    figures = _format_outcome(best, unit)
    if best.savings is None:
        return f"{figures}; no baseline meets the deadline"
    if best.savings.has_savings:
        share = format_share(best.savings.saved, best.savings.saved_interval)
        return f"{figures}, saves {share} compared with {best.savings.baseline.name}"
    if best.savings.verdict == "significant":
        low, high = (100 * bound for bound in best.savings.gained_interval)
        gained = f"{100 * best.savings.gained:.1f} points ({low:.1f} to {high:.1f})"
        return f"{figures}, {gained} more accurate than baselines at the same cost"
    return f"{figures}; no significant savings compared with {best.savings.baseline.name}, which exceeds the budget"


def _join_names(names: Sequence[str]) -> str:
    """Join names of kinds.

    >>> _join_names(["index"]), _join_names(["index", "policy"]), _join_names(["index", "policy", "pipeline"])
    ('the index', 'the index and the policy', 'the index, the policy, and the pipeline')
    """
    parts = [f"the {name}" for name in names]
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
