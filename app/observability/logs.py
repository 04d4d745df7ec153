"""The log: where it goes, and in which format."""

import json
import logging
import os
import sys
import time

from app.settings import misspelled_settings

UTC = "%Y-%m-%dT%H:%M:%S"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, UTC) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(level: str, style: str) -> None:
    """Send our log and the server's to standard error, in one format."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s %(message)s", UTC)
    formatter = JsonFormatter() if style == "json" else text
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("rq").setLevel("WARNING")


def warn_of_misspelt() -> None:
    """Log which variables of the environment are no settings, but nearly."""
    for name, meant in misspelled_settings(os.environ).items():
        logging.getLogger("parsimony").warning(
            "%s is not a known setting and is ignored; did you mean %s?", name, meant
        )
