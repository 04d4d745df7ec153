"""Messages of the command line for errors of the user or the environment."""

from pydantic import ValidationError

from models.errors import ParsimonyError


def refusal_of(error: Exception) -> str | None:
    """Return the message of an error in one line; None for a fault of the program."""
    match error:
        case ParsimonyError():
            return str(error)
        case ValidationError():
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            return (
                f"PARSIMONY_{where.upper()}: {first['msg']}"
                if error.title == "Settings"
                else f"{where}: {first['msg']}"
            )
        case OSError():
            return f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
        case _:
            return None
