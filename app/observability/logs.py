"""Configuration of logging: stream and format."""

import json
import logging
import os
import sys
import time

from app.settings import misspelled_settings

UTC = "%Y-%m-%dT%H:%M:%S"


class JsonFormatter(logging.Formatter):
    """Log formatter that writes one JSON object per line."""

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
    """Send all logs to standard error in one format, text or JSON."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s %(message)s", UTC)
    formatter = JsonFormatter() if style == "json" else text
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("rq").setLevel("WARNING")


def log_misspelled_settings() -> None:
    """Log environment variables that look like misspelled settings."""
    for name, meant in misspelled_settings(os.environ).items():
        logging.getLogger("parsimony").warning("unknown setting ignored name=%s; did you mean %s?", name, meant)
