"""Cases of which `make test` tries some, and `make test-all` every one."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def case_count(every: int, quick: int) -> int:
    """Return the number of cases in all tests, or in quick tests, which run in the Hypothesis profile ``quick``."""
    return quick if settings.get_current_profile_name() == "quick" else every


def first_quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Mark all cases of a parametrized test but the first ones as slow; a tuple is one case of several arguments."""
    return [
        case if place < count else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]
