"""Laying defaults, file, environment and flags over each other into one checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from specdec_cli.config.checks import contradictions
from specdec_cli.config.gate_file import expand_gate_file, names_gate_file
from specdec_cli.config.layers import Layer, Rank, merge
from specdec_cli.config.locate import absolute_model, absolute_path, find_config, gate_path
from specdec_cli.config.problems import Problem, raise_if_any
from specdec_cli.config.schema import AT_PAUSES, SECTIONS, Config
from specdec_cli.config.settings import check_value
from specdec_cli.config.sources import CONFIG_VARIABLE, read_environment, read_file, read_flags, variable_of
from specdec_cli.config.yaml_file import write_yaml

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and how it came about.

    Attributes:
        config: the settings.
        origin: dotted name -> where its value came from: "default", "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k".
            Without a cloud there is `cloud` in place of its settings.
        path: the config file.
        reads: the files that it came from: that one, gate files that any layer names, and a file of cuts.
    """

    config: Config
    origin: Mapping[str, str] = field(repr=False)
    path: Path
    reads: tuple[Path, ...]

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Name, value and origin of every setting, in the order of the schema."""
        for section in SECTIONS:
            values = getattr(self.config, section)
            if values is None:
                yield section, None, self.origin[section]
                continue
            for name in type(values).model_fields:
                yield f"{section}.{name}", getattr(values, name), self.origin[f"{section}.{name}"]

    def to_yaml(self) -> str:
        """The merged settings as a config file that loads back to the same configuration."""
        return write_yaml(self.config.model_dump(mode="json"))


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
    problems: list[Problem] = []
    layers = (
        (read_file(path, label, problems), path.parent),
        (read_environment(environ, problems), Path()),
        (read_flags(flags, flag_names, problems), Path()),
    )
    checked = [_checked(expand_gate_file(layer, base, problems), base, problems) for layer, base in layers]
    raise_if_any(problems)
    merged = merge(checked)
    raise_if_any(_missing(merged, label))
    config = _build(merged)
    raise_if_any(contradictions(config, merged))
    gates = [(layer[key].value, base) for layer, base in layers for key in ("gate.name", "gate.file") if key in layer]
    reads = (path, *(gate_path(absolute_path(str(name), base)) for name, base in gates if names_gate_file(name)))
    if config.audio.cuts_path is not None:
        reads = (*reads, config.audio.cuts_path)
    return ResolvedConfig(config, {name: given.place for name, given in merged.items()}, path, reads)


def _checked(layer: Layer, base: Path, problems: list[Problem]) -> Layer:
    """The layer with checked values and absolute paths; what is wrong goes to `problems`."""
    checked: Layer = {}
    clash = next((other for other in layer if other.startswith("cloud.")), None)
    for name, given in layer.items():
        if name == "cloud":
            checked[name] = given
            if clash:
                message = f"{given.place}: cloud is null, but {clash} is given ({layer[clash].place})."
                problems.append(Problem(message, "Leave one of them out."))
            continue
        value, problem = check_value(name, given.value, given.place)
        if problem:
            problems.append(problem)
            continue
        if name == "audio.segment" and isinstance(value, str) and value not in AT_PAUSES:
            value = absolute_path(value, base)
        if value is not None and name in ("cloud.ca_file", "gate.file"):
            value = absolute_path(value, base)
        elif value is not None and name.endswith(".model"):
            value = absolute_model(value, base)
        checked[name] = replace(given, value=value)
    return checked


def _missing(merged: Layer, label: str) -> list[Problem]:
    """Models that are not named: the edge's, and the cloud's where no address stands in its place."""
    problems = []
    for section in ("edge", "cloud"):
        name = f"{section}.model"
        named = [merged[key].value for key in (name, f"{section}.url") if key in merged]
        if any(value is not None for value in named) or (section == "cloud" and "cloud" in merged):
            continue
        said = [given for other, given in merged.items() if other.startswith(f"{section}.")]
        first = next((given.place for given in said if given.rank > Rank.DEFAULT), None)
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
