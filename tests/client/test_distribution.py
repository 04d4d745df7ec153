"""The client's own distribution: built as a wheel, it holds the package alone, and needs nothing of the server."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.servers import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "parsimony"
    shutil.copytree(ROOT / "parsimony", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('..'))"
    built = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True, timeout=120
    )
    return folder / built.stdout.split()[-1]


def test_it_holds_the_package_and_requires_httpx_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"parsimony"}
    assert {"parsimony/py.typed", "parsimony/estimators/__init__.py"} <= {*names}
    required = [line.split(":")[1].strip() for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [one.partition(">")[0] for one in required] == ["httpx"]
    assert wheel.stat().st_size < 100_000


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the client, and what it requires, from the files of ``make install``."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    python, uv = folder / "bin" / "python", Path(sys.executable).with_name("uv")
    cache = {"UV_CACHE_DIR": str(ROOT / ".cache" / "uv")}
    done = subprocess.run(
        [uv, "pip", "install", "--offline", "--quiet", "--python", python, wheel],
        env=os.environ | cache,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "--offline" in done.stderr or "not in the cache" in done.stderr or "was not found in the cache" in done.stderr:
        pytest.skip("the files of httpx are missing; run make install")
    assert done.returncode == 0, done.stderr
    return python


def test_it_runs_in_an_empty_environment_of_a_few_megabytes(python: Path, all_kinds: Server) -> None:
    script = f"""
import parsimony
functions = dict.fromkeys(("fast", "middle", "strong"), lambda item: ("cat", 0.99))
with parsimony.Parsimony({all_kinds.url!r}, key="k") as client:
    print(client.cascade("plan").run("an item", functions).label)
try:
    parsimony.load("plan.parsimony")
except parsimony.ParsimonyError as error:
    print(error.code)
"""
    ran = subprocess.run(
        [python, "-I", "-c", script], capture_output=True, text=True, timeout=60, cwd=python.parent, check=True
    )
    assert ran.stdout.split() == ["cat", "server-missing"]
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    installed = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
    assert installed < 10_000_000


def test_packages_of_the_caller_named_as_the_servers_are_not_imported(wheel: Path, tmp_path: Path) -> None:
    """A project with its own ``models`` and ``app`` uses the client; ``load`` names what is in the way."""
    for name in ("models", "app", "solvers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    script = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(wheel)!r}]
import parsimony
assert not {{"models", "app", "solvers"}} & sys.modules.keys(), "imported"
try:
    parsimony.load("plan.parsimony")
except parsimony.ParsimonyError as error:
    print(error.code, error)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("server-missing")
    assert str(tmp_path / "app") in ran.stdout
