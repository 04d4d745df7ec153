"""Every example in a docstring of the three packages runs and says what it shows."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import app
import models
import solvers

MODULES = sorted(
    module.name
    for package in (models, solvers, app)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_hold(name: str) -> None:
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_there_are_examples_in_models_and_solvers() -> None:
    finder = doctest.DocTestFinder()
    counts = {
        package: sum(
            len(test.examples)
            for name in MODULES
            if name.startswith(package)
            for test in finder.find(import_module(name))
        )
        for package in ("models.", "solvers.")
    }
    assert min(counts.values()) >= 5, counts
