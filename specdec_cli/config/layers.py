"""The settings that one source gives: a file, environment variables, or options.

A layer is a mapping of dotted names to what was given. `edge` or `cloud` alone, with null, mean: no such model.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.locate import absolute_model, absolute_path
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS, takes_text, unknown
from specdec_cli.config.yaml_file import read_value, read_yaml
from specdec_cli.errors import ConfigError, raise_if_any
from specdec_cli.text import show, show_name
from specdec_cli.times import EITHER, parse


@dataclass(frozen=True, slots=True)
class Given:
    """A value of a setting, and its origin."""

    value: object
    origin: str = "default"  # or "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k"
    chosen: bool = False  # for this one run, by the command line or by a caller


Layer = dict[str, Given]

MODELS: Final = ("edge", "cloud")
"""Sections that a model's name, or null, may replace as a whole."""

_FILES: Final = (
    *("audio.segment", "remote.ca_file"),
    *("serve.tls_cert", "serve.tls_key"),
)
"""Settings that name a file: relative to the config file, or to the working folder."""

DEFAULTS: Final[Layer] = dict.fromkeys(MODELS, Given(None)) | {
    name: Given(None if info.is_required() else info.default) for name, info in SETTINGS.items()
}


def parse_setting(text: str) -> tuple[str, object]:
    """Split `decoding.k=3` into a dotted name and a value that `load_config` takes among its flags."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"A setting is written name=value, not {show(text)}.", hint="For example: decoding.k=3")
    return name.strip(), parse_value(name.strip(), value)


def parse_value(name: str, text: str) -> object:
    """The value of the setting `name` that `text` writes, not checked yet.

    Text is taken as it is, so that a prompt with a colon needs no quotes; everything else is read as YAML.
    `null`, `~` and nothing at all mean null.
    """
    if text.strip().lower() in ("", "~", "null"):
        return None
    return text if name in MODELS or (name in SETTINGS and takes_text(name)) else read_value(text)


def read_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """Name and value of settings in `environ`, unchecked: SPECDEC_EDGE, SPECDEC_CLOUD, and SPECDEC_SECTION__NAME."""
    for variable in sorted(environ):
        rest = variable.removeprefix("SPECDEC_")
        name = rest.lower().replace("__", ".")
        if variable != rest and ("__" in rest or name in MODELS):
            yield name, Given(parse_value(name, environ[variable]), show_name(variable))


def misspelt_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence about each variable that would be a setting with its section, or two underscores behind that."""
    spelled = defaultdict[str, list[str]](list)
    for name in SETTINGS:
        for form in (name.replace(".", "_"), name.partition(".")[2]):
            spelled[f"SPECDEC_{form.upper()}"].append(name)
    for variable in sorted(spelled.keys() & environ.keys()):
        right = " or ".join(f"SPECDEC_{name.upper().replace('.', '__')}" for name in spelled[variable])
        yield f"{variable} is not a setting and has no effect; {' or '.join(spelled[variable])} would be {right}."


def read_file(path: Path, label: str) -> Iterator[tuple[str, Given]]:
    """Name and value of the settings in a file, which messages call `label`; ConfigError if it is not a mapping."""
    tree, lines = read_yaml(path, label)
    if not isinstance(tree, dict):
        hint = f"A config file is a mapping of sections: {', '.join(SECTIONS)}."
        raise ConfigError(f"{label} holds {show(tree)}, and no sections.", hint=hint)
    for section, values in tree.items():
        if isinstance(values, dict) and section in SECTIONS:
            for name, value in values.items():
                yield f"{section}.{name}", Given(value, f"{label}:{lines[section, name]}")
        elif values is not None or section in MODELS or section not in SECTIONS:
            yield section, Given(values, f"{label}:{lines[section,]}")


def layer_of(values: Iterable[tuple[str, Given]], base: Path) -> Layer:
    """A layer with absolute paths, which start from `base`. Settings of a model that is null are ignored.

    Raises ConfigError for unknown settings.
    """
    layer, misspelt = Layer(), list[ConfigError]()
    for given_name, given in values:
        name = f"{given_name}.model" if given_name in MODELS and given.value is not None else given_name
        if name in DEFAULTS:
            layer[name] = replace(given, value=_absolute(name, given.value, base))
        else:
            misspelt.append(unknown(name, given.origin))
    raise_if_any(misspelt)
    without = {name for model in MODELS if model in layer for name in own(model, layer)}
    return {name: given for name, given in layer.items() if name not in without}


def own(name: str, layer: Layer) -> list[str]:
    """The settings that a layer gives of the section of `name`."""
    return [given for given in layer if given.startswith(f"{name.partition('.')[0]}.")]


def _absolute(name: str, value: object, base: Path) -> object:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or "://" in value:
        return value  # refused later where it should be a path
    if name.endswith(".model"):
        return absolute_model(value, base)
    is_length = name == "audio.segment" and not EITHER.fullmatch(value)
    if is_length and (length_s := parse(value)) is not None:  # written as in a table: 0,5 or ３０
        return length_s
    return absolute_path(value, base) if name in _FILES and value != AT_PAUSES else value
