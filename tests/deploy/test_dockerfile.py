"""The Dockerfile is whole: what it copies is there, and it starts what exists, as nobody in particular."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.documents import ROOT, arguments, image_environment, instructions

COPIES = [rest.split() for rest in arguments("COPY")]
SOURCES = [source for copy in COPIES if not copy[0].startswith("--from") for source in copy[:-1]]


def _ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path from the build; the last rule that fits decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line == "*":
            ignored = True
        elif line.startswith("!") and (path == line[1:] or path.startswith(f"{line[1:]}/")):
            ignored = False
        elif line.startswith("**/") and line[3:] in Path(path).parts:
            ignored = True
    return ignored


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_copied_exists_and_reaches_the_build(source: str) -> None:
    assert (ROOT / source).exists()
    assert not _ignored(source)
    for path in (".git/config", ".venv/bin/python", ".env", "tests/oracles/cascade.py", "app/__pycache__/x.pyc"):
        assert _ignored(path)


def test_all_that_is_installed_is_locked() -> None:
    parts = [part for rest in arguments("RUN") for part in rest.split("&&")]
    installs = [part for part in parts if re.search(r"pip (--python \S+ )?install", part)]
    assert len(installs) == 3
    assert all("--require-hashes" in part or "--no-deps /wheels/*.whl" in part for part in installs)


def test_the_build_backend_is_found_in_the_developers_lock() -> None:
    script = next(part.strip() for rest in arguments("RUN") for part in rest.split("&&") if "sed -n" in part)
    command = script.partition(">")[0]
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"setuptools==[\d.]+ \\\n(\s+--hash=sha256:[0-9a-f]{64}( \\)?\n)+", done.stdout)
    assert not done.stdout.rstrip().endswith("\\")


def test_it_runs_as_a_fixed_user_who_owns_the_data() -> None:
    (user,) = arguments("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    creation = next(rest for rest in arguments("RUN") if "useradd" in rest)
    assert f"--uid {user.split(':')[0]} --gid {user.split(':')[1]}" in creation
    environment = image_environment()
    folder = environment["PARSIMONY_DATA_DIR"]
    assert creation.endswith(f"--mode=0700 {folder} {folder}/recordings {folder}/uploads")
    assert arguments("VOLUME") == [environment["PARSIMONY_DATA_DIR"]] == [environment["TMPDIR"]]
    names = [name for name, _ in instructions()]
    assert max(i for i, name in enumerate(names) if name in ("RUN", "COPY")) < names.index("USER")
