"""Shared code of routes that store datasets from forms."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData

from app.http.json_bodies import refuse_other_types
from app.routes.entity_tags import make_etag
from app.routes.forms import read_form, room_on_disk
from models import Fault, InvalidRequest
from models.stored_dataset import StoredDataset

PART_BYTES = 2**20
"""Largest size of a part without a file."""
T = TypeVar("T")


async def receive_form(request: Request, form_name: str, parts: Sequence[str], store: Callable[[FormData], T]) -> T:
    """Receive a form, store its parts in a thread, and return the result of ``store``.

    Raises:
        InvalidRequest: the form is malformed, or has a part that is not among ``parts``.
        UnsupportedMediaType: the request is not a form.
    """
    refuse_other_types(request, "multipart/form-data")
    with room_on_disk():
        form = await read_form(request, len(parts), PART_BYTES)
        try:
            unknown = sorted(set(form) - set(parts))
            if unknown:
                message = f"is not a part of {form_name}; available: {', '.join(parts)}"
                raise InvalidRequest.from_faults(Fault((unknown[0],), message))
            return await asyncio.to_thread(store, form)
        finally:
            await form.close()


def reply_stored(stored: StoredDataset) -> JSONResponse:
    """Return the reply to a stored dataset: 200 if it replaced one, else 201, with its entity tag."""
    status = 200 if stored.replaced else 201
    return JSONResponse(stored.model_dump(mode="json"), status, {"ETag": make_etag(stored.sha256)})
