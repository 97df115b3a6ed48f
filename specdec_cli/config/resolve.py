"""Laying defaults, file, environment and flags over each other into one checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from specdec_cli.config.checks import contradictions
from specdec_cli.config.gate_file import thresholds
from specdec_cli.config.layers import (
    CONFIG_VARIABLE,
    MODELS,
    Checking,
    Given,
    Layer,
    given_in,
    read_environment,
    read_file,
    read_flags,
)
from specdec_cli.config.locate import find_config, follows_shipped_prompts
from specdec_cli.config.problems import raise_if_any, show_name
from specdec_cli.config.schema import Config
from specdec_cli.config.settings import SETTINGS
from specdec_cli.config.yaml_file import write_yaml
from specdec_cli.errors import ConfigError

_NOTHING: Final[Mapping[str, Any]] = {}
_LOCALES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
_MINI_ENTROPY: Final = 1.0  # nats; the mini pair's captions are of a closed vocabulary, so its entropies are low

_DEFAULTS: Final[Layer] = {
    **{name: Given(None) for name in MODELS},
    **{setting.name: Given(setting.default) for setting in SETTINGS.values()},
}

_RESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "gate.name": ("gate.threshold", "gate.wake"),
    "gate.threshold": ("gate.wake",),
    "decoding.k": ("decoding.defer",),
    "prompt.style": ("prompt.text",),
    "edge.model": ("edge.revision",),
    "cloud.model": ("cloud.revision",),
}
"""Choice -> settings that a weaker layer wrote for another choice: they return to their defaults."""

_RESET_BY_THE_SAME: Final = ("decoding.k", "prompt.style")
"""Choices that reset the others even where they are what they were."""

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "cloud.model": ("cloud.url", "cloud.token_env", "cloud.ca_file"),
    "cloud.url": ("cloud.model", "cloud.revision"),
}
"""As `_RESETS`, for a cloud that is either loaded here or reached at an address; a vllm has a model at an address."""


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and how it came about.

    Attributes:
        config: the settings.
        origin: dotted name -> where its value came from: "default", "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k".
            `edge` and `cloud` say it of a model that there is not.
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
        for section, settings in self.config:
            if settings is None:
                yield section, None, self.origin[section]
                continue
            for setting, value in settings:
                name = f"{section}.{setting}"
                yield name, *(meant[name] if value is None and name in meant else (value, self.origin[name]))

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
        yield f"Captions are in {name} ({self.origin['prompt.language'].removeprefix('flag ')})."
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
    path, label = find_config(named or source, CONFIG_VARIABLE if named else None)
    check = Checking()
    in_file = check.layers(read_file(path, label), path.parent)
    stronger = [
        *check.layers(read_environment(environ), Path()),
        *check.layers(read_flags(flags, flag_names), Path()),
    ]
    other = _other_model(in_file, stronger)
    if other and (source or named):
        message = f"{other.value} ({other.origin}) is another model than those {label} is written for."
        hint = "Leave --config out: the defaults are those of published models."
        check.problems.append(ConfigError(message, hint=hint))
    raise_if_any(check.problems)
    merged = _merged([*([] if other else in_file), *stronger])
    _derive(merged, environ)
    config = _build(merged)
    given = _DEFAULTS | merged
    raise_if_any(contradictions(config, given))
    reads = [None if other else path, *check.gate_files, config.gate.weights_path, config.audio.cuts_path]
    origin = {name: each.origin for name, each in given.items()}
    return ResolvedConfig(config, origin, None if other else path, tuple(file for file in reads if file is not None))


def _other_model(in_file: Iterable[Layer], stronger: Iterable[Layer]) -> Given | None:
    """What names another model than the mini pair's where the file is the mini pair's own; None: nothing does."""

    def named(layers: Iterable[Layer]) -> Iterator[Given]:
        yield from (given for layer in layers for name in MODELS if (given := layer.get(f"{name}.model")))

    if not any(_is_mini(given) for given in named(in_file)):
        return None
    return next((given for given in named(stronger) if given.value and not _is_mini(given)), None)


def _is_mini(model: Given) -> bool:
    """Whether it names a model of the mini pair, or one that was trained like them."""
    return follows_shipped_prompts(str(model.value))


def _merged(layers: Iterable[Layer]) -> Layer:
    """`layers`, the weakest first, over each other."""
    merged: Layer = {}
    for layer in layers:
        dropped = set(_reset_by(layer, merged))
        for model in MODELS:
            if model in layer:
                dropped |= {*given_in(model, merged)}
            elif given_in(model, layer):
                dropped.add(model)
        merged = {name: given for name, given in merged.items() if name not in dropped} | layer
    return merged


def _reset_by(layer: Layer, weaker: Layer) -> Iterator[str]:
    """Settings that weaker layers wrote for another choice than the layer's."""
    for chosen, resets in _RESETS.items():
        before = weaker.get(chosen, _DEFAULTS[chosen]).value
        if chosen in layer and (chosen in _RESET_BY_THE_SAME or layer[chosen].value != before):
            yield from resets
    engine = layer.get("cloud.engine") or weaker.get("cloud.engine")
    if engine is None or engine.value != "vllm":
        for chosen, resets in _PLACES.items():
            if chosen in layer and layer[chosen].value:
                yield from resets


def _derive(merged: Layer, environ: Mapping[str, str]) -> None:
    """Fills in what follows from other settings or from the locale, where no layer gives it."""
    models = [model for model in MODELS if given_in(model, merged)]
    if "decoding.mode" not in merged and len(models) == 1:
        merged["decoding.mode"] = Given(models[0], f"default, as {models[0]} stands alone")
    name, threshold, edge = (merged.get(key, Given(None)) for key in ("gate.name", "gate.threshold", "edge.model"))
    if name.value == "entropy" and threshold.value is None and edge.value and _is_mini(edge):
        merged["gate.threshold"] = Given(_MINI_ENTROPY, "default of the mini pair")
    if "prompt.language" not in merged:
        variable = next((name for name in _LOCALES if environ.get(name)), None)
        locale = environ[variable] if variable else ""
        place = f"{variable} is {show_name(locale)}" if variable else "default, without a locale"
        merged["prompt.language"] = Given("zh" if locale.lower().startswith("zh") else "en", place)


def _build(merged: Layer) -> Config:
    """The configuration of checked values; ConfigError where a model has settings, but no name."""
    values: dict[str, Any] = {}
    for name, given in merged.items():
        section, _, setting = name.partition(".")
        if setting:
            values.setdefault(section, {})[setting] = given.value
    for model in MODELS:
        own = values.get(model)
        if own is not None and not own.get("model") and not (model == "cloud" and own.get("url")):
            first = merged[given_in(model, merged)[0]].origin
            hint = f"Add {model}: NAME, a folder or a hub id; or give --{model}."
            raise ConfigError(f"{model}.model is not given, though {model} has settings ({first}).", hint=hint)
    return Config.model_validate(values)
