"""Shared code of routes that store datasets from forms."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData

from app.http.json_bodies import require_media_type
from app.routes.entity_tags import make_etag
from app.routes.forms import read_form
from app.store.disk_space import require_disk_space
from models import Fault, InvalidRequest
from models.stored_dataset import StoredDataset

PART_BYTES = 2**20
"""Largest size of a part without a file."""
T = TypeVar("T")


async def receive_form(request: Request, form_name: str, parts: Sequence[str], store: Callable[[FormData], T]) -> T:
    """Receive a form and store its parts in a thread; return the result of ``store``.

    Raises:
        InvalidRequest: the form is malformed, or has a part that is not in ``parts``.
        UnsupportedMediaType: the request is not a form.
    """
    require_media_type(request, "multipart/form-data")
    with require_disk_space():
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
    """Return the reply to a stored dataset, with its entity tag.

    The status is 200 if it replaced a dataset, else 201.
    """
    status = 200 if stored.replaced else 201
    return JSONResponse(stored.model_dump(mode="json"), status, {"ETag": make_etag(stored.sha256)})
