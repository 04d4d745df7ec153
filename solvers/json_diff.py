"""Describes the differences between two JSON values in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from models.version_diff import VersionChange

NAMING_FIELDS = ("name", "classifier")
"""Fields that name an entry of a list, so that it is compared with the entry of the same name."""
MAX_LIST_LENGTH = 20
"""Longer lists are tables of numbers, which are not compared."""


def list_changes(before: Any, after: Any, what: str = "") -> Iterator[VersionChange]:
    """Yield the values that differ between two JSON values.

    Lists of named entries are compared by entry and by order. Lists of other objects and long lists are skipped.
    Numbers that agree in four digits are treated as equal.

    >>> one = {"steps": [{"name": "small", "threshold": 0.8}]}
    >>> [change.what for change in list_changes(one, {"steps": [{"name": "small", "threshold": 0.7}]})]
    ['threshold of small']
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from list_changes(before.get(key), after.get(key), _join(what, str(key)))
    elif _has_names(before) and _has_names(after):
        yield from _compare_entries(_by_name(before), _by_name(after), what)
    elif _is_plain(before) and _is_plain(after) and _rounded(before) != _rounded(after):
        yield VersionChange(what=what, before=before, after=after)


def _compare_entries(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> Iterator[VersionChange]:
    if list(before) != list(after):
        yield VersionChange(what=what, before=list(before), after=list(after))
    for name in before:
        if name in after:
            for change in list_changes(before[name], after[name]):
                yield change.model_copy(update={"what": f"{change.what} of {name}"})


def _join(what: str, key: str) -> str:
    words = key.replace("_", " ")
    return f"{what} {words}" if what else words


def _naming_field(entry: Any) -> str | None:
    return next((name for name in NAMING_FIELDS if isinstance(entry, Mapping) and name in entry), None)


def _has_names(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(_naming_field(entry) is not None for entry in value)


def _by_name(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    named = ((str(_naming_field(entry)), entry) for entry in entries)
    return {str(entry[field]): {key: one for key, one in entry.items() if key != field} for field, entry in named}


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, a text, or a short list of these."""
    if isinstance(value, list | tuple):
        return len(value) <= MAX_LIST_LENGTH and all(not isinstance(one, Mapping | list | tuple) for one in value)
    return not isinstance(value, Mapping)


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return f"{value:.4g}" if isinstance(value, float | int) and not isinstance(value, bool) else value
