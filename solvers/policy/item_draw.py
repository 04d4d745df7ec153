"""Random decisions by item id: equal ids always take the same path."""

from dataclasses import dataclass
from hashlib import sha256

from solvers.budget_mixture import tie_break_from_id


@dataclass(frozen=True, slots=True)
class ItemDraw:
    """Random numbers of an item, derived from its id.

    Attributes:
        member: the member that decides for the item.
        uniform: in [0, 1); without an id 1, so that the cheaper of two points is used.
    """

    member: int
    uniform: float

    @classmethod
    def from_item(cls, item: str | None, members: int) -> "ItemDraw":
        """Derive the random numbers from a hash of the item's id, equal on any machine.

        >>> ItemDraw.from_item("a", 5) == ItemDraw.from_item("a", 5), ItemDraw.from_item(None, 5)
        (True, ItemDraw(member=0, uniform=1.0))
        """
        if item is None:
            return cls(0, 1.0)
        digest = sha256(item.encode("utf-8", "surrogatepass")).digest()
        return cls(int.from_bytes(digest[:8]) % members, tie_break_from_id(item))
