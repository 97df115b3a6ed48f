"""Laying defaults, file, environment and flags over each other into one checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from specdec_cli.config.checks import contradictions
from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.gate_file import expand_gate_file, names_gate_file, thresholds
from specdec_cli.config.layers import (
    CONFIG_VARIABLE,
    MODELS,
    Given,
    Layer,
    read_environment,
    read_file,
    read_flags,
    variable_of,
)
from specdec_cli.config.locate import (
    absolute_model,
    absolute_path,
    find_config,
    follows_shipped_prompts,
    gate_path,
    model_source,
)
from specdec_cli.config.problems import Problem, raise_if_any, show_name
from specdec_cli.config.schema import SECTIONS, Config
from specdec_cli.config.settings import SETTINGS, check_value, settings_of
from specdec_cli.config.yaml_file import write_yaml

_NOTHING: Final[Mapping[str, Any]] = {}
_LANGUAGE: Final = "prompt.language"
_LOCALES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
_MINI_ENTROPY: Final = 1.0  # nats; the mini pair's captions are of a closed vocabulary, so its entropies are low

_RESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "gate.name": ("gate.threshold", "gate.wake"),
    "gate.threshold": ("gate.wake",),
    "decoding.k": ("decoding.defer",),
    "prompt.style": ("prompt.text",),
    "edge.model": ("edge.revision",),
    "cloud.model": ("cloud.revision",),
}
"""Choice -> settings that a weaker layer wrote for another choice: they return to their defaults."""

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "cloud.model": ("cloud.url", "cloud.token_env", "cloud.ca_file"),
    "cloud.url": ("cloud.model", "cloud.revision"),
}
"""As `_RESETS`, for a cloud that is either loaded here or reached at an address; a vllm has a model at an address."""

_FILES: Final = ("audio.segment", "edge.ca_file", "cloud.ca_file", "gate.file")
"""Settings that name a file, relative to the config file or to the working folder."""


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and how it came about.

    Attributes:
        config: the settings.
        origin: dotted name -> where its value came from: "default", "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k".
            For a model that there is not, there is its section's name in place of its settings.
        path: the config file; None: the defaults, which are for published models.
        reads: the files that it came from: that one, gate files that any layer names, and a file of cuts.
    """

    config: Config
    origin: Mapping[str, str] = field(repr=False)
    path: Path | None
    reads: tuple[Path, ...]

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Name, value and origin of every setting, in the order of the schema; where null has a meaning, that value.

        Raises:
            ConfigError: the gate file cannot be used.
        """
        meant = dict(self._meant())
        for section in SECTIONS:
            values = getattr(self.config, section)
            if values is None:
                yield section, None, self.origin[section]
                continue
            for field_name in type(values).model_fields:
                name, value = f"{section}.{field_name}", getattr(values, field_name)
                value, origin = meant.get(name, (value, "")) if value is None else (value, "")
                yield name, value, origin or self.origin[name]

    def _meant(self) -> Iterator[tuple[str, tuple[object, str]]]:
        """What null stands for in the settings of the gate and the loop: value and origin."""
        decoding, gate = self.config.decoding, self.config.gate
        if decoding.mode in ("hybrid", "lossless"):
            yield "decoding.degrade", (decoding.degrades, f"default in mode {decoding.mode}")
            yield "acceptance.rule", (self.config.acceptance_rule, f"default at temperature {decoding.temperature:g}")
        if decoding.mode == "hybrid":
            threshold, wake = thresholds(gate)
            origin = f"default of the gate {gate.name}" if gate.name != "learned" else str(gate.file)
            yield "gate.threshold", (threshold, origin)
            if decoding.defers:
                yield "gate.wake", (wake, "the threshold" if wake == threshold else origin)

    @property
    def label(self) -> str:
        """What messages call it."""
        return str(self.path or "the defaults for published models")

    @property
    def notes(self) -> Iterator[str]:
        """Sentences to print before a run: the language of the captions, and the meaning of k."""
        config = self.config
        name = {"zh": "Chinese", "en": "English"}[config.prompt.language]
        yield f"Captions are in {name} ({self.origin[_LANGUAGE].removeprefix('flag ')})."
        k, origin = config.decoding.k, self.origin["decoding.k"].removeprefix("flag ")
        in_blocks = config.decoding.mode == "hybrid" and not config.decoding.defers and k != "auto"
        if in_blocks and config.gate.stop_drafting:
            yield (
                f"Blocks hold up to {k} tokens ({origin}); a block ends early at a token that the gate is unsure of "
                "(gate.stop_drafting is true)."
            )

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

    Without a file, the mini pair's counts; where variables or flags name other models, none does: the defaults are
    those of published models. A model alone makes the mode: edge, or cloud.

    Args:
        source: bare name of a shipped config ("mini") or a path; None: SPECDEC_CONFIG, or else as above.
        flags: dotted name -> value, of what the user gave and nothing else; `edge` and `cloud` take a model's name,
            or None for no such model.
        environ: environment variables; None: those of the process.
        flag_names: dotted name -> how the user spells it ("-k"), for messages.

    Raises:
        ConfigError: with everything that is wrong, each with its place.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(CONFIG_VARIABLE) if source is None else None
    problems: list[Problem] = []
    given = [read_environment(environ, problems), read_flags(flags, flag_names, problems)]
    path, label = find_config(named or source, asked_by=CONFIG_VARIABLE if named else None)
    layers = [(read_file(path, label, problems), path.parent), *((layer, Path()) for layer in given)]
    if other := _other_model(*(layer for layer, _ in layers)):
        if source or named:
            message = f"{other.value} ({other.origin}) is another model than those {label} is written for."
            problems.append(Problem(message, "Leave --config out: the defaults are those of published models."))
        del layers[0]
    checked = [_checked(expand_gate_file(layer, base, problems), base, problems) for layer, base in layers]
    raise_if_any(problems)
    merged = merge(checked)
    _derive(merged, environ)
    raise_if_any(list(_unnamed(merged)))
    config = _build(merged)
    raise_if_any(contradictions(config, merged))
    gates = [(layer[key].value, base) for layer, base in layers for key in ("gate.name", "gate.file") if key in layer]
    reads = [gate_path(absolute_path(str(name), base)) for name, base in gates if names_gate_file(name)]
    reads += [file for file in (None if other else path, config.audio.cuts_path) if file is not None]
    origin = {name: given.origin for name, given in merged.items()}
    return ResolvedConfig(config, origin, None if other else path, tuple(reads))


def _other_model(file: Layer, *stronger: Layer) -> Given | None:
    """What names another model than the mini pair's where the file is the mini pair's own; None: nothing does."""
    own = [given for name in MODELS if (given := file.get(f"{name}.model"))]
    named = [given for layer in stronger for name in MODELS if (given := layer.get(f"{name}.model")) and given.value]
    if not any(map(_is_mini, own)):
        return None
    return next((given for given in named if not _is_mini(given)), None)


def _is_mini(given: Given) -> bool:
    """Whether it names a model of the mini pair, or one that was trained like them."""
    return follows_shipped_prompts(model_source(absolute_model(str(given.value), Path())))


def merge(layers: Iterable[Layer]) -> Layer:
    """`layers`, the weakest first, over the defaults; for a model that there is not, its section's name alone."""
    merged: Layer = {name: Given(None) for name in MODELS}
    for section in SECTIONS:
        if section not in MODELS:
            merged |= _defaults(section)
    for layer in layers:
        _lay(layer, merged)
    return merged


def _defaults(section: str) -> Layer:
    return {setting.name: Given(setting.default) for setting in settings_of(section) if not setting.required}


def _lay(layer: Layer, merged: Layer) -> None:
    for section in MODELS:
        if section in layer:
            for setting in settings_of(section):
                merged.pop(setting.name, None)
        elif section in merged and any(name.startswith(f"{section}.") for name in layer):
            del merged[section]
            merged |= _defaults(section)
    engine = layer.get("cloud.engine") or merged.get("cloud.engine") or Given(None)
    places = [] if engine.value == "vllm" else [name for name in _PLACES if name in layer and layer[name].value]
    for chosen, resets in (*_RESETS.items(), *((name, _PLACES[name]) for name in places)):
        new, old = layer.get(chosen), merged.get(chosen)
        if new is None:
            continue
        if chosen in ("decoding.k", "prompt.style") or old is None or new.value != old.value:
            merged |= {name: Given(SETTINGS[name].default) for name in resets}
    merged |= layer


def _derive(merged: Layer, environ: Mapping[str, str]) -> None:
    """Fills in what follows from other settings or from the locale, where no layer gives it."""
    if merged["decoding.mode"].source == "default":
        alone = next((name for name, other in (MODELS, MODELS[::-1]) if other in merged and name not in merged), None)
        if alone:
            merged["decoding.mode"] = Given(alone, f"default, as {alone} stands alone")
    entropy = merged["gate.name"].value == "entropy" and merged["gate.threshold"].value is None
    if entropy and (edge := merged.get("edge.model")) and _is_mini(edge):
        merged["gate.threshold"] = Given(_MINI_ENTROPY, "default of the mini pair")
    if merged[_LANGUAGE].source == "default":
        variable = next((name for name in _LOCALES if environ.get(name)), None)
        locale = environ[variable] if variable else ""
        place = f"{variable} is {show_name(locale)}" if variable else "default, without a locale"
        merged[_LANGUAGE] = Given("zh" if locale.lower().startswith("zh") else "en", place)


def _checked(layer: Layer, base: Path, problems: list[Problem]) -> Layer:
    """The layer with checked values and absolute paths; what is wrong goes to `problems`."""
    checked: Layer = {}
    for name, given in layer.items():
        value, problem = (None, None) if name in MODELS else check_value(name, given.value, given.origin)
        if clash := next((other for other in layer if name in MODELS and other.startswith(f"{name}.")), None):
            message = f"{given.origin}: {name} is null, but {clash} is given ({layer[clash].origin})."
            problem = Problem(message, "Leave one of them out.")
        if problem is not None:
            problems.append(problem)
        if isinstance(value, str) and value != AT_PAUSES and name in _FILES:
            value = absolute_path(value, base)
        elif isinstance(value, str) and name.endswith(".model"):
            value = absolute_model(value, base)
        checked[name] = replace(given, value=value)
    return checked


def _unnamed(merged: Layer) -> Iterator[Problem]:
    """Models that have settings, but no name."""
    for section in MODELS:
        keys = [f"{section}.model"] + [f"{section}.url"] * (section == "cloud")
        if section in merged or any(key in merged and merged[key].value is not None for key in keys):
            continue
        own = (given for name, given in merged.items() if name.startswith(f"{section}."))
        first = next((given.origin for given in own if given.source != "default"), "default")
        hint = f"Add {section}: NAME, a folder or a hub id; or give --{section}, or {variable_of(section)}."
        yield Problem(f"{section}.model is not given, though {section} has settings ({first}).", hint)


def _build(merged: Layer) -> Config:
    values: dict[str, Any] = {section: {} for section in SECTIONS}
    for name, given in merged.items():
        section, _, setting = name.partition(".")
        if setting:
            values[section][setting] = given.value
        else:
            values[section] = None
    return Config.model_validate(values)
