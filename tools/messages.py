"""Prints every message that the package may show: `python -m tools.messages`, a line each, with its place.

A message is a text with a blank in it that an error is raised with, a hint, or what is warned of or noted. `{}` is what
the code fills in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import specdec_cli

ROOT = Path(specdec_cli.__file__).parent
_CALLED = re.compile(r"(Error|Fault|Skipped|warn|warning|note|fail|say|echo|print)$")  # end of what is called with one
_NAMED = re.compile(r"(hint|says?|message|reason|why|note|what|fault)s?$")  # end of what is assigned one


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each message in a file, in order."""
    found = set[tuple[int, str]]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and _CALLED.search(_name(node.func)):
            given: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.keyword | ast.Assign) and any(map(_NAMED.search, _targets(node))):
            given = [node.value]
        else:
            continue
        found |= {(part.lineno, text) for one in given for part in _texts(one) if " " in (text := _written(part))}
    yield from sorted(found)


def _targets(node: ast.keyword | ast.Assign) -> list[str]:
    return [node.arg or ""] if isinstance(node, ast.keyword) else list(map(_name, node.targets))


def _name(node: ast.AST) -> str:
    """The last name of what is called or assigned to."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Tuple(elts=[*_, last]):
            return _name(last)
        case _:
            return ""


def _texts(node: ast.AST) -> Iterator[ast.expr]:
    """The outermost texts in an expression."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _written(node: ast.expr) -> str:
    """A text with `{}` for what the code fills in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def main() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        for line, text in messages(path):
            print(f"{path.relative_to(ROOT.parent)}:{line}: {text}")


if __name__ == "__main__":
    main()
