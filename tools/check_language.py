"""Check the language of code and documentation: banned words, vague function names, class names used twice.

The rules are in ``[tool.parsimony.language]`` of ``pyproject.toml``: ``banned`` maps a regular expression to what to
write instead, ``function_names`` lists functions whose name may be a single word, ``generated`` the files that are
exempt.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "models", "solvers")
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["parsimony"]["language"]
BANNED = re.compile(r"\b(" + "|".join(RULES["banned"]) + r")\b", re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}|<[^>]*>", re.DOTALL)


def main() -> int:
    """Print each violation; return 1 if there is any."""
    found = [*check_python(), *check_texts()]
    print("\n".join(found) or "language: no violations")  # noqa: T201
    return bool(found)


def check_python() -> Iterator[str]:
    """Yield violations in docstrings, comments, messages, and names of the product's modules."""
    defined: dict[str, str] = {}
    for path in files(*(f"{folder}/**/*.py" for folder in FOLDERS)):
        tree = ast.parse((ROOT / path).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield from banned_words(path, node.lineno, node.value)
        for node in public_functions(tree):
            if is_vague(node):
                yield f"{path}:{node.lineno}: function name {node.name} must have a verb and an object"
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in defined:
                    yield f"{path}:{node.lineno}: class name {node.name} is used in {defined[node.name]}"
                defined[node.name] = str(path)


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a module and the methods of its classes."""
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("_"):
                yield each


def check_texts() -> Iterator[str]:
    """Yield violations in documentation, templates, and scripts of the console."""
    for path in files("README.md", "docs/**/*.md", "deploy/*.md", "app/console/**/*.html", "app/console/**/*.js"):
        text = (ROOT / path).read_text()
        if path.suffix == ".js":
            texts = re.finditer(r'"[^"\n]* [^"\n]*"|`[^`]* [^`]*`', text)
            for each in texts:
                yield from banned_words(path, text.count("\n", 0, each.start()) + 1, each.group())
        else:
            prose = CODE.sub(lambda code: "\n" * code.group().count("\n"), text)
            yield from banned_words(path, 1, prose)


def files(*patterns: str) -> Iterator[Path]:
    """Yield the paths of files that match, relative to the repository, without those that are exempt."""
    exempt = set(RULES["generated"])
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            relative = path.relative_to(ROOT)
            if not exempt & {str(one) for one in (relative, *relative.parents)}:
                yield relative


def banned_words(path: Path, line: int, text: str) -> Iterator[str]:
    """Yield each banned word of a text."""
    for match in BANNED.finditer(text):
        yield f"{path}:{line + text.count(chr(10), 0, match.start())}: {match.group()!r} is banned"


def is_vague(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a public function's name is a single word that is not a term of the field; properties are
    nouns."""
    is_property = any("property" in ast.unparse(each) for each in function.decorator_list)
    return not is_property and "_" not in function.name and function.name not in RULES["function_names"]


if __name__ == "__main__":
    sys.exit(main())
