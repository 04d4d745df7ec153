"""Every example in a docstring of the three packages returns what it shows."""

import doctest
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import app
import models
import solvers


def with_examples() -> list[str]:
    names = [
        module.name
        for package in (models, solvers, app)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.endswith("__main__")
    ]
    specs = [spec for spec in map(find_spec, names) if spec is not None and spec.origin is not None]
    return sorted(spec.name for spec in specs if ">>> " in Path(spec.origin or "").read_text())


MODULES = with_examples()


@pytest.mark.parametrize("name", MODULES)
def test_examples_return_what_they_show(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0
    assert tried > 0


def test_models_and_solvers_have_examples() -> None:
    for package in ("models.", "solvers."):
        assert sum(name.startswith(package) for name in MODULES) >= 5
