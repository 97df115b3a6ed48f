"""What is installed: what users call, and the weights, without the code for people who work on specdec."""

import ast
import re
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
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


def module_name(path: Path) -> str:
    """Below the package, e.g. `decoding.loop`; a folder's own name for its `__init__`."""
    return ".".join(path.relative_to(ROOT / "specdec_cli").with_suffix("").parts).removesuffix(".__init__")


@cache
def imported_modules() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports: anywhere in it, for its types, too."""
    paths = {module_name(path): path for path in (ROOT / "specdec_cli").rglob("*.py")}
    found: dict[str, set[str]] = {}
    for own, path in paths.items():
        names = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "specdec_cli":
                package = (node.module or "").partition(".")[2]
                wholes = {f"{package}.{alias.name}".lstrip(".") for alias in node.names}
                names |= {whole if whole in paths else package for whole in wholes}
        found[own] = names - {own, ""}
    return found


def test_imports_go_one_way_in_the_order_of_the_table_for_contributors():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| module | job |\n")[2].partition("\n\n")[0]
    rows = [re.findall("`([a-z_/]+?)/?`", line.split("|")[1]) for line in table.splitlines()]
    places = {name: place for place, names in enumerate(rows) for name in names}
    outside = {"__init__", "__main__", "mini"}  # the names for users, which look all modules up; the weights
    modules = {own: names for own, names in imported_modules().items() if own.split(".")[0] not in outside}
    assert {own.split(".")[0] for own in modules} == {name for names in rows for name in names} - {"mini/weights"}
    place = {own: places[own.split(".")[0]] for own in modules}
    assert not [f"{own}: {name}" for own, names in modules.items() for name in names if place[name] > place[own]]


def test_no_modules_import_each_other():
    modules = {own: names for own, names in imported_modules().items() if own != "__init__"}
    assert len(tuple(TopologicalSorter(modules).static_order())) > 150  # raises for a circle, and names it


def test_few_modules_import_for_their_types_alone():
    trees = (parsed(path) for path in (ROOT / "specdec_cli").rglob("*.py"))
    apart = [node for tree in trees for node in tree.body if ast.unparse(node).startswith("if TYPE_CHECKING:")]
    assert len(apart) <= 20, "a module that needs another for its types alone may stand in the wrong place"


def test_the_image_of_the_server_copies_what_the_build_needs():
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    copied = {name for words in lines if words[:1] == ["COPY"] for name in words[1:-1]}
    assert copied == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "configs", "specdec_cli"}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
