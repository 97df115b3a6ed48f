"""Reading YAML 1.2 with the line of every value, and writing it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from specdec_cli.errors import ConfigError, first_line
from specdec_cli.regular_files import read_bytes

Place = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2; without aliases, by which a small file grows without bound."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported", problem_mark=mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would take for another type."""


_Loader.yaml_implicit_resolvers = {}
# PyYAML follows YAML 1.1, in which off is false, 1e-3 is text, 1:30 is 90 and 2024-01-02 is a date.
for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)\Z", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z", list("-+.0123456789")),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_value(text: str) -> object:
    """The scalar, or the list, that `text` is in YAML; `text` itself if it is neither."""
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError):
        return text
    return text if isinstance(value, dict) else value


def write_yaml(values: dict[str, Any]) -> str:
    """`values` as YAML text, in the given order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def read_yaml(path: Path, label: str) -> tuple[object, dict[Place, int]]:
    """The content of a file, None if it is empty, and the line of each key and value.

    Raises ConfigError, which calls the file `label`, if it cannot be read, is not YAML, or has a key twice.
    """
    data = read_bytes(path, label, "Is it really a config file? Check the path and its permissions.")
    lines: dict[Place, int] = {}
    try:
        loader = _Loader(data.decode("utf-8-sig"))
        root = loader.get_single_node()
        return None if root is None else _value(loader, root, (), lines), lines
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
        reason = (getattr(error, "problem", None) or first_line(error))[:200]
        hint = "It is UTF-8 text. Check quotes, colons and indentation around that place: spaces, not tabs."
        raise ConfigError(f"{place}: not valid YAML: {reason}.", hint=hint) from error


def _value(loader: _Loader, node: yaml.Node, place: Place, lines: dict[Place, int]) -> object:
    """What a node holds; the line of every key and value goes to `lines`."""
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*place, i), lines) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    found: dict[str, object] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in found:
            problem = f"{key.value!r} is given twice" if isinstance(key, yaml.ScalarNode) else "a name was expected"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        lines[*place, key.value] = key.start_mark.line + 1
        found[key.value] = _value(loader, value, (*place, key.value), lines)
    return found
