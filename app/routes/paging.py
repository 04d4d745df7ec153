"""What every list takes and gives: a limit and a cursor, the next cursor and how many items there are."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from app.store.pages import LARGEST_PAGE, USUAL_PAGE

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="items on a page, at most", examples=[20])]
Cursor = Annotated[
    str | None,
    Query(
        description="the `next` of the page before, as it was given; left out: the first page",
        examples=[None],  # a page that fills examples in leaves it empty: a cursor of one list is none of another
    ),
]
DEFAULT_LIMIT = USUAL_PAGE


class Listed(BaseModel):
    """The fields of a page in addition to its items."""

    next: Annotated[
        str | None,
        Field(description="the cursor of the next page; null: this is the last", examples=["YnVpbGQ6MTI"]),
    ]
    total: Annotated[int, Field(description="how many items there are on all pages together", examples=[250])]
