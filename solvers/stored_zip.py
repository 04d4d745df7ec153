"""Reproducible zip archives: equal entries give equal bytes on every platform."""

import io
import zipfile
from collections.abc import Mapping

_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_stored_zip(entries: Mapping[str, bytes]) -> bytes:
    """Return an uncompressed zip of entries in their order, with a fixed date."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3  # independent of the platform
            archive.writestr(info, data)
    return out.getvalue()
