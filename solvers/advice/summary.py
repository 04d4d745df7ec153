"""The advice in a sentence, and the short names in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.advice import AdviceLimits, KindAdvice
from models.savings import SimpleBaseline, format_share


def format_query(query: Mapping[str, Any]) -> str:
    """Write a query in short.

    >>> format_query({"budget": 2.5}), format_query({"deadline": 1 / 3})
    ('budget=2.5', 'deadline=0.3333')
    """
    return " ".join(f"{name}={value:.4g}" for name, value in query.items())


def format_limits(limits: AdviceLimits, unit: str) -> str:
    """Say what was asked for.

    >>> format_limits(AdviceLimits(budget=5, min_accuracy=0.9), "ms"), format_limits(AdviceLimits(), "ms")
    ('For at most 5 ms an item and at least 90 % right', 'For the least cost at nearly the best accuracy')
    """
    asked = []
    if limits.budget is not None:
        asked.append(f"at most {limits.budget:g} {unit} an item")
    if limits.deadline is not None:
        asked.append(f"never more than {limits.deadline:g} {unit}")
    if limits.min_accuracy is not None:
        asked.append(f"at least {100 * limits.min_accuracy:g} % right")
    return f"For {' and '.join(asked)}" if asked else "For the least cost at nearly the best accuracy"


def write_summary(
    limits: AdviceLimits,
    unit: str,
    methods: Sequence[KindAdvice],
    simple: SimpleBaseline | None,
    late: Sequence[str] = (),
    *,
    reached: bool = True,
) -> tuple[str, str]:
    """Say what to take, and why: its name, and the sentence. simple: the best alternative within the limits; late: the
    methods for which there was not enough time; reached: whether anything was accurate enough where rows chose."""
    take, sentence = _taken(limits, unit, methods, simple) if reached else _nearest(limits, unit, methods, simple)
    untried = f" There was not enough time for {_listed(late)}: give more." if late else ""
    return take, sentence + untried


def _nearest(
    limits: AdviceLimits, unit: str, methods: Sequence[KindAdvice], simple: SimpleBaseline | None
) -> tuple[str, str]:
    """Say that nothing is accurate enough, and what is the most accurate."""
    best = next((one for one in methods if one.verdict == "best" and one.accuracy is not None), None)
    within = f"{format_limits(limits, unit)} there is nothing that is right so often"
    if best is not None and (simple is None or (best.accuracy or 0.0) >= simple.accuracy):
        return best.kind, f"{within}; the most accurate is the {best.kind}: {_figures(best, unit)}."
    if simple is None:
        return "nothing", f"{within}: every method and every simple alternative is beyond these limits."
    return simple.name, f"{within}; the most accurate is {_simple(simple, unit)}."


def _taken(
    limits: AdviceLimits, unit: str, methods: Sequence[KindAdvice], simple: SimpleBaseline | None
) -> tuple[str, str]:
    asked = format_limits(limits, unit)
    best = next((one for one in methods if one.verdict == "best"), None)
    if best is None and simple is None:
        return "nothing", f"{asked} there is nothing: every method and every simple alternative is beyond these limits."
    if best is None:
        assert simple is not None
        none = "no method is within these limits" if methods else "no method could be built"
        return simple.name, f"{asked} take {_simple(simple, unit)}; {none}."
    level = [one.kind for one in methods if one.verdict == "similar"]
    instead = _instead(best, limits, simple)
    if instead is not None:
        what = f"{_simple(instead, unit)}{_shortfall(instead.accuracy, limits)}"
        return instead.name, f"{asked} take {what}; {_nothing_better([best.kind, *level])}."
    same = f"; {_listed(level)} cannot be told apart from it" if level else ""
    short = _shortfall(best.accuracy, limits)
    return best.kind, f"{asked} take the {best.kind}: {_figures(best, unit)}{short}{same}."


def _shortfall(accuracy: float | None, limits: AdviceLimits) -> str:
    """Say where the rows that report show less than was asked for."""
    if accuracy is None or limits.min_accuracy is None or accuracy >= limits.min_accuracy:
        return ""
    return f" (the rows that chose it said {100 * limits.min_accuracy:g} %, these are others; ask for a little more)"


def _instead(best: KindAdvice, limits: AdviceLimits, simple: SimpleBaseline | None) -> SimpleBaseline | None:
    """Give the simple alternative that is as good by what can be shown, and keeps the budget: the one that the method
    is held against, else the best within the limits if it may be as accurate."""
    savings = best.savings
    if savings is None or savings.verdict == "significant":
        return None
    wanted = min(limits.min_accuracy or 0.0, best.accuracy or 0.0)
    if (limits.budget is None or savings.baseline.cost <= limits.budget) and savings.baseline.accuracy >= wanted:
        return savings.baseline
    low = best.accuracy_interval[0] if best.accuracy_interval else 0.0
    return simple if simple is not None and simple.accuracy >= max(low, wanted) else None


def _simple(simple: SimpleBaseline, unit: str) -> str:
    return f"{simple.name}: {simple.accuracy:.1%} right for {simple.cost:.4g} {unit} an item"


def _nothing_better(methods: Sequence[str]) -> str:
    verb = "is" if len(methods) == 1 else "are"
    return f"no method is better by what these rows can show ({_listed(methods)} {verb} nearest)"


def _figures(best: KindAdvice, unit: str) -> str:
    right = f"{best.accuracy:.1%} right for {best.cost:.4g} {unit} an item"
    if best.savings is None:
        return f"{right}; no simple alternative keeps the deadline"
    if best.savings.has_savings:
        share = format_share(best.savings.saved, best.savings.saved_interval)
        return f"{right}, saves {share} compared with {best.savings.baseline.name}"
    if best.savings.verdict == "significant":
        low, high = (100 * bound for bound in best.savings.gained_interval)
        gained = f"{100 * best.savings.gained:.1f} points ({low:.1f} to {high:.1f})"
        return f"{right}, {gained} more than the same cost buys otherwise"
    return f"{right}; nothing can be shown beside {best.savings.baseline.name}, which is beyond the budget"


def _listed(names: Sequence[str]) -> str:
    """List methods.

    >>> _listed(["index"]), _listed(["index", "policy", "pipeline"])
    ('the index', 'the index, the policy and the pipeline')
    """
    spoken = [f"the {name}" for name in names]
    return spoken[0] if len(spoken) == 1 else f"{', '.join(spoken[:-1])} and {spoken[-1]}"
