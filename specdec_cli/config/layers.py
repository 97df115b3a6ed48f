"""What each layer of a configuration gives: a file, environment variables (`SPECDEC_DECODING__K=3`), flags."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.config.problems import show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS
from specdec_cli.config.yaml_file import read_value, read_yaml
from specdec_cli.errors import ConfigError

_PREFIX: Final = "SPECDEC_"
CONFIG_VARIABLE: Final = "SPECDEC_CONFIG"
"""Names the config file when no flag does."""

MODELS: Final = ("edge", "cloud")
"""Sections that a model's name, or null, may stand for as a whole."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value and its origin for messages: "default", "mini.yaml:12", "SPECDEC_DECODING__K" or "flag -k".

    `chosen` is whether it was given for this one run, by the command line or by a caller.
    """

    value: object
    origin: str = "default"
    chosen: bool = False


Layer = dict[str, Given]
"""Dotted name -> what was given. `edge` or `cloud` alone, always with the value None, mean: no such model."""


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
        ConfigError: no `=` in it.
    """
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise ConfigError(f"A setting is written name=value, not {show(text)}.", hint="For example: decoding.k=3")
    return name, parse_value(name, value)


def read_file(path: Path, label: str) -> Iterator[tuple[str, Given]]:
    """Name and value of the settings in a file, which messages call `label`, not checked yet.

    Raises:
        ConfigError: it cannot be read at all, or it is not a mapping.
    """
    tree, lines = read_yaml(path, label)
    if not isinstance(tree, dict):
        found = f"{label} is empty" if tree is None else f"{label}:{lines[()]}: expected sections, not {show(tree)}"
        raise ConfigError(f"{found}.", hint=f"A config file is a mapping of sections: {', '.join(SECTIONS)}.")
    for section, values in tree.items():
        if isinstance(values, dict) and section in SECTIONS:
            for field, value in values.items():
                yield f"{section}.{field}", Given(value, f"{label}:{lines[section, field]}")
        elif values is not None or section in MODELS or section not in SECTIONS:
            yield section, Given(values, f"{label}:{lines[section,]}")


def read_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """Name and value of what looks like a setting in `environ`, not checked yet."""
    for variable in sorted(environ):
        rest = variable.removeprefix(_PREFIX)
        name = rest.lower().replace("__", ".")
        if variable != rest and ("__" in rest or name.partition("_")[0] in SECTIONS):
            yield name, Given(parse_value(name, environ[variable]), show_name(variable))


def read_flags(flags: Mapping[str, object], spelled: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """Name and value of what a command line or a caller gives; `spelled` has the user's spelling of each name."""
    for name, value in flags.items():
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        yield name, Given(value, f"flag {spelled.get(name, name)}", chosen=True)
