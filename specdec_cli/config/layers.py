"""The layers of a configuration, each checked: a file, environment variables (`SPECDEC_DECODING__K=3`), flags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.gate_file import read_gate_file
from specdec_cli.config.locate import absolute_model, absolute_path, model_source
from specdec_cli.config.problems import show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS, check_value
from specdec_cli.config.yaml_file import read_value, read_yaml
from specdec_cli.errors import ConfigError

_PREFIX: Final = "SPECDEC_"
CONFIG_VARIABLE: Final = "SPECDEC_CONFIG"
"""Names the config file when no flag does."""

MODELS: Final = ("edge", "cloud")
"""Sections that a model's name, or null, may stand for as a whole."""

_FILES: Final = ("audio.segment", "edge.ca_file", "cloud.ca_file", "gate.file")
"""Settings that name a file, relative to the config file or to the working folder."""


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


class Checking:
    """Checks what is given, value by value, and collects what is wrong, so that one run reports all of it.

    Attributes:
        problems: one for each value that is wrong.
        gate_files: those that `gate.name` names.
    """

    def __init__(self) -> None:
        self.problems: list[ConfigError] = []
        self.gate_files: list[Path] = []

    def layers(self, values: Iterable[tuple[str, Given]], base: Path) -> tuple[Layer, Layer]:
        """A layer with checked values and absolute paths, after one with the settings of a gate file that it names.

        Beside a gate file null means the file's value. `base` is the folder that relative paths start from.
        """
        of_gate_file: Layer = {}
        layer: Layer = {}
        for name, given in values:
            try:
                if name == "gate.name" and str(given.value).lower().endswith(".json"):
                    path = absolute_path(str(given.value), base)
                    self.gate_files.append(Path(model_source(path)))
                    of_gate_file = _of_gate_file(path, given)
                elif name in MODELS and given.value is None:
                    layer[name] = given
                else:
                    name = f"{name}.model" if name in MODELS else name
                    value = check_value(name, given.value, given.origin)
                    layer[name] = replace(given, value=_absolute(name, value, base))
            except ConfigError as error:
                self.problems.append(error)
        if of_gate_file and layer.get("gate.stop_drafting", Given(None)).value:  # drafts that stop are blocks
            of_gate_file["decoding.defer"] = replace(of_gate_file["decoding.defer"], value=False)
        for model in MODELS:
            if model in layer and (own := given_in(model, layer)):
                message = f"{layer[model].origin}: {model} is null, but {own[0]} is given ({layer[own[0]].origin})."
                self.problems.append(ConfigError(message, hint="Leave one of them out."))
        kept = {name: given for name, given in layer.items() if given.value is not None or name not in of_gate_file}
        return of_gate_file, kept


def _absolute(name: str, value: object, base: Path) -> object:
    if isinstance(value, str) and name.endswith(".model"):
        return absolute_model(value, base)
    names_file = isinstance(value, str) and name in _FILES and value != AT_PAUSES
    return absolute_path(str(value), base) if names_file else value


def given_in(section: str, layer: Layer) -> list[str]:
    """The settings of a section that a layer gives."""
    return [name for name in layer if name.startswith(f"{section}.")]


def _of_gate_file(path: str, given: Given) -> Layer:
    """The settings in the gate file at `path`, which `given`, a `gate.name`, names.

    They count less than the settings of the layer that names the file. Only the gate itself is chosen for the run.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        file = read_gate_file(Path(model_source(path)), str(given.value))
    except ConfigError as error:
        raise ConfigError(f"{given.origin}: {error.message}", hint=error.hint) from error
    origin = f"{given.origin}, {Path(path).name}"
    settings = {
        "gate.threshold": file.threshold,
        "gate.wake": file.wake,
        "gate.stop_drafting": file.stop_drafting,
        "gate.file": path if file.learned else None,
        "decoding.defer": file.defer,
        "decoding.k": file.k,
    }
    brought = {name: Given(value, origin) for name, value in settings.items() if value is not None}
    return {"gate.name": Given(file.gate, origin, given.chosen), **brought}
