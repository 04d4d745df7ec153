"""Checks of build options that concern chats."""

from models import Fault, InvalidRequest
from models.chat_options import DECIDE, STRONGEST, ChatOptions
from models.dataset import DatasetFacts


def check_tool_rule(facts: DatasetFacts, options: ChatOptions) -> None:
    """Raise InvalidRequest if turns with tools are for a classifier that the dataset does not have."""
    known = (DECIDE, STRONGEST, *facts.classifiers)
    if options.tools not in known:
        raise InvalidRequest.from_faults(Fault(("tools",), f"must be one of {', '.join(known)}, got {options.tools!r}"))
