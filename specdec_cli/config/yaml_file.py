"""Reading YAML with the line of every value, and nothing in it that a settings file does not need.

The words of YAML 1.2 hold: only true and false are booleans, `1e-3` is a number, `010` is text. Aliases, tags and
deep nesting are refused, so no file can expand beyond its size.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from specdec_cli.config.locate import read_bytes
from specdec_cli.config.problems import Problem, show, show_name
from specdec_cli.errors import ConfigError

MAX_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 20
_TAG: Final = "tag:yaml.org,2002:"
Place = tuple[str | int, ...]
"""Keys and indices that lead to a value."""

_PLAIN_SCALARS: Final = (
    ("null", re.compile(r"\A(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"\A(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"\A[-+]?(?:0|[1-9][0-9]{0,39})\Z"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"\A(?:[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40}|[0-9]{1,40}(?=[eE]))(?:[eE][-+]?[0-9]{1,5})?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    """Composes nodes (never Python objects) with the scalars above."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own name)
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases (*name) are not supported: write the value out", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refused("tags (!name) are not supported", event)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _refused(f"nested more than {_MAX_DEPTH} deep", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either version of YAML would take for something other than text."""


for _name, _pattern, _first in _PLAIN_SCALARS:
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, _first)
    _Dumper.add_implicit_resolver(_TAG + _name, _pattern, _first)


def _refused(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read_value(text: str) -> object:
    """The scalar, or the list of scalars, that `text` spells in YAML; `text` itself if it spells neither."""
    try:
        node = _compose(text)
        value = None if node is None else _tree(node, (), "", {}, [])
    except (yaml.YAMLError, ValueError):
        return text
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, (list, dict)) for v in value))
    return text if nested else value


def write_yaml(values: dict[str, Any]) -> str:
    """`values` as YAML text, in the given order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def read_yaml(path: Path, label: str) -> tuple[object, dict[Place, int], list[Problem]]:
    """A file of any structure: its mappings, lists and scalars, the line of each, and what is wrong with its keys.

    Args:
        path: the file.
        label: how messages call it.

    Returns:
        None for an empty file; lines by the keys and indices that lead to a value; keys that are not words, or come
        twice.

    Raises:
        ConfigError: it cannot be read, or is not the YAML described above.
    """
    root = _compose_file(_read_text(path, label), label)
    problems: list[Problem] = []
    lines: dict[Place, int] = {}
    return None if root is None else _tree(root, (), label, lines, problems), lines, problems


def _tree(node: yaml.Node, place: Place, label: str, lines: dict[Place, int], problems: list[Problem]) -> object:
    """What a node holds; keys that are not words, or come twice, become problems."""
    lines.setdefault(place, _line(node))
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item, (*place, index), label, lines, problems) for index, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(node)
    found: dict[str, object] = {}
    for key, value in node.value:
        where = f"{label}:{_line(key)}"
        if not isinstance(key, yaml.ScalarNode):
            message = f"{where}: a name was expected, not {show(_tree(key, (), label, {}, []))}."
            problems.append(Problem(message, "Settings are written name: value."))
            continue
        name = str(key.value)
        if name in found:
            dotted = show_name(".".join(map(str, (*place, name))))
            message = f"{where}: {dotted} is given twice, first in line {lines[*place, name]}."
            problems.append(Problem(message, "Keep one of them."))
            continue
        lines[*place, name] = _line(key)
        found[name] = _tree(value, (*place, name), label, lines, problems)
    return found


def _read_text(path: Path, label: str) -> str:
    data = read_bytes(path, label, MAX_BYTES, "Is it really a config file? Check the path and its permissions.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{label} is not UTF-8 text (byte {error.start})."
        raise ConfigError(message, hint="Save it as UTF-8.") from error


def _compose(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _compose_file(text: str, label: str) -> yaml.Node | None:
    try:
        return _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        tab = "'\\t'" in (error.problem or "")
        hint = "Indent with spaces, not tabs." if tab else "Check quotes, colons and indentation around that place."
        raise ConfigError(f"{place}: not valid YAML: {_one_line(reason)}.", hint=hint) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line = before.count("\n") + 1
        column = error.position - (before.rfind("\n") + 1) + 1
        message = f"{label}:{line}:{column}: not valid YAML: a character that is not allowed."
        raise ConfigError(message, hint="Remove the control character.") from error


def _one_line(reason: str) -> str:
    """PyYAML's reason on one line, without what a terminal would act on."""
    return "".join(c if c.isprintable() else " " for c in reason)[:200]


def _scalar(node: yaml.Node) -> object:
    text = str(node.value)
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            return text


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
