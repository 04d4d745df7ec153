"""What is installed: under which licences, and that an audit which audits nothing says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.patience import patient

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
FREE_FOR_ALL = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Zlib|CC0|MPL-2\.0|LGPL|Python Software Foundation|Mozilla Public License 2\.0",
    re.IGNORECASE,
)


def locked() -> dict[str, str]:
    """Give the version of each package that is installed here because of the lock."""
    lines = re.findall(r"^[a-z0-9._-]+==[^\\\n]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    wanted = [Requirement(line.strip()) for line in lines]
    here = [one for one in wanted if one.marker is None or one.marker.evaluate()]
    return {_plain(one.name): str(one.specifier).removeprefix("==") for one in here}


def listed() -> dict[str, tuple[str, str]]:
    lines = (ROOT / "deploy" / "LICENCES.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    return {_plain(name): (version, licence) for name, version, licence in rows}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the list is of what Python 3.11 installs")
def test_the_list_of_licences_is_that_of_the_lock() -> None:
    assert {name: version for name, (version, _) in listed().items()} == locked()


def test_every_licence_lets_us_keep_ours() -> None:
    assert len(listed()) > 50
    for name, (_, licence) in listed().items():
        ways = re.split(r" OR |; ", licence)
        free = [way for way in ways if FREE_FOR_ALL.search(way) and not re.search(r"(?<!L)(A?GPL)", way)]
        assert free, f"{name} is under {licence}"


def test_an_audit_that_reaches_nobody_says_that_nothing_was_audited() -> None:
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    kept = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    done = subprocess.run(
        [ROOT / "deploy" / "audit.sh"],
        env={**kept, **nowhere, "BIN": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        timeout=patient(120),
    )
    assert done.returncode == 2
    assert "NOTHING WAS AUDITED" in done.stderr
    assert done.stdout == ""
