"""List the messages of errors and of the log, each with its module, for review.

The list is compared with ``tests/golden/messages.txt``. Renew it after a change:

    python tools/list_messages.py > tests/golden/messages.txt
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "models", "solvers")
LOGGERS = ("logger", "log")
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
BUILT_IN = {"BadParameter", "Fault", "OSError", "RuntimeError", "TypeError", "ValueError"}
HOLE = "{…}"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print the list."""
    print("\n".join(list_messages()))  # noqa: T201
    return 0


def list_messages() -> list[str]:
    """Return a sorted line for each message: the module, and the text with placeholders."""
    nodes = {}  # walked once: it takes longer than all else
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        nodes[name] = list(ast.walk(ast.parse(path.read_text())))
    names = find_makers([node for own in nodes.values() for node in own])
    found = {f"{name}: {text}" for name, own in nodes.items() for text in Module(own, names).find_messages()}
    return sorted(found)


def find_makers(nodes: list[ast.AST]) -> set[str]:
    """Return the names of exceptions, and of functions that are annotated to return one."""
    names = set(BUILT_IN)
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    while True:
        derived = {each.name for each in classes if {last_name(base) for base in each.bases} & (names | {"Exception"})}
        if derived <= names:
            break
        names |= derived
    functions = [node for node in nodes if isinstance(node, Function) and node.returns is not None]
    return names | {each.name for each in functions if last_name(each.returns) in names and each.name != "from_faults"}


def last_name(node: ast.AST | None) -> str:
    """Return the last part of a name: ``Fault`` of ``models.Fault``, and of ``"Fault"`` in quotes."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Module:
    """A module, and what its names may hold."""

    def __init__(self, nodes: list[ast.AST], makers: set[str]) -> None:
        self.nodes, self.makers = nodes, makers
        self.values: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, Function) and last_name(node.returns) == "str":
                returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
                self.values.setdefault(f"{node.name}()", []).extend(returned)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.values.setdefault(node.targets[0].id, []).append(node.value)

    def find_messages(self) -> Iterator[str]:
        """Yield the text of each message."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and (self.is_log(node.func) or last_name(node.func) in self.makers):
                for argument in (*node.args, *(each.value for each in node.keywords)):
                    for text in self.texts_of(argument):
                        if " " in text.replace(HOLE, "").strip():
                            yield " ".join(text.split())

    def is_log(self, function: ast.expr) -> bool:
        """Return whether a function writes to the log."""
        is_level = isinstance(function, ast.Attribute) and function.attr in LEVELS
        return is_level and last_name(function.value) in (*LOGGERS, "")  # type: ignore[attr-defined]

    def texts_of(self, node: ast.expr, depth: int = 0) -> list[str]:
        """Return the texts that an expression may have, with a placeholder for what is computed."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return ["".join(str(each.value) if isinstance(each, ast.Constant) else HOLE for each in parts)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [a + b for a in self.texts_of(left, depth) for b in self.texts_of(right, depth)]
            case ast.IfExp(body=body, orelse=orelse):
                return self.texts_of(body, depth) + self.texts_of(orelse, depth)
            case ast.Name(id=name):
                key = name
            case ast.Call(func=ast.Name(id=name)):
                key = f"{name}()"
            case _:
                return [HOLE]
        inner = [text for each in self.values.get(key, ()) for text in self.texts_of(each, depth + 1) if depth < 2]
        return inner or [HOLE]


if __name__ == "__main__":
    sys.exit(main())
