"""What each layer of a configuration gives: a file, environment variables (`SPECDEC_DECODING__K=3`), flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specdec_cli.config.problems import Problem, nearest, raise_if_any, show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS, settings_of, unknown_setting
from specdec_cli.config.yaml_file import read_value, read_yaml
from specdec_cli.errors import ConfigError

PREFIX: Final = "SPECDEC_"
CONFIG_VARIABLE: Final = "SPECDEC_CONFIG"
"""Names the config file when no flag does."""

MODELS: Final = ("edge", "cloud")
"""Sections that a model's name, or null, may stand for as a whole."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value, its origin for messages ("default", "mini.yaml:12", "SPECDEC_DECODING__K" or "flag -k") and its source.

    The source "flag" stands for the command line and for a caller.
    """

    value: object
    origin: str = "default"
    source: Literal["default", "file", "environment", "flag"] = "default"


Layer = dict[str, Given]
"""Dotted name -> what was given. `edge` or `cloud` alone, always with the value None, mean: no such model."""


def variable_of(name: str) -> str:
    """The environment variable of a dotted name."""
    return PREFIX + name.upper().replace(".", "__")


VARIABLES: Final[dict[str, str]] = {variable_of(name): name for name in (*SETTINGS, *MODELS)}
"""Environment variable -> dotted name."""


def parse_value(name: str, text: str) -> object:
    """The value that `text` spells for the setting `name`, not checked yet.

    Text is taken as it stands, so that a prompt with a colon needs no quotes; everything else is read as YAML.
    `null`, `~` and nothing at all mean null.
    """
    if text.strip().lower() in ("", "~", "null"):
        return None
    return text if name in MODELS or (name in SETTINGS and SETTINGS[name].takes_text) else read_value(text)


def parse_setting(text: str) -> tuple[str, object]:
    """Split `decoding.k=3` into a dotted name and a value that `load_config` takes among its flags.

    Raises:
        ConfigError: no `=` in it, or no such setting.
    """
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise ConfigError(f"A setting is written name=value, not {show(text)}.", hint="For example: decoding.k=3")
    if name not in SETTINGS and name not in MODELS:
        raise_if_any([unknown_setting(name, "flag")])
    return name, parse_value(name, value)


def _put(layer: Layer, name: str, given: Given, problems: list[Problem]) -> None:
    """Adds a value to a layer; a model's name for a whole section is the section's model."""
    if name in MODELS and isinstance(given.value, str):
        name = f"{name}.model"
    if name in SETTINGS or (name in MODELS and given.value is None):
        layer[name] = given
    else:
        problems.append(unknown_setting(name, given.origin))


def read_file(path: Path, label: str, problems: list[Problem]) -> Layer:
    """The settings in a file, which messages call `label`; names that are no settings go to `problems`.

    Raises:
        ConfigError: it cannot be read at all, or it is not a mapping.
    """
    tree, lines = read_yaml(path, label)
    if not isinstance(tree, dict):
        found = f"{label} is empty" if tree is None else f"{label}:{lines[()]}: expected sections, not {show(tree)}"
        raise ConfigError(f"{found}.", hint=f"A config file is a mapping of sections: {', '.join(SECTIONS)}.")
    layer: Layer = {}
    for section, values in tree.items():
        where = f"{label}:{lines[section,]}"
        if isinstance(values, dict) and section in SECTIONS:
            for field, value in values.items():
                _put(layer, f"{section}.{field}", Given(value, f"{label}:{lines[section, field]}", "file"), problems)
        elif values is None and section in SECTIONS and section not in MODELS:
            continue
        elif section in MODELS and (values is None or isinstance(values, str)):
            _put(layer, section, Given(values, where, "file"), problems)
        elif section in SECTIONS:
            names = ", ".join(setting.field for setting in settings_of(section))
            message = f"{where}: {section} must hold settings, not {show(values)}."
            problems.append(Problem(message, f"Settings in {section}: {names}."))
        else:
            problems.append(unknown_setting(section, where))
    return layer


def read_environment(environ: Mapping[str, str], problems: list[Problem]) -> Layer:
    """The settings in `environ`; variables that look like settings but are none go to `problems`."""
    layer: Layer = {}
    sections = tuple(f"{PREFIX}{section.upper()}_" for section in SECTIONS)
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable in VARIABLES:
            name = VARIABLES[variable]
            _put(layer, name, Given(parse_value(name, environ[variable]), variable, "environment"), problems)
        elif "__" in variable.removeprefix(PREFIX) or variable.startswith(sections):
            close = nearest(variable.removeprefix(PREFIX), [known.removeprefix(PREFIX) for known in VARIABLES])
            hint = f"Did you mean {PREFIX}{close}? " if close else ""
            hint += f"SPECDEC_<SECTION>__<FIELD>, of {', '.join(section.upper() for section in SECTIONS)}."
            problems.append(Problem(f"The variable {show_name(variable)} names no setting.", hint))
    return layer


def read_flags(flags: Mapping[str, object], spelled: Mapping[str, str], problems: list[Problem]) -> Layer:
    """The settings that a command line or a caller gives, by dotted name; other names go to `problems`.

    `spelled` has the user's spelling of each name, for messages.
    """
    layer: Layer = {}
    for name, value in flags.items():
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        _put(layer, name, Given(value, f"flag {spelled.get(name, name)}", "flag"), problems)
    return layer
