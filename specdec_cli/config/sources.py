"""What each layer gives: a config file, environment variables (`SPECDEC_DECODING__K=3` is `decoding.k`), flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from specdec_cli.config.layers import Given, Layer, Rank
from specdec_cli.config.problems import Problem, nearest, raise_if_any, show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS, settings_of, unknown_setting
from specdec_cli.config.yaml_file import read_value, read_yaml
from specdec_cli.errors import ConfigError

PREFIX: Final = "SPECDEC_"
CONFIG_VARIABLE: Final = "SPECDEC_CONFIG"
"""Names the config file when no flag does."""

_NO_CLOUD: Final = "SPECDEC_CLOUD"  # null: no cloud, whatever the file says
_NULLS: Final = ("", "~", "null", "Null", "NULL")


def variable_of(name: str) -> str:
    """The environment variable of a dotted name."""
    return PREFIX + name.upper().replace(".", "__")


VARIABLES: Final[dict[str, str]] = {variable_of(name): name for name in SETTINGS}
"""Environment variable -> dotted name."""


def parse_value(name: str, text: str) -> object:
    """The value that `text` spells for the setting `name`, not checked yet.

    Text is taken as it stands, so that a prompt with a colon needs no quotes; everything else is read as YAML.
    `null`, `~` and nothing at all mean null.
    """
    if text.strip() in _NULLS:
        return None
    return text if name in SETTINGS and SETTINGS[name].takes_text else read_value(text)


def parse_setting(text: str) -> tuple[str, object]:
    """Split `decoding.k=3` into a dotted name and a value that `load_config` takes among its flags.

    Raises:
        ConfigError: no `=` in it, or no such setting.
    """
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise ConfigError(f"A setting is written name=value, not {show(text)}.", hint="For example: decoding.k=3")
    if name not in SETTINGS and name != "cloud":
        raise_if_any([unknown_setting(name, "flag")])
    return name, parse_value(name, value)


def read_file(path: Path, label: str, problems: list[Problem]) -> Layer:
    """The settings in a file, which messages call `label`; what is wrong with its structure goes to `problems`.

    Raises:
        ConfigError: it cannot be read at all, or it is not a mapping.
    """
    tree, lines, found = read_yaml(path, label)
    problems += found
    if tree is None:
        raise ConfigError(f"{label} is empty.", hint="It needs at least edge: {model: ...}; start from a shipped one.")
    if not isinstance(tree, dict):
        hint = f"A config file is a mapping of sections: {', '.join(SECTIONS)}."
        raise ConfigError(f"{label}:{lines[()]}: expected sections, not {show(tree)}.", hint=hint)
    layer: Layer = {}
    for section, values in tree.items():
        where = f"{label}:{lines[section,]}"
        if section not in SECTIONS:
            problems.append(unknown_setting(section, where))
        elif isinstance(values, dict):
            for field, value in values.items():
                name, place = f"{section}.{field}", f"{label}:{lines[section, field]}"
                if name in SETTINGS:
                    layer[name] = Given(value, Rank.FILE, place)
                else:
                    problems.append(unknown_setting(name, place))
        elif values is not None:
            names = ", ".join(setting.field for setting in settings_of(section))
            message = f"{where}: {section} must hold settings, not {show(values)}."
            problems.append(Problem(message, f"Settings in {section}: {names}."))
        elif section == "cloud":
            layer[section] = Given(None, Rank.FILE, where)
    return layer


def read_environment(environ: Mapping[str, str], problems: list[Problem]) -> Layer:
    """The settings in `environ`; variables that look like settings but are none go to `problems`."""
    layer: Layer = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[variable]
        if variable == _NO_CLOUD and text.strip() not in _NULLS:
            message = f"{variable} may only be null (no cloud), not {show(text)}."
            problems.append(Problem(message, f"To name a cloud model, set {variable_of('cloud.model')}."))
        elif variable in VARIABLES or variable == _NO_CLOUD:
            name = VARIABLES.get(variable, "cloud")
            layer[name] = Given(parse_value(name, text), Rank.ENVIRONMENT, variable)
        elif "__" in variable.removeprefix(PREFIX) or variable.startswith(
            tuple(f"{PREFIX}{section.upper()}_" for section in SECTIONS)
        ):
            problems.append(_unknown_variable(variable))
    return layer


def _unknown_variable(variable: str) -> Problem:
    rest = variable.removeprefix(PREFIX)
    section = rest.partition("_")[0].lower()
    close = nearest(rest, [known.removeprefix(PREFIX) for known in VARIABLES])
    hint = f"Did you mean {PREFIX}{close}? " if close else ""
    if section in SECTIONS:
        hint += f"Variables of {section}: {', '.join(variable_of(s.name) for s in settings_of(section))}."
    else:
        hint += f"SPECDEC_<SECTION>__<FIELD>, of {', '.join(section.upper() for section in SECTIONS)}."
    return Problem(f"The variable {show_name(variable)} names no setting.", hint)


def read_flags(flags: Mapping[str, object], spelled: Mapping[str, str], problems: list[Problem]) -> Layer:
    """The settings that a command line gives, or a caller; other names go to `problems`.

    Args:
        flags: dotted name -> value.
        spelled: dotted name -> how the user spells it.
        problems: what is wrong.
    """
    layer: Layer = {}
    for name, value in flags.items():
        place = f"flag {spelled.get(name, name)}"
        if name == "cloud" and value is not None:
            problems.append(Problem(f"{place}: cloud may only be null.", "Name the model in cloud.model."))
        elif name not in SETTINGS and name != "cloud":
            problems.append(unknown_setting(name, place))
        else:
            layer[name] = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, Rank.FLAG, place)
    return layer
