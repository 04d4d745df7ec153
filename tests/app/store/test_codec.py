"""The codec: equal values, equal bytes; whatever else is read is refused, and nothing that is read can run code."""

import hashlib
import io
import json
import math
import pickle
import struct
import tracemalloc
import zipfile
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from app.store import codec
from models import Polynomial
from models.cascade import CascadeOptions
from models.errors import CorruptArtifact

Entries = dict[str, bytes]


Number = TypeVar("Number", bound=np.generic)
Alias = TypeAliasType("Alias", np.ndarray[tuple[Any, ...], np.dtype[Number]], type_params=(Number,))


@dataclass(frozen=True)
class WithAlias:
    numbers: Alias[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    numbers: NDArray[np.float64]
    codes: NDArray[np.int32]
    names: tuple[str, ...]
    pairs: tuple[tuple[str, int], ...]
    limit: float | None
    options: CascadeOptions
    _sum: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sum", float(self.numbers.sum()))

    @property
    def sum(self) -> float:
        return self._sum


@dataclass(frozen=True)
class Other:
    limit: float | None


@dataclass(frozen=True)
class Summed:
    """A plan that compares its arrays before it knows that they can be."""

    left: NDArray[np.float64]
    right: NDArray[np.float64]

    def __post_init__(self) -> None:
        _ = self.left <= self.right


def sample(**changes: Any) -> Sample:
    values: dict[str, Any] = {
        "numbers": np.array([[0.5, 1.0], [2.0, np.nan]]),
        "codes": np.array([3, 1, 2], dtype=np.int32),
        "names": ("K1", "Kü"),
        "pairs": (("a", 1),),
        "limit": None,
        "options": CascadeOptions(deadlines=(1.0, 2.5)),
    }
    return Sample(**{**values, **changes})


def same(one: Sample, other: Sample) -> bool:
    arrays = (one.numbers, other.numbers), (one.codes, other.codes)
    equal = all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in arrays)
    return equal and all(getattr(one, n) == getattr(other, n) for n in ("names", "pairs", "limit", "options"))


def opened(data: bytes) -> Entries:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(entries: Entries, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Put entries together as ``encode`` does, with a digest that is right: what a forger can do."""
    digest = hashlib.sha256()
    for name, data in entries.items():
        if name != "sha256":
            digest.update(f"{name} {len(data)}\n".encode() + data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in (entries | {"sha256": digest.hexdigest().encode()}).items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.compress_type = compression
            archive.writestr(info, data)
    return out.getvalue()


def forged(**changes: bytes | None) -> bytes:
    """Give a sample's bytes with entries changed, added or (None) left out; ``_`` in names stands for the dot."""
    entries = opened(codec.encode(sample(), {"kind": "cascade"}))
    for name, data in changes.items():
        name = name.replace("_", ".")
        entries = {n: d for n, d in entries.items() if n != name} if data is None else entries | {name: data}
    return sealed(entries)


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def refused(data: bytes) -> str:
    with pytest.raises(CorruptArtifact) as caught:
        codec.decode(data, Sample)
    return str(caught.value)


def test_what_is_encoded_comes_back() -> None:
    """Derived fields are made again; the type of an array may be an alias, as in NumPy for Python 3.12 and later."""
    data = codec.encode(sample(), {})
    back = codec.decode(data, Sample)
    assert same(back, sample())
    assert isinstance(back.options, CascadeOptions)
    assert isinstance(back.names, tuple)
    with pytest.raises(ValueError, match="read-only"):
        back.codes[0] = 1
    assert b"_sum" not in data
    assert codec.decode(codec.encode(sample(numbers=np.array([1.0, 2.0])), {}), Sample).sum == 3.0
    assert codec.decode(codec.encode(WithAlias(np.arange(3.0)), {}), WithAlias).numbers.tolist() == [0.0, 1.0, 2.0]


def test_equal_plans_give_equal_bytes_and_different_ones_others() -> None:
    whole = codec.encode(sample(), {})
    assert codec.encode(sample(), {"a": 1, "b": 2}) == codec.encode(sample(), {"b": 2, "a": 1})
    assert codec.encode(sample(numbers=np.asfortranarray(sample().numbers)), {}) == whole
    codes = (np.arange(6, dtype=np.int32)[::2], np.array([0, 2, 4], dtype=np.int32))
    assert len({codec.encode(sample(codes=each), {}) for each in codes}) == 1
    others: list[dict[str, Any]] = [
        {"numbers": np.array([0.5])},
        {"codes": codes[0]},
        {"limit": 0.0},
        {"names": ("K1",)},
    ]
    assert whole not in [codec.encode(sample(**changes), {}) for changes in others]
    data = codec.encode(sample(), {"kind": "cascade", "seed": 3})
    assert codec.read_manifest(data) == {"format": codec.FORMAT, "type": "Sample", "kind": "cascade", "seed": 3}


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        *((sample(limit=value), ValueError) for value in (math.nan, math.inf)),
        (sample(codes=np.array([{}], dtype=object)), ValueError),
        (Polynomial(polynomial=(1.0,)), TypeError),
    ],
)
def test_what_cannot_be_read_again_is_not_written(plan: Any, error: type[Exception]) -> None:
    """A number that JSON cannot hold, an array of objects, and what is no dataclass."""
    with pytest.raises(error, match=r"not JSON compliant|Object arrays cannot be saved|is not a dataclass"):
        codec.encode(plan, {})


arrays = st.sampled_from(["<f8", "<f4", "<i4", "<i8", "|u1", "|b1", ">f8"]).flatmap(
    lambda dtype: nps.arrays(np.dtype(dtype), nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)


@given(arrays)
def test_every_array_of_numbers_comes_back(array: NDArray[Any]) -> None:
    back = codec.array_from_bytes(codec.array_to_bytes(array))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    assert back.size == array.size


@given(
    nps.arrays(np.float64, nps.array_shapes(max_dims=3, min_side=0), elements=st.floats(allow_nan=True)),
    nps.arrays(np.int32, nps.array_shapes(max_dims=2)),
    st.lists(st.text(alphabet=st.characters(codec="utf-8"))),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_every_plan_comes_back_and_encodes_to_the_same_bytes(
    numbers: NDArray[Any], codes: NDArray[Any], names: list[str], limit: float | None
) -> None:
    with np.errstate(all="ignore"):
        plan = sample(numbers=numbers, codes=codes, names=tuple(names), limit=limit)
        data = codec.encode(plan, {"names": names})
        back = codec.decode(data, Sample)
    assert same(back, plan)
    assert codec.encode(back, {"names": names}) == data


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    refused(data)
    with pytest.raises(CorruptArtifact):
        codec.read_manifest(data)


GOOD = codec.encode(sample(), {"kind": "cascade"})


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    for position in range(len(GOOD)):
        for bit in (0x01, 0x80):
            refused(GOOD[:position] + bytes([GOOD[position] ^ bit]) + GOOD[position + 1 :])


def test_bytes_cut_anywhere_are_refused() -> None:
    for end in range(len(GOOD)):
        refused(GOOD[:end])


@pytest.mark.parametrize("more", [b"\x00", b"PK", GOOD])
def test_bytes_before_or_after_are_refused(more: bytes) -> None:
    refused(GOOD + more)
    refused(more + GOOD)


@given(st.data())
def test_bytes_with_a_stretch_replaced_are_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD) - 1))
    end = data.draw(st.integers(start, len(GOOD)))
    changed = GOOD[:start] + data.draw(st.binary(max_size=60)) + GOOD[end:]
    if changed != GOOD:
        refused(changed)


@pytest.mark.parametrize("number", [0, 2, "1", None, 1.5])
def test_an_unknown_format_or_kind_is_refused_with_both(number: object) -> None:
    message = refused(forged(manifest_json=canonical({"format": number, "type": "Sample"})))
    assert f"got {number}" in message
    assert "must be 1" in message
    message = refused(codec.encode(Other(limit=None), {}))
    assert ("Other" in message, "Sample" in message) == (True, True)


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b"1", b"null", b"\xff", b'{"format":1}', b"[" * 100_000, b'{"format":1,"type":["Sample"]}'],
)
def test_a_manifest_that_is_no_object_with_format_and_kind_is_refused(manifest: bytes) -> None:
    refused(forged(manifest_json=manifest))


def test_json_that_encode_would_not_have_written_and_arrays_that_cannot_be_compared_are_refused() -> None:
    start = b'{"format":1,"type":"Sample"'
    ends = (b',"x":NaN}', b',"x":Infinity}', b',"x":"\\ud800"}', b',"type":"Sample"}')
    for manifest in (*(start + end for end in ends), start.replace(b",", b", ") + b"}"):
        with pytest.raises(CorruptArtifact, match="JSON"):
            codec.read_manifest(forged(manifest_json=manifest))
    entries = opened(codec.encode(Summed(np.zeros(2), np.ones(2)), {}))
    data = sealed(entries | {"right.npy": codec.array_to_bytes(np.ones(3))})
    with pytest.raises(CorruptArtifact, match="Summed"):
        codec.decode(data, Summed)


def fields(**changes: object) -> bytes:
    return canonical({**json.loads(opened(GOOD)["fields.json"]), **changes})


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        fields(more=1),
        fields(names="K1"),
        fields(names=[1]),
        fields(pairs=[["a"]]),
        fields(limit="x"),
        fields(options={"target_precision": 2}),
        fields(options={"surprise": 1}),
        fields(limit=0).replace(b":0", b":NaN"),
        fields(codes=[1, 2]),
        fields(_sum=1.0),
    ],
)
def test_plain_fields_that_are_missing_unknown_or_of_the_wrong_type_are_refused(plain: bytes) -> None:
    refused(forged(fields_json=plain))


PLAIN = {name: value for name, value in json.loads(fields()).items() if name != "names"}
ZEROS = codec.array_to_bytes(np.zeros(2))
FORGED: list[tuple[dict[str, bytes | None], str]] = [
    ({"codes_npy": None, "fields_json": fields(codes=[1, 2])}, "codes is a plain value"),
    ({"fields_json": canonical(PLAIN), "names_npy": ZEROS}, "names is an array"),
    ({"codes_npy": ZEROS}, "the array codes must have type int32, got float64"),
]
FORGED += [({name: None}, "") for name in ("manifest_json", "fields_json", "codes_npy", "numbers_npy")]
FORGED += [({name: ZEROS}, "") for name in ("more_npy", "more_json", "../codes_npy", "codes_npy/", "_sum.npy")]


@pytest.mark.parametrize(("changes", "reason"), FORGED)
def test_an_entry_of_another_sort_or_missing_or_too_many_is_refused(
    changes: dict[str, bytes | None], reason: str
) -> None:
    assert forged() == GOOD, "the forger can also write good bytes"
    assert reason in refused(forged(**changes))


def test_a_digest_that_is_wrong_or_missing_and_a_name_twice_are_refused() -> None:
    good = opened(GOOD)
    for entries, reason in (
        (good | {"sha256": b"0" * 64}, "the archive does not match its SHA-256"),
        ({name: data for name, data in good.items() if name != "sha256"}, "not a valid artifact archive; entries: "),
    ):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
        assert reason in refused(out.getvalue())
    out = io.BytesIO(GOOD)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(out, "a") as archive:
        archive.writestr("codes.npy", ZEROS)
    assert "the archive has duplicate entries" in refused(out.getvalue())


def test_a_compressed_entry_is_refused_before_it_is_unpacked() -> None:
    bomb = sealed(opened(GOOD) | {"codes.npy": bytes(100_000_000)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        assert refused(bomb) == "the archive must not have compressed entries"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(bomb) < 200_000
    assert peak < 5_000_000


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("unpickled",))


def test_a_pickle_is_refused_and_does_not_run() -> None:
    np.save(out := io.BytesIO(), np.array([Trap()]), allow_pickle=True)
    for data in (pickle.dumps(Trap()), np.array([Trap()]).dumps(), out.getvalue()):
        refused(data)
        refused(forged(codes_npy=data))
        refused(forged(fields_json=data))


HEADER = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
SHAPES = ("(0, 1000000000000000000000)", "(0, 10**30)", "(-1,)", "(-1, -1)", "(1.0,)", "1", f"({'0,' * 80})")
TYPES = ("|O", "<U4", "|V8", "<M8[s]", "<c16", "nonsense")


@pytest.mark.parametrize("shape", [(10**12,), (2**62, 2), (10**6, 10**6), (2**63,)])
def test_a_header_that_promises_more_than_there_is_allocates_nothing(shape: tuple[int, ...]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptArtifact) as caught:
            codec.array_from_bytes(npy(HEADER % ("<f8", shape), bytes(8)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value) == f"the array must have {8 * math.prod(shape)} bytes, as in its header, got 8"
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        *map(npy, ("", "{", "{}", "[]", "(" * 5000, "-" * 9000 + "1", "{[]: 1}", "{1: 2, 'a': 3}", "__import__('os')")),
        *(npy(HEADER % ("<f8", shape)) for shape in SHAPES),
        *(npy(HEADER % (kind, "(0,)")) for kind in TYPES),
        *(npy((HEADER % ("", "(0,)")).replace("''", d)) for d in ("()", "[[]]", "[('a', '<f8')]", "[('a', ())]")),
        npy("{'descr': '<f8', 'fortran_order': 1, 'shape': (0,)}"),
        npy("x" * 20_000),
        *(b"", b"\x93NUMPY", npy("", version=b"\x02\x00"), npy("", version=b"\x09\x09")),
    ],
)
def test_an_array_with_a_made_up_header_or_of_another_version_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptArtifact):
        codec.array_from_bytes(data)


ARRAY = codec.array_to_bytes(np.arange(4.0))


@pytest.mark.filterwarnings("ignore:Reading `.npy`")  # a header as Python 2 wrote it
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(ARRAY) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_a_mutated_array_is_refused_or_holds_numbers(start: int, new: bytes, old: int) -> None:
    mutated = ARRAY[:start] + new + ARRAY[start + old :]
    try:
        array = codec.array_from_bytes(mutated)
    except CorruptArtifact:
        return
    assert array.dtype.kind in "biuf"
    assert array.nbytes <= len(mutated)


@given(st.sampled_from(["codes.npy", "numbers.npy", "fields.json", "manifest.json"]), st.data())
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_a_forger_of_one_entry_gets_a_refusal_or_a_plan(name: str, data: st.DataObject) -> None:
    entry = opened(GOOD)[name]
    start = data.draw(st.integers(0, len(entry) - 1))
    changed = entry[:start] + data.draw(st.binary(max_size=6)) + entry[start + data.draw(st.integers(0, 6)) :]
    try:
        with np.errstate(all="ignore"):
            plan = codec.decode(forged(**{name.replace(".", "_"): changed}), Sample)
    except CorruptArtifact:
        return
    assert plan.numbers.dtype == np.float64
    assert plan.codes.dtype == np.int32
