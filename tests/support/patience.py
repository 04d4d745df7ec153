"""How long tests wait for events: limits are generous, and scale by one setting on a machine that is busy."""

import os

PATIENCE = float(os.environ.get("TEST_PATIENCE", "6"))
"""By how much limits exceed what an idle machine needs; ``TEST_PATIENCE=20 make test-all`` if it is very busy."""


def patient(seconds: float) -> float:
    """Give a limit for what takes at most so long on an idle machine."""
    return seconds * PATIENCE
