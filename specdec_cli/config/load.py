"""Laying defaults, file, environment and flags over each other into one checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from specdec_cli.config.checks import contradictions
from specdec_cli.config.environment import CONFIG_VARIABLE, NULLS, parse_value, read_environment, variable_of
from specdec_cli.config.gate_file import expand_gate_file
from specdec_cli.config.layers import Given, Layer, Origin, Rank, merge
from specdec_cli.config.locate import absolute_gate, absolute_model, find_config
from specdec_cli.config.problems import Problem, raise_if_any, show
from specdec_cli.config.schema import SECTIONS, Config
from specdec_cli.config.settings import SETTINGS, check_value, unknown_setting
from specdec_cli.config.yaml_file import read_file, write_yaml
from specdec_cli.errors import ConfigError

_NOTHING: Final[Mapping[str, Any]] = {}


class Row(NamedTuple):
    """One line of `config show`."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and how it came about.

    Attributes:
        config: the settings.
        origin: dotted name -> where its value came from: "default", "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k".
            Without a cloud there is `cloud` in place of its settings.
        path: the config file.
    """

    config: Config
    origin: Mapping[str, str] = field(repr=False)
    path: Path

    def rows(self) -> Iterator[Row]:
        """Every setting in the order of the schema, with its value and origin."""
        for section in SECTIONS:
            values = getattr(self.config, section)
            if values is None:
                yield Row(section, None, self.origin[section])
                continue
            for name in type(values).model_fields:
                yield Row(f"{section}.{name}", getattr(values, name), self.origin[f"{section}.{name}"])

    def to_yaml(self) -> str:
        """The merged settings as a config file that loads back to the same configuration."""
        return write_yaml({section: _plain(getattr(self.config, section)) for section in SECTIONS})


def load_config(
    source: str | Path | None = None,
    *,
    flags: Mapping[str, object] = _NOTHING,
    environ: Mapping[str, str] | None = None,
    flag_names: Mapping[str, str] = _NOTHING,
) -> ResolvedConfig:
    """Build the configuration: defaults < file < environment < flags.

    Args:
        source: bare name of a shipped config ("mini") or a path; None: SPECDEC_CONFIG, or else "mini".
        flags: dotted name -> value, of what the user gave and nothing else; `cloud: None` means no cloud.
        environ: environment variables; None: those of the process.
        flag_names: dotted name -> how the user spells it ("-k"), for messages.

    Raises:
        ConfigError: with everything that is wrong, each with its place.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(CONFIG_VARIABLE) if source is None else None
    path, label = find_config(named or source, asked_by=CONFIG_VARIABLE if named else None)
    file_layer, problems = read_file(path, label)
    environment_layer, environment_problems = read_environment(environ)
    flag_layer, flag_problems = _read_flags(flags, flag_names)
    problems += environment_problems + flag_problems
    checked: list[Layer] = []
    for layer, base in ((file_layer, path.parent), (environment_layer, Path()), (flag_layer, Path())):
        checked.append(_checked(expand_gate_file(layer, base, problems), base, problems))
    raise_if_any(problems)
    merged = merge(checked)
    raise_if_any(_missing(merged, label))
    config = _build(merged)
    raise_if_any(contradictions(config, merged))
    return ResolvedConfig(config, {name: given.origin.label for name, given in merged.items()}, path)


def parse_setting(text: str) -> tuple[str, object]:
    """Split `decoding.k=3` into a dotted name and a value that `load_config` takes among its flags.

    Raises:
        ConfigError: no `=` in it, or no such setting.
    """
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise ConfigError(f"A setting is written name=value, not {show(text)}.", hint="For example: decoding.k=3")
    if name == "cloud":
        return name, None if value.strip() in NULLS else value
    if name not in SETTINGS:
        raise_if_any([unknown_setting(name, "flag")])
    return name, parse_value(name, value)


def _read_flags(flags: Mapping[str, object], flag_names: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    layer: Layer = {}
    problems: list[Problem] = []
    for name, value in flags.items():
        origin = Origin.flag(flag_names.get(name, name))
        if name == "cloud" and value is not None:
            problems.append(Problem(f"{origin.label}: cloud may only be null.", "Name the model in cloud.model."))
        elif name not in SETTINGS and name != "cloud":
            problems.append(unknown_setting(name, origin.label))
        else:
            layer[name] = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, origin)
    return layer, problems


def _checked(layer: Layer, base: Path, problems: list[Problem]) -> Layer:
    """The layer with checked values and absolute model folders; what is wrong goes to `problems`."""
    checked: Layer = {}
    for name, given in layer.items():
        if name == "cloud":
            checked[name] = given
            clash = next((other for other in layer if other.startswith("cloud.")), None)
            if clash:
                place = layer[clash].origin.label
                message = f"{given.origin.label}: cloud is null, but {clash} is given ({place})."
                problems.append(Problem(message, "Leave one of them out."))
            continue
        value, problem = check_value(name, given.value, given.origin.label)
        if problem:
            problems.append(problem)
        else:
            checked[name] = Given(_absolute(name, value, base), given.origin)
    return checked


def _absolute(name: str, value: Any, base: Path) -> Any:
    """`value` with a relative path made absolute against `base`, if the setting is one."""
    if name == "cloud.ca_file" and value is not None:
        return os.path.abspath(os.path.join(base, os.path.expanduser(value)))
    if name.endswith(".model") and value is not None:
        return absolute_model(value, base)
    return absolute_gate(value, base) if name == "gate.file" and value is not None else value


def _missing(merged: Layer, label: str) -> list[Problem]:
    """Models that are not named: the edge's, and the cloud's where no address stands in its place."""
    problems = []
    for section in ("edge", "cloud"):
        name = f"{section}.model"
        named = [merged[key].value for key in (name, f"{section}.url") if key in merged]
        if any(value is not None for value in named) or (section == "cloud" and "cloud" in merged):
            continue
        origins = [given.origin for other, given in merged.items() if other.startswith(f"{section}.")]
        first = next((origin.label for origin in origins if origin.rank > Rank.DEFAULT), None)
        because = f", though {section} has settings ({first})" if first else ""
        hint = f"Add {name}: a folder, a hub id or package:mini/{section}; or set {variable_of(name)}."
        problems.append(Problem(f"{label}: {name} is not given{because}.", hint))
    return problems


def _build(merged: Layer) -> Config:
    values: dict[str, Any] = {section: {} for section in SECTIONS}
    for name, given in merged.items():
        section, _, setting = name.partition(".")
        if setting:
            values[section][setting] = given.value
        else:
            values[section] = None
    return Config.model_validate(values)


def _plain(section: Any) -> dict[str, Any] | None:
    """A section as YAML can hold it."""
    if section is None:
        return None
    return {name: list(value) if isinstance(value, tuple) else value for name, value in section}
