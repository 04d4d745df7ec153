"""URLs of sources: what is allowed, and which files they name."""

from pathlib import Path

import pytest

from app.sources.locations import find_allowed_files, require_allowed_location, split_url
from models.errors import InvalidRequest


@pytest.mark.parametrize(
    "url",
    [
        "http://host/a.parquet",
        "s3:/bucket",
        "file://relative/a.parquet",
        "file:///data/../etc",
        "file:///data//a",
        "s3://bucket/a?endpoint_override=http://169.254.169.254",
        "s3://user:secret@bucket/a",
        "s3://host:9000/a",
        "s3://bucket#x/a",
        "s3://*/a.parquet",
        "s3://",
    ],
)
def test_malformed_and_foreign_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        split_url(url)
    assert [fault.loc for fault in caught.value.faults] == [("source", "url")]


@pytest.mark.parametrize("path", ["logs/2026-11-30T12:00:00/a.parquet", "logs/team@eu/#1/*.parquet"])
def test_keys_of_objects_may_have_any_signs(path: str) -> None:
    assert split_url(f"s3://{path}") == ("s3", path)


@pytest.mark.parametrize("url", ["s3://logs-of-others/a", "s3://log", "gs://logs/a", "file:///logs/a", "s3://logs/b"])
def test_urls_outside_the_allowed_locations_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        require_allowed_location(url, ("s3://logs/a", "file:///data"))


def test_without_allowed_locations_all_urls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        require_allowed_location(f"file://{tmp_path}", ())


def test_a_folder_names_its_visible_parquet_files_and_a_pattern_names_what_it_matches(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "day=1/c.parquet", "notes.txt", "_tmp/d.parquet", ".e.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    allowed = (f"file://{tmp_path}",)

    def names(url: str) -> list[str]:
        return [
            str(Path(file.url.removeprefix("file://")).relative_to(tmp_path))
            for file in find_allowed_files(url, allowed)
        ]

    assert names(f"file://{tmp_path}") == ["a.parquet", "b.parquet", "day=1/c.parquet"]
    assert names(f"file://{tmp_path}/") == names(f"file://{tmp_path}")
    assert names(f"file://{tmp_path}/*.parquet") == [".e.parquet", "a.parquet", "b.parquet"]
    assert names(f"file://{tmp_path}/day=*/[c-d].parquet") == ["day=1/c.parquet"]
    assert names(f"file://{tmp_path}/b.parquet") == ["b.parquet"]
    for missing in ("nothing", "*.csv", "day=2/*.parquet"):
        with pytest.raises(InvalidRequest):
            names(f"file://{tmp_path}/{missing}")


def test_symbolic_links_out_of_the_allowed_locations_are_refused(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    for folder in (allowed, outside):
        folder.mkdir()
        (folder / "a.parquet").write_bytes(b"x")
    (allowed / "link.parquet").symlink_to(outside / "a.parquet")
    with pytest.raises(InvalidRequest):
        find_allowed_files(f"file://{allowed}", (f"file://{allowed}",))
    (allowed / "link.parquet").unlink()
    (allowed / "link.parquet").symlink_to(allowed / "a.parquet")
    assert len(find_allowed_files(f"file://{allowed}", (f"file://{allowed}",))) == 2
