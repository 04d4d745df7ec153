"""Pagination of lists: limit, cursor, next cursor, and total."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from app.store.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="maximum number of items per page", examples=[20])]
Cursor = Annotated[
    str | None,
    Query(
        description="`next` of the previous page; omitted: the first page",
        examples=[None],  # a page that fills examples in leaves it empty: a cursor of one list is none of another
    ),
]
DEFAULT_LIMIT = DEFAULT_PAGE_SIZE


class PageFields(BaseModel):
    """Fields of each page in addition to its items."""

    next: Annotated[
        str | None,
        Field(description="cursor of the next page; null: this is the last page", examples=["YnVpbGQ6MTI"]),
    ]
    total: Annotated[int, Field(description="number of items on all pages", examples=[250])]
