"""Cases of which `make test` tries the first, and `make test-all` every one."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Mark all cases of a parametrized test but the first ones as slow; a tuple is one case of several arguments."""
    return [
        case if place < count else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]
