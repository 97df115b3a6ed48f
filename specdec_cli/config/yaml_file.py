"""Reading YAML with the line of every value, and writing it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from specdec_cli.config.locate import read_bytes
from specdec_cli.config.problems import Problem, show, show_name
from specdec_cli.errors import ConfigError

MAX_BYTES: Final = 1_000_000
Place = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without aliases, by which a small file could grow without bound."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not supported: write the value out", problem_mark=mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either version of YAML would take for something other than text."""


# YAML 1.1 takes 1e-3 for text, 1:30 for a number, yes for a boolean and 2024-01-02 for a date; YAML 1.2 does not.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag.rpartition(":")[2] in ("null", "merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,39})\Z", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,4})?\Z", "-+.0123456789"),
    ("float", r"(?:[-+]?\.inf|\.nan)\Z", "-+."),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def read_value(text: str) -> object:
    """The scalar, or the list of scalars, that `text` spells in YAML; `text` itself if it spells neither."""
    try:
        value = yaml.load(text, _Loader)
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
        ConfigError: it cannot be read, or is no YAML.
    """
    data = read_bytes(path, label, MAX_BYTES, "Is it really a config file? Check the path and its permissions.")
    problems: list[Problem] = []
    lines: dict[Place, int] = {}
    try:
        loader = _Loader(data.decode("utf-8-sig"))
        root = loader.get_single_node()
        value = None if root is None else _value(loader, root, (), label, lines, problems)
    except UnicodeDecodeError as error:
        message = f"{label} is not UTF-8 text (byte {error.start})."
        raise ConfigError(message, hint="Save it as UTF-8.") from error
    except yaml.reader.ReaderError as error:
        line = data.decode("utf-8-sig")[: error.position].count("\n") + 1
        message = f"{label}:{line}: not valid YAML: a character that is not allowed."
        raise ConfigError(message, hint="Remove the control character.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        shown = "".join(c if c.isprintable() else " " for c in reason)[:200]
        hint = "Indent with spaces, not tabs; check quotes, colons and indentation around that place."
        raise ConfigError(f"{place}: not valid YAML: {shown}.", hint=hint) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{label}: not valid YAML.", hint="Is it really a config file?") from error
    return value, lines, problems


def _value(
    loader: _Loader, node: yaml.Node, place: Place, label: str, lines: dict[Place, int], problems: list[Problem]
) -> object:
    """What a node holds; keys that are not words, or come twice, become problems."""
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*place, i), label, lines, problems) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    found: dict[str, object] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        name = str(key.value)
        if not isinstance(key, yaml.ScalarNode):
            shown = show(_value(loader, key, (), label, {}, []))
            message = f"{label}:{line}: a name was expected, not {shown}."
            problems.append(Problem(message, "Settings are written name: value."))
        elif name in found:
            dotted = show_name(".".join(map(str, (*place, name))))
            message = f"{label}:{line}: {dotted} is given twice, first in line {lines[*place, name]}."
            problems.append(Problem(message, "Keep one of them."))
        else:
            lines[*place, name] = line
            found[name] = _value(loader, value, (*place, name), label, lines, problems)
    return found
