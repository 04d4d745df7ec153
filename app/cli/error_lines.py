"""Error messages of the command line."""

from pydantic import ValidationError

from models.errors import InvalidRequest, ParsimonyError


def format_error_line(error: Exception) -> str | None:
    """Return an error's message in one line; None if the error is a bug."""
    match error:
        case ParsimonyError():
            return str(error)
        case ValidationError():
            where, colon, message = str(InvalidRequest.from_validation(error.errors()[:1])).partition(": ")
            return (
                f"PARSIMONY_{where.upper()}{colon}{message}" if error.title == "Settings" else where + colon + message
            )
        case OSError():
            return f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
        case _:
            return None
