"""Kernels are compiled once where that can be kept, and work where nothing can."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from solvers.jit import python_kernel

KERNEL = """
from solvers.jit import compile_kernel

@compile_kernel()
def double(x):
    return 2 * x

@compile_kernel(cache=True)
def fourfold(x):
    return double(double(x))
"""
CALL = "from kernel import fourfold; print(fourfold(3), sum(fourfold.stats.cache_hits.values()))"
NOWHERE = """
from numba.core import caching
for each in caching.CacheImpl._locator_classes:
    each.from_function = classmethod(lambda cls, *given: None)
"""
"""What numba finds where neither the module's folder nor the user's can be written; root can write everywhere."""
FULL = """
from numba.core import caching
def full(*given):
    raise OSError(28, "No space left on device")
caching.Cache._save_overload = full
"""


def run(folder: Path, before: str = "") -> str:
    """Call a small kernel in a process of its own: what it gives, and whether it was compiled before."""
    (folder / "kernel.py").write_text(KERNEL)
    paths = {"PYTHONPATH": f"{folder}:{Path.cwd()}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", before + CALL], capture_output=True, text=True, env=paths)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_second_process_takes_what_the_first_compiled(tmp_path: Path) -> None:
    assert run(tmp_path) == "12 0\n"
    assert run(tmp_path) == "12 1\n"


@pytest.mark.slow
def test_damaged_files_are_compiled_anew(tmp_path: Path) -> None:
    run(tmp_path)
    files = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".nbi", ".nbc"}
    for file in files:
        file.write_bytes(b"" if file.suffix == ".nbi" else b"\x80" * 99)
    assert run(tmp_path) == "12 0\n"
    assert run(tmp_path) == "12 1\n"


@pytest.mark.slow
def test_where_nothing_can_be_written_every_process_compiles(tmp_path: Path) -> None:
    assert run(tmp_path, NOWHERE) == run(tmp_path, NOWHERE) == "12 0\n"
    assert not (tmp_path / "cache").exists()


def test_what_is_kept_is_code_so_it_is_kept_nowhere_but_beside_the_module_or_where_told(tmp_path: Path) -> None:
    """Not in a folder of the user, or of data: whoever can write there must not be able to run code."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    nowhere = "import os\nos.access = lambda *given, **named: False\n"
    home = tmp_path / "home"
    paths = {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    subprocess.run([sys.executable, "-B", "-c", nowhere + CALL], check=True, env=paths, capture_output=True)
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.mark.slow
def test_a_full_disk_costs_the_cache_alone(tmp_path: Path) -> None:
    assert run(tmp_path, FULL) == "12 0\n"


def test_an_uncompiled_kernel_is_plain_python_and_loads_no_numba() -> None:
    code = "import sys; from solvers.jit import python_kernel; python_kernel('solvers.index.crossings_kernel')"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'numba' not in sys.modules"], check=True)
    kernel = python_kernel("solvers.index.crossings_kernel")
    assert kernel.evaluate_polynomial(np.array([1.0, 2.0]), 1, 3.0) == 7.0
    assert not hasattr(kernel.evaluate_polynomial, "py_func")
