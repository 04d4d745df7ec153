"""Build options shared by the artifact kinds that answer chats."""

from pydantic import Field

from models.base import Label, Value

DECIDE, STRONGEST = "decide", "strongest"
"""Rules for turns with tools: as any other turn, or the most expensive classifier."""


class ChatOptions(Value):
    """Build options of artifacts that answer chats."""

    tools: Label = Field(
        default=DECIDE,
        description="which classifier answers turns with tools, unless a request sets it: decide (chosen as for "
        "any other turn; invalid calls are escalated), strongest (the most expensive classifier), or the name "
        "of a classifier",
    )
