"""What is installed: what users call, and the weights, without the code for people who work on specdec."""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APART = {"training", "tools", "tests"}


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def imported(module: Path) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    nodes = list(ast.walk(parsed(module)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names}


def test_the_package_imports_nothing_that_is_not_installed():
    modules = sorted((ROOT / "specdec_cli").rglob("*.py"))
    assert len(modules) > 100
    assert not [str(module) for module in modules if imported(module) & APART]


@pytest.mark.parametrize(
    ("library", "importers"),
    [
        ("librosa", {"export/spectra", "export/timeline"}),
        ("matplotlib", {"picture", "export/timeline", "tune/frontier_plot"}),
    ],
)
def test_heavy_libraries_are_imported_where_a_picture_is_drawn_alone(library, importers):
    modules = (ROOT / "specdec_cli").rglob("*.py")
    found = {
        str(path.relative_to(ROOT / "specdec_cli").with_suffix("")) for path in modules if library in imported(path)
    }
    assert found == importers


def test_no_two_classes_have_one_name():
    trees = (parsed(module) for module in (ROOT / "specdec_cli").rglob("*.py"))
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


class ImportedParts(ast.NodeVisitor):
    """The parts of the package that a module imports, anywhere in it but for its types."""

    def __init__(self, module: Path) -> None:
        self.found: set[str] = set()
        self.visit(parsed(module))

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        package, _, part = (node.module or "").partition(".")
        if package == "specdec_cli":
            self.found |= {part} if part else {alias.name for alias in node.names}


def test_imports_go_one_way_in_the_order_of_the_table_for_contributors():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| module | job |\n")[2].partition("\n\n")[0]
    rows = [re.findall("`([a-z_/]+?)/?`", line.split("|")[1]) for line in table.splitlines()]
    places = {name: place for place, names in enumerate(rows) for name in names}

    def place(module: str) -> int:
        """Its own row or that of its folder."""
        parts = module.split(".")
        return places.get("/".join(parts[:2]), places.get(parts[0], 0))

    backward = []
    for module in sorted((ROOT / "specdec_cli").rglob("[a-z]*.py")):
        own = ".".join(module.relative_to(ROOT / "specdec_cli").with_suffix("").parts)
        parts = ImportedParts(module).found
        folder = own.split(".")[0]
        backward += [f"{own}: {part}" for part in parts if place(part) > place(own) and part.split(".")[0] != folder]
    assert not backward


def test_training_and_tools_are_typed_and_only_in_the_source_distribution():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["hatch"]["build"]["targets"]["wheel"]["packages"] == ["specdec_cli"]
    assert set(tool["hatch"]["build"]["targets"]["sdist"]["include"]) > APART
    assert {"specdec_cli", "training", "tools"} == set(tool["mypy"]["packages"])


def test_the_image_of_the_server_copies_what_the_build_needs():
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    copied = {name for words in lines if words[:1] == ["COPY"] for name in words[1:-1]}
    assert copied == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "configs", "specdec_cli"}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
