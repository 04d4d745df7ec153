"""Archives that are the same bytes whenever and wherever the same is written."""

import io
import zipfile
from collections.abc import Mapping

_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_stored_zip(entries: Mapping[str, bytes]) -> bytes:
    """Write an uncompressed zip of these entries, in their order, all of one date."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3  # else the byte would tell the platform it was written on
            archive.writestr(info, data)
    return out.getvalue()
