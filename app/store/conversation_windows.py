"""Conversation windows of datasets and builds, which must be equal."""

from models import DatasetFacts, Fault, InvalidRequest, TraceSpec, Value
from models.conversation import ConversationOptions, ConversationWindow
from solvers import AnyKind


def fill_conversation_options(kind: AnyKind, options: Value, facts: DatasetFacts) -> Value:
    """Return the options of a build; the dataset's conversation options are the default."""
    window = _find_window(kind, options, facts)
    if window is None or getattr(options, "conversation", None) is not None:
        return options
    return options.model_copy(update={"conversation": ConversationOptions(**window.model_dump())})


def require_same_window(kind: AnyKind, options: Value, facts: DatasetFacts) -> None:
    """Raise InvalidRequest if requests would be embedded unlike the dataset's conversations."""
    window, requested = _find_window(kind, options, facts), getattr(options, "conversation", None)
    if window is not None and requested is not None and requested.window != window:
        message = f"must be that of the dataset, {window.model_dump_json()}, got {requested.window.model_dump_json()}"
        raise InvalidRequest.from_faults(Fault(("params", "conversation"), message))


def _find_window(kind: AnyKind, options: Value, facts: DatasetFacts) -> ConversationWindow | None:
    """Return the conversation window of a dataset; None if the build uses no embeddings."""
    uses_embeddings = kind.needs_embeddings or getattr(options, "embeds", False)
    return facts.spec.conversation if uses_embeddings and isinstance(facts.spec, TraceSpec) else None
