"""Check that code outside of the kinds of artifacts works through their interface.

It names no kind, asks no object what it can do, and has a type for each plan, query, decision, and their containers.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {"cascade", "index", "portfolio", "pipeline", "policy"}
FOLDERS = ("app", "solvers", "models")
EXCEPTIONS = {
    "solvers/__init__.py": "the registry",
    "app/cli/main.py": "commands that only one kind has, such as `portfolio assign`",
    "app/cli/kind_commands.py": "the same commands",
    "app/demo": "the demo builds and runs each kind for its own images",
    "app/terminal.py": "the column `cascade` of a table",
    "app/routes/batches.py": "the field `index` of a line",
    "models/chat.py": "the field `index` of a choice",
    "app/running/protocols/openai_embeddings.py": "the field `index` of an embedding",
    "app/store/item_tables.py": "the column `index` of a table",
    "app/routes/dependencies.py": "hasattr on pydantic's metadata",
    "solvers/learners": "hasattr on scikit-learn's classifiers",
}
TYPED = {"live", "plan", "query", "decision"}
"""Parameters that have a type in ``app``."""
CONTAINERS = {"ArtifactKind", "Fitted", "LoadedArtifact", "FastDecisionRoute"}
"""Generic types whose parameters are known."""
"""Files, or folders, that may, and why."""


def main() -> int:
    """Print each place that is not excepted; return 1 if there is any."""
    places = [
        place for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")) for place in places_in(file)
    ]
    print("\n".join(places) or "kinds: named, and left open, nowhere outside of their modules")  # noqa: T201
    return bool(places)


def places_in(file: Path) -> Iterator[str]:
    """Yield the places of a file that name a kind, call hasattr, or leave a plan's type open."""
    path = file.relative_to(ROOT)
    if is_of_a_kind(path) or any(path == Path(one) or Path(one) in path.parents for one in EXCEPTIONS):
        return
    tree = ast.parse(file.read_text())
    examples = {id(part) for node in ast.walk(tree) for example in examples_of(node) for part in ast.walk(example)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in KINDS and id(node) not in examples:
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Name) and node.id == "hasattr":
            yield f"{path}:{node.lineno}: hasattr"
        if isinstance(node, ast.arg | ast.Subscript) and has_open_type(node, path.parts[0] == "app"):
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def has_open_type(node: ast.arg | ast.Subscript, in_app: bool) -> bool:
    """Return whether a node is ``plan: Any``, say, or ``LoadedArtifact[Any]``."""
    if isinstance(node, ast.arg):
        return in_app and node.arg in TYPED and is_any(node.annotation)
    if not (isinstance(node.value, ast.Name) and node.value.id in CONTAINERS):
        return False
    inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(is_any(one) for one in inside)


def is_any(annotation: ast.AST | None) -> bool:
    """Return whether an annotation is ``Any``."""
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def is_of_a_kind(path: Path) -> bool:
    """Return whether a module belongs to one kind, by its folder or its name."""
    names = {path.parts[1], *path.stem.split("_")[:1]} if path.parts[0] != "app" else {path.stem}
    return bool(names & KINDS)


def examples_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the examples that a node documents a schema with, which have to name some kind."""
    if isinstance(node, ast.keyword) and node.arg in ("examples", "json_schema_extra"):
        yield node.value
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "example")


if __name__ == "__main__":
    sys.exit(main())
