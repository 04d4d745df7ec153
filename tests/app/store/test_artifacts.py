"""Artifacts in a real store: versions, pointers, roll back, delete, export and import."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.processes.clock import current_timestamp
from app.settings import Settings
from app.store.artifacts import decode_manifest
from app.store.client import make_store_key
from app.store.codec import FORMAT
from app.store.embedded import EmbeddedRedis
from app.store.repositories import Repositories, open_repositories
from models import ArtifactRecord
from models.cascade import CascadeQuery
from models.errors import Conflict, CorruptArtifact, StoreRefused, UnknownArtifact, UnknownVersion
from tests.support import stored


def blobs(repos: Repositories) -> set[str]:
    return {name.rpartition(":")[2] for name in stored.keys(repos, make_store_key("blob", "*"))}


def test_versions_of_each_name_count_from_1_and_the_newest_is_active(repos: Repositories) -> None:
    with repos.store.read_announcements() as wait:
        records = [stored.publish(repos, seed=seed) for seed in (0, 1, 2)]
        assert wait(2.0)
    assert [(r.version, r.active, r.seed) for r in records] == [(1, True, 0), (2, True, 1), (3, True, 2)]
    versions = [(r.version, r.active) for r in repos.artifacts.list_versions("cascade", "plan")]
    assert versions == [(1, False), (2, False), (3, True)]
    assert repos.artifacts.get_record("cascade", "plan") == records[2]
    assert repos.artifacts.get_pointers() == {("cascade", "plan"): (3, records[2].sha256)}
    assert stored.publish(repos, "b").version == 1
    assert [(r.name, r.version) for r in repos.artifacts.list_page().items] == [("b", 1), ("plan", 3)]
    assert [r.name for r in repos.artifacts.list_page(name="b").items] == ["b"]
    assert repos.artifacts.list_page("index").items == []


def test_a_record_tells_what_the_bytes_hold(repos: Repositories) -> None:
    data = stored.artifact(seed=4)
    record = repos.artifacts.publish(data, created_at="2026-01-01T00:00:00.000Z")
    told = {"kind": "cascade", "name": "plan", "dataset": "trace", "dataset_sha256": sha256(b"").hexdigest()}
    about = {"version": 1, "active": True, "created_at": record.created_at, "params": {}, "seed": 4, "unit": "ms"}
    own = {"sha256": sha256(data).hexdigest(), "bytes": len(data), "summary": {"found": 1}}
    assert record == ArtifactRecord.model_validate({**told, **about, **own})
    assert record.created_at == "2026-01-01T00:00:00.000Z"
    assert repos.artifacts.get_bytes(record) == data
    assert repos.artifacts.load_plan(record).decide(CascadeQuery(deadline=7.0)).cascade == ("K2",)


def test_rolling_back_and_forward_moves_the_pointer_and_is_announced(repos: Repositories) -> None:
    first, second = stored.publish(repos, seed=0), stored.publish(repos, seed=1)
    with repos.store.read_announcements() as wait:
        assert repos.artifacts.activate("cascade", "plan", 1) == first
        assert wait(2.0)
    assert repos.artifacts.get_pointers()["cascade", "plan"] == (1, first.sha256)
    assert repos.artifacts.get_record("cascade", "plan").version == 1
    repos.artifacts.activate("cascade", "plan", 2)
    assert repos.artifacts.get_record("cascade", "plan") == second
    repos.artifacts.activate("cascade", "plan", 1)
    repos.artifacts.delete("cascade", "plan", 2)
    assert stored.publish(repos, seed=2).version == 3


def test_a_version_that_is_not_active_can_be_deleted_with_its_bytes(repos: Repositories) -> None:
    first, second = stored.publish(repos, seed=0), stored.publish(repos, seed=1)
    with pytest.raises(Conflict, match="version 2 of cascade 'plan' is active"):
        repos.artifacts.delete("cascade", "plan", 2)
    repos.artifacts.delete("cascade", "plan", 1)
    assert [r.version for r in repos.artifacts.list_versions("cascade", "plan")] == [2]
    assert blobs(repos) == {second.sha256}
    with pytest.raises(UnknownVersion, match=r"version 1 of cascade 'plan' not found; active version is 2"):
        repos.artifacts.get_record("cascade", "plan", 1)
    with pytest.raises(StoreRefused, match="bytes of cascade 'plan' version 1 not found"):
        repos.artifacts.get_bytes(first)


def test_bytes_that_two_versions_share_stay_until_the_last_is_deleted(repos: Repositories) -> None:
    same = [stored.publish(repos, seed=0), stored.publish(repos, seed=0)]
    last = stored.publish(repos, seed=1)
    assert same[0].sha256 == same[1].sha256
    repos.artifacts.delete("cascade", "plan", 1)
    assert blobs(repos) == {same[0].sha256, last.sha256}
    assert repos.artifacts.load_plan(repos.artifacts.get_record("cascade", "plan", 2)).unit == "ms"
    repos.artifacts.delete("cascade", "plan", 2)
    assert blobs(repos) == {last.sha256}


@pytest.mark.parametrize(("kind", "name"), [("cascade", "other"), ("index", "other"), ("cascade", "plan")])
@pytest.mark.parametrize("version", [0, 2, -1])
def test_an_artifact_or_version_that_does_not_exist_is_unknown(
    kind: str, name: str, version: int, repos: Repositories
) -> None:
    stored.publish(repos)
    calls: list[Callable[..., Any]] = [repos.artifacts.get_record, repos.artifacts.activate, repos.artifacts.delete]
    error = UnknownArtifact if name == "other" else UnknownVersion
    if name == "other":
        with pytest.raises(UnknownArtifact, match="'other'"):
            repos.artifacts.list_versions(kind, name)
    for call in calls:
        with pytest.raises(error, match=f"{kind} .*'{name}'"):
            call(kind, name, version)
    assert repos.artifacts.get_record("cascade", "plan").version == 1


def test_an_exported_artifact_is_the_same_in_another_store(repos: Repositories, tmp_path: Path) -> None:
    exported = stored.publish(repos, seed=3)
    data = repos.artifacts.get_bytes(exported)
    with (
        EmbeddedRedis(tmp_path / "other") as server,
        open_repositories(Settings(redis_url=server.url), client_name="test") as other,
    ):
        imported = other.artifacts.publish(data, created_at=current_timestamp())
        assert (imported.sha256, imported.version) == (exported.sha256, 1)
        assert other.artifacts.get_bytes(imported) == data
        assert imported.model_copy(update={"created_at": exported.created_at}) == exported


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "oracle"}, "'oracle' not found; available: cascade, index"),
        ({"name": "Not A Name"}, "String should match pattern"),
        ({"surprise": 1}, "Extra inputs are not permitted"),
        ({"seed": "1"}, "Input should be a valid integer"),
        ({"format": FORMAT + 1}, f"must be {FORMAT}, got {FORMAT + 1}"),
        ({"type": "OtherPlan"}, "the type must be CascadePlan, got OtherPlan"),
    ],
)
def test_bytes_that_are_not_for_us_are_refused_and_nothing_is_kept(
    change: dict[str, object], reason: str, repos: Repositories
) -> None:
    with pytest.raises(CorruptArtifact, match=reason):
        repos.artifacts.publish(stored.artifact(**change), created_at=current_timestamp())  # type: ignore[arg-type]
    data = bytearray(stored.artifact())
    data[len(data) // 2] ^= 1
    with pytest.raises(CorruptArtifact):
        repos.artifacts.publish(bytes(data), created_at=current_timestamp())

    def check(pipe: object) -> None:
        raise Conflict("not now")

    with pytest.raises(Conflict, match="not now"):
        repos.artifacts.publish(stored.artifact(), created_at=current_timestamp(), check=check)
    assert stored.keys(repos) == []
    assert decode_manifest(stored.artifact(seed=9)).seed == 9


def test_bytes_that_were_corrupted_in_the_store_are_refused(repos: Repositories) -> None:
    record = stored.publish(repos)
    repos.store.client.setrange(make_store_key("blob", record.sha256), 100, b"\xff\xff")
    with pytest.raises(StoreRefused, match="do not match their SHA-256"):
        repos.artifacts.load_plan(record)
    repos.store.client.set(make_store_key("version", "cascade", "plan", 1), b'{"from": "a later version"}')
    with pytest.raises(StoreRefused, match="record of cascade 'plan' version 1"):
        repos.artifacts.get_record("cascade", "plan")
