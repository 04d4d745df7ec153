"""What holds in a store whatever happened to those who wrote to it."""

import json
from hashlib import sha256
from typing import Any

import redis


def assert_whole(store: "redis.Redis") -> None:
    """Check that pointers, versions, records, bytes and references agree, all seen in one moment."""
    kept = _snapshot(store)
    text = {name: value.decode() for name, value in kept.items() if isinstance(value, bytes) and ":blob:" not in name}
    records = {name: json.loads(value) for name, value in text.items() if name.startswith("parsimony:version:")}
    pointers = kept.get("parsimony:active", {})
    assert isinstance(pointers, dict)
    for field, pointer in pointers.items():
        kind, _, name = field.decode().partition("/")
        version, _, digest = pointer.decode().partition(" ")
        record = records[f"parsimony:version:{kind}:{name}:{version}"]
        assert record["sha256"] == digest
        versions = {int(each) for each in kept[f"parsimony:versions:{kind}:{name}"]}
        mine = {r["version"] for r in records.values() if (r["kind"], r["name"]) == (kind, name)}
        assert versions == mine, "the set of versions and the records differ"
        assert max(versions) <= int(text[f"parsimony:counter:{kind}:{name}"])
    names = set(kept.get("parsimony:active-names", []))
    assert names == pointers.keys(), "the index of names and the pointers differ"
    assert records.keys() == {
        f"{name.replace(':versions:', ':version:')}:{int(each)}"
        for name, members in kept.items()
        if name.startswith("parsimony:versions:")
        for each in members
    }, "records of no version"
    _assert_references(kept, records)


def _assert_references(kept: dict[str, Any], records: dict[str, dict[str, Any]]) -> None:
    """Check that every record's bytes are there and referred to, and that no bytes are there for nobody."""
    wanted: dict[str, set[bytes]] = {}
    for record in records.values():
        reference = f"artifact/{record['kind']}/{record['name']}/{record['version']}"
        wanted.setdefault(str(record["sha256"]), set()).add(reference.encode())
    blobs = {name.rpartition(":")[2]: data for name, data in kept.items() if name.startswith("parsimony:blob:")}
    references = {
        name.rpartition(":")[2]: members for name, members in kept.items() if name.startswith("parsimony:refs:")
    }
    assert blobs.keys() == references.keys() == wanted.keys(), "bytes without references, or references without bytes"
    assert references == wanted
    assert all(isinstance(data, bytes) and sha256(data).hexdigest() == digest for digest, data in blobs.items())


_ALL = """
local found = {}
for _, name in ipairs(redis.call('KEYS', 'parsimony:*')) do
    local kind = redis.call('TYPE', name).ok
    local read = {string = 'GET', set = 'SMEMBERS', hash = 'HGETALL'}
    if kind == 'zset' then
        found[#found + 1] = {name, kind, redis.call('ZRANGE', name, 0, -1)}
    elseif read[kind] then found[#found + 1] = {name, kind, redis.call(read[kind], name)} end
end
return found
"""


def _snapshot(store: "redis.Redis") -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, kind, value in store.eval(_ALL, 0):
        if kind == b"set":
            kept[name.decode()] = set(value)
        elif kind == b"hash":
            kept[name.decode()] = dict(zip(value[::2], value[1::2], strict=True))
        else:
            kept[name.decode()] = value
    return kept
