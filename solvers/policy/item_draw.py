"""What chance decides about an item: by its id alone, so that the same one always takes the same path."""

from dataclasses import dataclass
from hashlib import sha256

from solvers.budget_mixture import lot_of


@dataclass(frozen=True, slots=True)
class ItemDraw:
    """What chance decides about an item, by its id alone. member: the one that decides for it; uniform: from 0 to below
    1, or 1 for an item without id, which never draws the dearer of two points."""

    member: int
    uniform: float

    @classmethod
    def from_item(cls, item: str | None, members: int) -> "ItemDraw":
        """Draw for an item; equal ids draw alike, everywhere and always.

        >>> ItemDraw.from_item("a", 5) == ItemDraw.from_item("a", 5), ItemDraw.from_item(None, 5)
        (True, ItemDraw(member=0, uniform=1.0))
        """
        if item is None:
            return cls(0, 1.0)
        digest = sha256(item.encode("utf-8", "surrogatepass")).digest()
        return cls(int.from_bytes(digest[:8]) % members, lot_of(item))
