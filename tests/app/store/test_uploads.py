"""Tables as people have them: CSV in its dialects, gzipped or not, and Parquet; what cannot be read says why."""

import csv
import gzip
import io
import json
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.codec import array_to_bytes
from app.store.uploads import parse_spec, read_dataset
from models import FeatureTable, InvalidRequest, Trace
from models.errors import ParsimonyError, PayloadTooLarge, UnsupportedMediaType
from tests.support.samples import FEATURES_SPEC, TRACE_SPEC, to_csv, trace_columns

PARQUET, LINES = "application/vnd.apache.parquet", "application/jsonl"
FEATURES = [{"name": "x", "columns": ["x"], "cost": 1}]
SPEC = parse_spec(json.dumps({"kind": "features", "label": "y", "unit": "ms", "features": FEATURES}))
GOOD = b"y,x\na,1\nb,2.5\n"


def read(data: bytes, media_type: str = "text/csv", *, max_bytes: int = 2**24, spec: Any = SPEC) -> FeatureTable:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        path.write_bytes(data)
        table = read_dataset(spec, path, media_type, None, max_bytes=max_bytes)
    assert isinstance(table, FeatureTable)
    return table


def refusal(data: bytes, media_type: str = "text/csv") -> str:
    with pytest.raises(InvalidRequest) as caught:
        read(data, media_type)
    assert caught.value.faults
    return str(caught.value)


def parquet(table: Any = None, **columns: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns) if table is None else table, out)
    return out.getvalue()


def plain_parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out, compression="none", use_dictionary=False)
    return out.getvalue()


def contents(table: FeatureTable) -> tuple[list[str], list[float]]:
    return [table.classes[code] for code in table.labels], table.values[:, 0].tolist()


EXPECTED = (["a", "b"], [1.0, 2.5])


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\r"),
        GOOD.rstrip(),
        b"\xef\xbb\xbf" + GOOD,
        b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"),
        b'"y","x"\n"a","1"\n"b","2.5"\n',
        b"x,y\n1,a\n2.5,b\n",
        b'y,x,note\na,1,"two\nlines, and ""quotes"""\nb,2.5,\n',
        b"y,x\na, 1\nb,2.5 \n",
        b"y,x\na,1e0\nb,25e-1\n",
        b"y,x\n\na,1\n\nb,2.5\n\n",
        b"y,note,x,note\na,,1,\nb,,2.5,\n",
    ],
)
def test_a_csv_is_read_in_every_dialect(data: bytes) -> None:
    assert contents(read(data)) == EXPECTED


PACKED_GOOD = gzip.compress(b"y,x\na,1\n", mtime=0) + gzip.compress(b"b,2.5\n", mtime=0)  # several are one table
TABLES = {
    PACKED_GOOD: ("text/csv", "application/csv", "application/gzip", "application/octet-stream", ""),
    parquet(y=["a", "b"], x=[1.0, 2.5]): (PARQUET, "application/x-parquet", "application/octet-stream", ""),
    GOOD: ("TEXT/CSV", "text/csv; charset=utf-8", "text/csv;header=present"),
}


@pytest.mark.parametrize(("data", "media_type"), [(data, kind) for data, kinds in TABLES.items() for kind in kinds])
def test_gzip_and_parquet_are_known_by_their_first_bytes_and_a_type_in_any_case(data: bytes, media_type: str) -> None:
    assert contents(read(data, media_type)) == EXPECTED


@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "image/png", "text/csvx"])
def test_another_media_type_is_refused_by_its_name(media_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=f"must be text/csv, application/jsonl or .*, got {media_type}"):
        read(GOOD, media_type)


def test_a_table_over_the_limit_also_once_it_is_unpacked_is_refused() -> None:
    assert contents(read(GOOD, max_bytes=len(GOOD))) == EXPECTED
    large = parquet(y=pa.array(np.zeros(2_000_000, dtype=np.int8)), x=pa.array(np.zeros(2_000_000)))
    packed = gzip.compress(b"y,x\n" + b"a,1\n" * 3_000_000, mtime=0)
    assert (len(packed) < 100_000, len(large) < 2_000_000) == (True, True)
    for data, most, media_type in (
        (GOOD, len(GOOD) - 1, "text/csv"),
        (packed, 2_000_000, "text/csv"),
        (large, 2_000_000, PARQUET),
    ):
        with pytest.raises(PayloadTooLarge, match=f"{most}"):
            read(data, media_type, max_bytes=most)


PACKED = gzip.compress(GOOD * 50, mtime=0)


GOOD_PARQUET = parquet(y=["a", "b"] * 50, x=list(range(100)))
BROKEN: list[tuple[bytes, str, str]] = [
    *(
        (data, "text/csv", "gzip: ")
        for data in (PACKED[:20], PACKED[:-4], PACKED[:30] + b"\xff" * 8 + PACKED[38:], PACKED[:-8] + bytes(8))
    ),
    (b"\x1f\x8b", "text/csv", "gzip: "),
    (b"", "text/csv", "CSV: Empty CSV file"),
    (gzip.compress(b"", mtime=0), "text/csv", "CSV: Empty CSV file"),
    (b"y,x\na,1\nb,2,3\n", "text/csv", "Expected 2 columns, got 3"),
    (b"y,x\na\n", "text/csv", "Expected 2 columns, got 1"),
    (GOOD_PARQUET, "text/csv", ""),
    (GOOD, PARQUET, "Parquet: "),
    *((data, PARQUET, "Parquet: ") for data in (b"", b"PAR1", b"PAR1PAR1", GOOD_PARQUET[:-20])),
    (GOOD_PARQUET[:4] + bytes(40) + GOOD_PARQUET[44:], PARQUET, "Parquet: "),
]


@pytest.mark.parametrize(("data", "media_type", "reason"), BROKEN)
def test_a_broken_table_is_refused_with_the_reason(data: bytes, media_type: str, reason: str) -> None:
    assert reason in refusal(data, media_type)


def test_a_repeated_header_is_refused_if_it_is_used() -> None:
    assert refusal(b"y,x,x\na,1,2\nb,3,4\n") == "table.x: is a duplicate column"
    table = pa.table([["a", "b"], [1, 2], [3, 4]], names=["y", "x", "x"])
    assert refusal(parquet(table), PARQUET) == "table.x: is a duplicate column"


def test_a_missing_column_is_named() -> None:
    assert refusal(b"y,X\na,1\nb,2\n") == "table.x: column not found; available of the spec: y"
    assert refusal(parquet(y=["a", "b"]), PARQUET) == "table.x: column not found; available of the spec: y"
    assert refusal(b"y;x\na;1\n").startswith("table: must have the columns of the spec, separated by commas, got 'y;x'")


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["1", "x"], "must hold numbers, got in row 2: 'x'"),
        (["1", "2", "1_000"], "must hold numbers, got in row 3: '1_000'"),
        (["1", ""], "must be finite and not missing; row 2 is missing"),
        (["", ""], "must be finite and not missing; row 1 is missing"),
        (["NA", "2"], "must be finite and not missing; row 1 is missing"),
        (["1", "nan"], "must be finite and not missing; row 2 is missing"),
        (["1", "inf"], "must be finite and not missing; row 2 is inf"),
        (["true", ""], "must be finite and not missing; row 2 is missing"),
        (["2020-01-01", "2020-01-02"], "must hold numbers, got in row 1: '2020-01-01'"),
    ],
)
def test_a_bad_cell_of_a_csv_is_named_by_its_row(cells: list[str], reason: str) -> None:
    data = to_csv({"y": [f"c{i}" for i in range(len(cells))], "x": cells})
    assert refusal(data) == f"table.x: {reason}"


def test_a_text_in_row_70_000_is_named_by_its_row_and_makes_a_label_text_throughout() -> None:
    cells: list[Any] = [i / 7 for i in range(80_000)]
    cells[69_999] = "oops"
    data = to_csv({"y": ["a", "b"] * 40_000, "x": cells})
    assert len(data) > 2**20  # more than the block of a reader that infers types block by block
    assert "row 70000: 'oops'" in refusal(data)
    label = [str(i % 2) for i in range(80_000)]
    label[70_000] = "x"
    table = read(to_csv({"y": label, "x": [0.123456789] * 80_000}))
    assert (table.classes, table.labels[70_000]) == (("0", "1", "x"), 2)


@pytest.mark.parametrize(
    ("data", "media_type", "said"),
    [
        (b"y,x\na,1\n,2\n", "text/csv", "row 2 is missing"),
        (parquet(y=["a", None], x=[1, 2]), PARQUET, "row 2 is missing"),
        ("y,x\na,1\né,2\n".encode("latin-1"), "text/csv", "UTF-8; row 2"),
        (plain_parquet(y=["cat", "owl", "cat"], x=[1, 2, 3]).replace(b"owl", b"\xe3wl"), PARQUET, "UTF-8; row 2"),
    ],
)
def test_a_label_that_is_missing_or_no_text_is_named_by_its_row(data: bytes, media_type: str, said: str) -> None:
    message = refusal(data, media_type)
    assert (message.startswith("table.y: "), said in message) == (True, True)


@pytest.mark.parametrize(
    ("data", "classes"),
    [
        (b"y,x\nNA,1\nnull,2\na,3\n", ("NA", "a", "null")),
        (b'y,x\n"a\nb",1\n"c,d",2\n"e ""f""",3\n', ("a\nb", "c,d", 'e "f"')),
    ],
)
def test_a_label_may_be_called_na_and_hold_quotes_commas_and_newlines(data: bytes, classes: tuple[str, ...]) -> None:
    assert read(data).classes == classes
    rows = [json.dumps({"y": text, "x": 1}).encode() + b"\n" for text in classes]
    assert read(b"".join(rows), LINES).classes == classes


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, 2], pa.int8()), [1.0, 2.0]),
        (pa.array([1, 2], pa.uint64()), [1.0, 2.0]),
        (pa.array([1.0, 2.5], pa.float32()), [1.0, 2.5]),
        (pa.array(np.array([1.0, 2.5], dtype=np.float16)), [1.0, 2.5]),
        (pa.array([True, False]), [1.0, 0.0]),
        (pa.array([Decimal("1.50"), Decimal("0.0015")]), [1.5, 0.0015]),
        (pa.array([7, 9]).dictionary_encode(), [7.0, 9.0]),
    ],
)
def test_every_numeric_type_of_parquet_is_a_number(column: Any, values: list[float]) -> None:
    assert read(parquet(y=["a", "b"], x=column), PARQUET).values[:, 0].tolist() == values


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1, None]), "must be finite and not missing; row 2 is missing"),
        (pa.array([1.0, float("nan")]), "must be finite and not missing; row 2 is missing"),
        (pa.array([None, None]), "must be finite and not missing; row 1 is missing"),
        (pa.array([True, None]), "must be finite and not missing; row 2 is missing"),
        (pa.array(["1", None]), "must hold numbers, got in row 2: missing"),
        (pa.array(["x", None]).dictionary_encode(), "must hold numbers, got in row 1: 'x'"),
        (pa.array([[1], [2]]), "must have numbers or texts, got list<element: int64>"),
        (pa.array([{"a": 1}, None]), "must have numbers or texts, got struct<a: int64>"),
        (pa.array([b"1", b"\xff"]), "must be text in UTF-8; row 2 is not"),
    ],
)
def test_a_bad_column_of_parquet_is_named(column: Any, reason: str) -> None:
    assert refusal(parquet(y=["a", "b"], x=column), PARQUET) == f"table.x: {reason}"


@pytest.mark.parametrize(
    "label",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array([b"a", b"b", b"a"]),
        pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()]),
    ],
)
def test_a_categorical_label_is_text(label: Any) -> None:
    assert contents(read(parquet(y=label, x=[1, 2, 3]), PARQUET)) == (["a", "b", "a"], [1.0, 2.0, 3.0])


def test_only_the_columns_of_the_spec_are_read() -> None:
    unreadable = pa.array([[1], [2]])
    assert contents(read(parquet(y=["a", "b"], x=[1.0, 2.5], junk=unreadable), PARQUET)) == EXPECTED
    assert contents(read(b"junk,y,x\n\xff,a,1\n\xfe,b,2.5\n")) == EXPECTED
    spec = SPEC.model_copy(update={"label": "s.1"})  # a column with a dot in its name
    assert read(parquet(**{"s.1": ["a", "b"], "x": [1.0, 2.5]}), PARQUET, spec=spec).classes == ("a", "b")
    assert read(GOOD.replace(b"y", b"s.1"), spec=spec).classes == ("a", "b")


numbers = st.floats(-1e30, 1e30)
label_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00."), min_size=1, max_size=8)


@given(st.lists(st.tuples(label_text, numbers), min_size=2, unique_by=lambda r: r[0]), st.booleans())
def test_what_python_writes_as_csv_is_read_back(rows: list[tuple[str, float]], packed: bool) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([("y", "x"), ("zz top", 0.5), *rows])  # the first label keeps the column a text
    data = out.getvalue().encode()
    labels, values = contents(read(gzip.compress(data, mtime=0) if packed else data))
    assert labels == ["zz top", *(label for label, _ in rows)]
    assert values == [0.5, *(value for _, value in rows)]


@given(st.binary(max_size=200), st.sampled_from(["text/csv", PARQUET, "", "application/gzip"]))
def test_arbitrary_bytes_are_a_table_or_refused(data: bytes, media_type: str) -> None:
    with suppress(ParsimonyError):
        read(data, media_type)


@given(st.integers(0, len(GOOD_PARQUET)), st.binary(max_size=20), st.integers(0, 20))
def test_mutated_parquet_and_gzip_are_a_table_or_refused(start: int, new: bytes, old: int) -> None:
    for data, media_type in ((GOOD_PARQUET, PARQUET), (PACKED, "text/csv")):
        place = start % len(data)
        with suppress(ParsimonyError):
            read(data[:place] + new + data[place + old :], media_type)


def trace_with(embeddings: bytes | None, tmp_path: Path) -> Trace:
    path = tmp_path / "trace.csv"
    path.write_bytes(to_csv(trace_columns(20)))
    table = read_dataset(parse_spec(json.dumps(TRACE_SPEC)), path, "text/csv", embeddings, max_bytes=2**20)
    assert isinstance(table, Trace)
    return table


@pytest.mark.parametrize("data", [b"", b"junk", array_to_bytes(np.zeros((20, 3), dtype=np.float32))[:-1]])
def test_embeddings_are_read_from_npy_and_anything_else_is_refused_by_their_field(data: bytes, tmp_path: Path) -> None:
    vectors = np.arange(60, dtype=np.float32).reshape(20, 3)
    assert trace_with(array_to_bytes(vectors), tmp_path).embeddings.tolist() == vectors.tolist()
    assert trace_with(None, tmp_path).embeddings.shape == (20, 0)
    with pytest.raises(InvalidRequest) as caught:
        trace_with(data, tmp_path)
    assert [fault.loc for fault in caught.value.faults] == [("embeddings",)]


@pytest.mark.parametrize(
    ("spec", "loc"),
    [
        *((spec, ("spec",)) for spec in ("", "{", "[]", "{}", '{"kind": "images"}', b"\xff")),
        ('{"kind": "trace", "label": "y", "unit": "ms"}', ("spec", "classifiers")),
        ('{"kind": "trace", "label": 1, "unit": "ms", "classifiers": []}', ("spec", "label")),
        ('{"kind": "trace", "label": "y", "unit": "ms", "classifiers": [], "x": 1}', ("spec", "x")),
    ],
)
def test_a_bad_spec_is_refused_by_its_field(spec: str | bytes, loc: tuple[str, ...]) -> None:
    assert [parse_spec(json.dumps(good)).kind for good in (TRACE_SPEC, FEATURES_SPEC)] == ["trace", "features"]
    with pytest.raises(InvalidRequest) as caught:
        parse_spec(spec)
    assert caught.value.faults[0].loc == loc


def test_classes_are_text_as_written(tmp_path: Path) -> None:
    """True and true, 01 and 1 are different classes, unless label and answers were written alike."""
    spec = parse_spec(
        '{"kind": "trace", "label": "y", "unit": "ms", "classifiers": [{"name": "k", "cost": 1, "prediction": "p"}]}'
    )
    table = tmp_path / "table"
    table.write_bytes(b'y,p\nTrue,True\nFalse,idk\nTrue,"two\nlines"\n01,1.0\n1,2.50\n')
    trace = read_dataset(spec, table, "text/csv", None, max_bytes=1000)
    assert set(trace.classes) == {"True", "False", "01", "1", "idk", "two\nlines", "2.50"}
    assert isinstance(trace, Trace)
    assert trace.quality[:, 0].tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("cost", "loc"),
    [('"x"', ("spec", "classifiers", 0, "cost")), ('{"column": 3}', ("spec", "classifiers", 0, "cost", "column"))],
)
def test_a_fault_in_a_spec_stands_where_the_caller_wrote_it(cost: str, loc: tuple[str | int, ...]) -> None:
    classifier = f'{{"name": "k", "cost": {cost}, "prediction": "p"}}'
    with pytest.raises(InvalidRequest) as caught:
        parse_spec(f'{{"kind": "trace", "label": "y", "unit": "ms", "classifiers": [{classifier}]}}')
    assert loc in [fault.loc for fault in caught.value.faults]
    assert all(fault.loc[: len(loc) - 1] == loc[:-1] for fault in caught.value.faults)


GOOD_LINES = b'{"y": "a", "x": 1}\n\n{"x": 2.5, "y": "b", "more": null}\n'


@pytest.mark.parametrize("media_type", [LINES, "application/x-ndjson", "", "application/octet-stream"])
def test_json_lines_are_read_as_a_table_would_be(media_type: str) -> None:
    for data in (GOOD_LINES, b"\xef\xbb\xbf" + GOOD_LINES.rstrip()):
        table = read(data, media_type)
        assert table.values[:, 0].tolist() == [1.0, 2.5]
        assert table.classes == ("a", "b")
    packed = read(gzip.compress(GOOD_LINES), "application/gzip")
    assert packed.values[:, 0].tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b'{"y": "a", "x": 1}\n{"y": "b", "x": \n', "2"),
        (b"[1, 2]\n", "1"),
        (b'{"y": "\\ud800", "x": 1}\n', "line 1 has an unpaired surrogate"),
        (b'{"\\udc00": "a", "x": 1}\n', "line 1 has an unpaired surrogate"),
        (b'{"y": "a", "x": [1]}\n', "line 1 has the list 'x'; values must be texts, numbers, booleans, or null"),
        (b'{"y": "a", "x": {"z": 1}}\n', "line 1 has the object 'x'"),
        (b'{"y": "a", "y": "b", "x": 1}\n', "line 1 has a duplicate name"),
        (b"\n\n", "must not be empty; each line is a JSON object"),
        (b'{"y": "a", "x": "one"}\n{"y": "b", "x": 2}\n', "'one'"),
        (b'{"y": "a", "x": NaN}\n{"y": "b", "x": 2}\n', "x"),
        (b'{"y": "a"}\n', "x"),
    ],
)
def test_json_lines_that_are_no_table_are_refused_with_the_line(data: bytes, fault: str) -> None:
    assert fault in refusal(data, LINES)


def test_json_lines_of_many_names_or_that_grow_beyond_the_limit_are_refused() -> None:
    many = b"".join(b'{"y": "a", "x": 1, "n%d": 1}\n' % i for i in range(20_001))
    with pytest.raises(InvalidRequest, match=r"maximum is 20000|at most 20000 columns"):
        read(many, LINES, max_bytes=2**30)
    wide = b"".join(b'{"y": "a", "x": 1, "n%d": 1}\n' % i for i in range(3000))
    with pytest.raises(PayloadTooLarge, match="the lines must have at most"):
        read(wide, LINES, max_bytes=10**6)
