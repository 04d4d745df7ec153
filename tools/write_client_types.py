"""Write the types of the client's replies and methods, from the OpenAPI document.

``parsimony/replies.py`` has a ``TypedDict`` for each schema of a reply; ``parsimony/typed_routes.pyi`` the methods of
``Routes`` with their replies, once as they are and once to be awaited. A test fails if they are not up to date.
"""

import inspect
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.settings import Settings
from parsimony.artifact_requests import PLURALS
from parsimony.routes import Routes
from parsimony.transport import Request
from solvers import KINDS

ROOT = Path(__file__).parents[1]
RUFF = ROOT / ".venv" / "bin" / "ruff"
JSON = "application/json"
VALUES: dict[str, Any] = {
    "version": 1,
    "before": 1,
    "after": 2,
    "size": 4,
    "length": 5,
    "offset": 0,
    "items": [{}],
    "spec": {},
    "log": b"",
    "data": b"",
}
"""Arguments by parameter; of other parameters, a name."""
STATUSES = {"put_dataset": "200, 201", "put_dataset_source": "202", "put_dataset_upload": "202"}
"""Statuses of methods that share an operation."""
TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
HEAD = '"""Types of the API\'s {what}. Written by ``tools/write_client_types.py``."""\n\n'
IMPORTS = """from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # noqa: UP035 - Python 3.10

"""
ROUTE_IMPORTS = """from collections.abc import Mapping, Sequence
from typing import Any

from parsimony.replies import {names}
from parsimony.routes import Routes

"""


class Recorded(Routes):
    """A client that keeps the request of each method."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def _send(self, request: Request) -> Any:
        self.requests.append(request)


class Frame:
    """A frame with the method of polars that uploads need."""

    def write_csv(self) -> str:
        """Return an empty table."""
        return ""


def make_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    kinds = [make_kind_routes(kind) for kind in KINDS.values()]
    found: dict[str, Any] = create_api(Settings(), Metrics(), kinds).openapi()
    return found


def list_requests(kind: str) -> Iterator[tuple[str, Request]]:
    """Yield the request of each method of the client, for a kind."""
    for name, method in vars(Routes).items():
        if name.startswith("_") or name == "call":
            continue
        client, parameters = Recorded(), list(inspect.signature(method).parameters.values())[1:]
        needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
        needed += [one.name for one in parameters if one.default is one.empty and one.kind is one.KEYWORD_ONLY]
        given = {each: VALUES.get(each, Frame() if each == "table" else "n") for each in needed}
        method(client, **given | ({"kind": kind} if "kind" in given else {}))
        yield from ((name, request) for request in client.requests)


def find_operation(document: Mapping[str, Any], request: Request) -> tuple[str, dict[str, Any]] | None:
    """Return the path and the operation of a request, as in the document."""
    for path, operations in document["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        if re.fullmatch(pattern, request.path) and request.method.lower() in operations:
            return path, operations[request.method.lower()]
    return None


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of values of a schema.

    >>> type_of({"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]})
    'list[float] | None'
    """
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(map(type_of, schema[key])))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(json.dumps(each) for each in values)}]"
    if schema.get("type") == "array":
        return f"list[{type_of(schema['items'])}]" if "items" in schema else "list[Any]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {type_of(schema['additionalProperties'])}]"
    return TYPES.get(schema.get("type", ""), "Any")


def reply_type(method: str, operation: Mapping[str, Any]) -> str:
    """Return the type of a method's replies."""
    found = list[str]()
    for status, reply in operation["responses"].items():
        if status.startswith("2") and status in STATUSES.get(method, status):
            content = reply.get("content", {})
            found.append(
                type_of(content[JSON].get("schema", {})) if JSON in content else "bytes" if content else "None"
            )
    return " | ".join(sorted({*found}, key=lambda each: each == "None"))


def list_schemas(document: Mapping[str, Any], types: str) -> list[str]:
    """Return the names of schemas in some types, and of those in them."""
    schemas, found, ahead = document["components"]["schemas"], dict[str, None](), re.findall(r"\w+", types)
    while ahead:
        name = ahead.pop()
        if name in schemas and name not in found:
            found[name] = None
            ahead += re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))
    return sorted(found)


def write_schema(name: str, schema: Mapping[str, Any]) -> str:
    """Return the type of a schema: a ``TypedDict``, or an alias."""
    if "properties" not in schema:
        return f'{name}: TypeAlias = "{type_of(schema)}"\n'
    fields = {key: type_of(each) for key, each in schema["properties"].items()}
    required = schema.get("required", ())
    cells = {key: each if key in required else f"NotRequired[{each}]" for key, each in fields.items()}
    if not all(map(str.isidentifier, cells)) or {"from", "class", "in"} & cells.keys():
        return f"{name} = TypedDict({name!r}, {{{', '.join(f'{key!r}: {each!r}' for key, each in cells.items())}}})\n"
    lines = "\n".join(f"    {key}: {each}" for key, each in cells.items())
    about = schema.get("description", name).splitlines()[0]
    return f'class {name}(TypedDict):\n    """{about}"""\n\n{lines}\n'


def write_methods(replies: Mapping[str, str], *, is_async: bool) -> str:
    """Return the class of the client's methods, with their replies."""
    lines = [f"class {'AsyncRoutes' if is_async else 'SyncRoutes'}(Routes):"]
    for name, reply in replies.items():
        signature = inspect.signature(getattr(Routes, name)).replace(return_annotation=inspect.Signature.empty)
        text = re.sub(r"collections\.abc\.|typing\.", "", str(signature))
        lines.append(f"    {'async ' if is_async else ''}def {name}{text} -> {reply}: ...")
    return "\n".join(lines) + "\n"


def write_types() -> dict[str, str]:
    """Return the text of each file, by its path."""
    document, replies = make_document(), dict[str, dict[str, None]]()
    for kind in PLURALS:
        for name, request in list_requests(kind):
            found = find_operation(document, request)
            assert found is not None, name
            replies.setdefault(name, {})[reply_type(name, found[1])] = None
    types = {name: " | ".join(each) for name, each in replies.items()} | {"call": "Any"}
    names = list_schemas(document, " ".join(types.values()))
    classes = "\n\n".join(write_schema(name, document["components"]["schemas"][name]) for name in names)
    used = ", ".join(name for name in names if re.search(rf"\b{name}\b", " ".join(types.values())))
    methods = "\n\n".join(write_methods(types, is_async=each) for each in (False, True))
    return {
        "parsimony/replies.py": _format(HEAD.format(what="replies") + IMPORTS + classes, "replies.py"),
        "parsimony/typed_routes.pyi": _format(
            HEAD.format(what="operations") + ROUTE_IMPORTS.format(names=used) + methods, "typed_routes.pyi"
        ),
    }


def _format(text: str, name: str) -> str:
    command = [str(RUFF), "format", "--stdin-filename", str(ROOT / "parsimony" / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    for path, text in write_types().items():
        (ROOT / path).write_text(text)
