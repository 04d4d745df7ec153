"""The golden list of messages is what the code has."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = "python tools/list_messages.py > tests/golden/messages.txt"


def test_the_golden_list_has_each_message() -> None:
    command = [sys.executable, "tools/list_messages.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    golden = (ROOT / "tests" / "golden" / "messages.txt").read_text().splitlines()
    new, gone = sorted({*listed} - {*golden}), sorted({*golden} - {*listed})
    assert listed == golden, f"review the changes, then renew the list: {COMMAND}\nnew: {new}\ngone: {gone}"
