"""MkDocs hook: generate reference tables from OpenAPI, the command line, the settings, and the metrics, and notebooks.

The build replaces ``<!-- generated: settings -->…<!-- end -->`` by the table; readers of the repository see the text in
between.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from app.cli.main import cli
from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.settings import PREFIX, Settings
from solvers import KINDS
from tools.run_examples import EXAMPLES, OUTPUTS, write_page

WORDS = {int: "integer", float: "number", Path: "path"}
MARKER = re.compile(r"<!-- generated: (\w+) -->.*?<!-- end -->", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of a page; MkDocs calls this for each page."""
    return MARKER.sub(lambda marker: "\n".join(TABLES[marker[1]]()), markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks of ``examples`` as pages; MkDocs calls this once."""
    for path in sorted(EXAMPLES.glob("*.py")):
        files.append(File.generated(config, f"examples/{path.stem}.md", content=write_page(path.stem)))
    for path in sorted(OUTPUTS.glob("*.svg")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def list_operations() -> Iterator[str]:
    """Yield a table of methods, paths, and summaries for each tag of OpenAPI."""
    kinds = [make_kind_routes(kind) for kind in KINDS.values()]
    document: dict[str, Any] = create_api(Settings.model_construct(), Metrics(), kinds).openapi()
    by_tag: dict[str, list[tuple[str, str]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            row = f"`{method.upper()} {path}`", operation["summary"]
            by_tag.setdefault(operation["tags"][0], []).append(row)
    for tag, rows in by_tag.items():
        yield f"### {tag.capitalize()}\n"
        yield from make_table(("operation", "summary"), rows)


def list_commands() -> Iterator[str]:
    """Yield a section for each command: usage, help, and a table of arguments and options."""
    for name, command in walk_commands("parsimony", typer.main.get_command(cli)):
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        usage = [name, *(each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments)]
        yield f"### {name.removeprefix('parsimony ')}\n"
        yield f"`{' '.join(usage)} [OPTIONS]`\n\n{command.help}\n"
        rows = [describe_parameter(each) for each in command.params]
        yield from make_table(("argument or option", "type", "default", "description"), rows) if rows else ()


def walk_commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command that is not a group, with its full name."""
    children: Any = getattr(command, "commands", {"": command})
    for key, child in children.items():
        yield from [(name, child)] if child is command else walk_commands(f"{name} {key}", child)


def describe_parameter(each: Any) -> tuple[str, ...]:
    """Return the cells of an argument or option."""
    names = [each.name.upper()] if each.param_type_name == "argument" else [*each.opts, *each.secondary_opts]
    kind = "flag" if getattr(each, "is_flag", False) else WORDS.get(each.type_descriptor.annotation, "text")
    repeated = ", repeatable" if getattr(each, "multiple", False) or each.nargs == -1 else ""
    default = (
        "required" if each.required else "" if each.default is None or each.default is False else f"`{each.default}`"
    )
    return ", ".join(f"`{one}`" for one in names), kind + repeated, default, each.help or ""


def format_default(default: Any) -> str:
    """Return a default value as code, or nothing if it means unset."""
    return "" if default is None or default is False or default in ("", {}) else f"`{default}`"


def list_settings() -> Iterator[str]:
    """Yield a table of the environment variables: name, type with bounds, default, and description."""
    rows = []
    for name, schema in Settings.model_json_schema()["properties"].items():
        kind = next((one for one in schema.get("anyOf", ()) if one["type"] != "null"), schema)
        default = format_default(schema["default"])
        rows.append((f"`{PREFIX}{name.upper()}`", describe_type(kind), default, schema["description"]))
    yield from make_table(("variable", "type", "default", "description"), rows)


def describe_type(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema in words, with its choices and bounds."""
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    limits = [f"{sign} {schema[key]:.15g}" for key, sign in bounds.items() if key in schema]
    is_text = schema["type"] in ("string", "object")  # a mapping is read from text, too
    return ", ".join([schema.get("format", "text") if is_text else schema["type"], *limits])


def list_metrics() -> Iterator[str]:
    """Yield a table of the metrics: name, type, labels, and help."""
    rows = []
    for family in vars(Metrics()).values():
        for each in family.describe() if hasattr(family, "describe") else ():
            name = each.name + ("_total" if each.type == "counter" else "")
            rows.append((f"`{name}`", each.type, ", ".join(family._labelnames), each.documentation))
    yield from make_table(("metric", "type", "labels", "description"), rows)


def make_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for cells in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "operations": list_operations,
    "commands": list_commands,
    "settings": list_settings,
    "metrics": list_metrics,
}
