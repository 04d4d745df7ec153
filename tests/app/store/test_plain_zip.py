"""The plain form of zip: byte for byte what ``zipfile`` writes, and nothing else is taken for it."""

import io
import zipfile

from hypothesis import given
from hypothesis import strategies as st

from app.store import plain_zip
from solvers.stored_zip import write_stored_zip

NAMES = st.text(st.characters(codec="ascii", exclude_characters="/\\\x00"), min_size=1, max_size=20)
ENTRIES = st.dictionaries(NAMES, st.binary(max_size=200), max_size=8)


@given(ENTRIES)
def test_it_is_what_zipfile_writes_and_reads(entries: dict[str, bytes]) -> None:
    data = plain_zip.write(entries)
    assert data == write_stored_zip(entries)
    assert plain_zip.read(data) == entries
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == entries


@given(ENTRIES.filter(bool), st.data())
def test_whatever_differs_by_a_byte_is_something_else(entries: dict[str, bytes], data: st.DataObject) -> None:
    whole = plain_zip.write(entries)
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    unpacked = plain_zip.read(bytes(changed))
    assert unpacked is None or (unpacked != entries and plain_zip.write(unpacked) == changed)
    for other in (whole[:place], whole + b"x", b"x" + whole, whole[:place] + b"y" + whole[place:]):
        unpacked = plain_zip.read(other)
        assert unpacked is None or plain_zip.write(unpacked) == other


def test_names_that_are_not_ascii_and_compressed_entries_are_none() -> None:
    assert plain_zip.read(write_stored_zip({"\u00e9": b"x"})) is None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"x" * 99)
    assert plain_zip.read(out.getvalue()) is None
