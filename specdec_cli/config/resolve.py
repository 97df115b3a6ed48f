"""Defaults, a file, environment variables and flags, laid over each other into one checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from specdec_cli.config.checks import contradictions
from specdec_cli.config.layers import DEFAULTS, MODELS, Given, Layer, layer_of, own, read_environment, read_file
from specdec_cli.config.locate import PACKAGED, find_config, follows_shipped_prompts
from specdec_cli.config.schema import Config
from specdec_cli.config.settings import wrong_values
from specdec_cli.config.yaml_file import write_yaml
from specdec_cli.errors import ConfigError, raise_if_any
from specdec_cli.text import show, show_name

_LOCALES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
_OF_MINI: Final = {"entropy": 1.0, "class-entropy": 1.09}
"""Gate -> threshold of the mini pair, nats: its captions are of a closed vocabulary, so its entropies are low."""
_NOTHING: Final[Mapping[str, Any]] = {}

_MADE_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    "gate.name": ("gate.threshold", "gate.wake"),
    "edge.model": ("edge.instruction",),
    "cloud.model": ("cloud.instruction",),
}
"""Choice -> settings that were given for its value: with another one they are refused, never dropped or applied."""


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and the origins of its settings."""

    config: Config
    origin: Mapping[str, str] = field(repr=False)  # by dotted name, as in `Given`; `edge`, `cloud`: of no such model
    path: Path | None  # the config file; None: the defaults, which are for published models
    _layers: tuple[Layer, ...] = field(default=(), repr=False, compare=False)
    _environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, layers: Iterable[Layer], environ: Mapping[str, str], path: Path | None) -> Self:
        """The configuration of layers, the weakest first; errors as in `load_config`."""
        kept = tuple(layers)
        merged = _merged(kept)
        raise_if_any(_given_for_another(kept))
        _derive(merged, environ)
        given = DEFAULTS | merged
        config = _validated(merged)
        raise_if_any(contradictions(config, given))
        return cls(config, {name: each.origin for name, each in given.items()}, path, kept, environ)

    def varied(self, settings: Mapping[str, object], origin: str) -> Self:
        """This configuration with one more layer over all others; errors as in `load_config`.

        An option of the command line may lose its effect; each of `settings` must have one.
        """
        before = ({name: replace(each, chosen=False) for name, each in layer.items()} for layer in self._layers)
        given = ((name, Given(value, f"{origin}.{name}", True)) for name, value in settings.items())
        return self.of([*before, layer_of(given, Path())], self._environ, self.path)

    @property
    def reads(self) -> list[Path]:
        """The files that it came from or names."""
        cuts = self.config.audio.cuts_path
        files = [*cuts.rglob("*")] if cuts is not None and cuts.is_dir() else [cuts]
        named = (self.path, *files)
        return [path for path in named if path is not None]

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Name, value and origin of every setting, in the order of the schema."""
        for section, settings in self.config:
            for name, value in [(section, None)] if settings is None else settings:
                dotted = section if settings is None else f"{section}.{name}"
                yield dotted, value, self.origin[dotted]

    def chosen(self, name: str) -> bool:
        """Whether an option of the command line gives a setting."""
        return self.origin[name].startswith("flag ")

    @property
    def label(self) -> str:
        """Its name in messages."""
        return str(self.path or "the defaults for published models")

    @property
    def note(self) -> str:
        """A sentence for the beginning of a run: the language of the captions, and where that is set."""
        name = {"zh": "Chinese", "en": "English"}[self.config.prompt.language]
        return f"Captions are in {name} ({self.origin['prompt.language'].removeprefix('flag ')})."

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

    Without `source` the file of the mini pair is used. If variables or flags name other models, none is: the
    defaults are those of published models. If only one model is named, the mode is edge or cloud.

    Args:
        source: bare name of a shipped config ("mini") or a path; None: SPECDEC_CONFIG, or else as above.
        flags: dotted name -> value, of what the user gave and nothing else; `edge` and `cloud` take a model's name,
            or None for no such model.
        environ: environment variables; None: those of the process.
        flag_names: dotted name -> how the user spells it ("-k"), for messages.

    Raises:
        ConfigError: names the place of every value that is wrong.
    """
    environ = os.environ if environ is None else environ
    named = source if source is not None else environ.get("SPECDEC_CONFIG") or None
    path, label = find_config(named)
    in_flags = ((name, Given(value, f"flag {flag_names.get(name, name)}", True)) for name, value in flags.items())
    layers = [layer_of(read_environment(environ), Path()), layer_of(in_flags, Path())]
    models = {
        role: layer[f"{role}.model"].value
        for layer in layers
        for role in MODELS
        if f"{role}.model" in layer and not _is_address(layer[f"{role}.model"])
    }
    in_file = named is not None or all(
        model is None or follows_shipped_prompts(str(model)) for model in models.values()
    )
    if in_file:
        of_file = layer_of(read_file(path, label), path.parent)
        if named is None and len(models) == 1 and PACKAGED.keys().isdisjoint(map(str, models.values())):
            others = [role for role in MODELS if not any(own(role, layer) for layer in layers)]
            layers = [dict.fromkeys(others, Given(None)), *layers]  # the model writes alone, as one of the hub would
        layers = [of_file, *layers]
    return ResolvedConfig.of(layers, dict(environ), path if in_file else None)


def _is_address(given: Given) -> bool:
    return "://" in str(given.value)


def _merged(layers: Iterable[Layer]) -> Layer:
    """Layers, the weakest first, over each other. If a layer removes a model, its weaker settings go."""
    merged = Layer()
    for layer in layers:
        for model in MODELS:
            gone = own(model, merged) if model in layer else [model] if own(model, layer) else []
            merged = {name: given for name, given in merged.items() if name not in gone}
        merged |= layer
    return merged


def _given_for_another(layers: Sequence[Layer]) -> Iterator[ConfigError]:
    """An error for each setting of `_MADE_FOR` that a layer gives for a choice that a stronger layer changes."""
    merged = _merged(layers)
    for choice, settings in _MADE_FOR.items():
        if choice in merged and merged[choice].value in ("always", "never"):
            continue  # gates without a threshold
        for name in settings:
            place = max((at for at, layer in enumerate(layers) if name in layer), default=None)
            if place is None or name not in merged or merged[name].value is None:
                continue
            then = _merged(layers[: place + 1]).get(choice, DEFAULTS[choice])
            now = merged.get(choice, DEFAULTS[choice])
            if then.value != now.value:
                yield ConfigError(
                    f"{name} is {show(merged[name].value)} ({merged[name].origin}), which was given for {choice} "
                    f"{show_name(str(then.value))}, but {choice} is {show_name(str(now.value))} ({now.origin}).",
                    hint=f"Give {name} beside {choice}, too; null: its default.",
                )


def _validated(merged: Layer) -> Config:
    """The configuration; ConfigError with the place of every value that a setting does not take."""
    values: dict[str, Any] = {}
    for name, given in merged.items():
        section, _, setting = name.partition(".")
        if setting:
            values.setdefault(section, {})[setting] = given.value

    def place(name: str) -> str:
        """Where a setting was given, or, if it is missing, another one of its section."""
        return merged[name if name in merged else own(name, merged)[0]].origin

    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise_if_any(wrong_values(error, place))
        raise


def _derive(merged: Layer, environ: Mapping[str, str]) -> None:
    """Fills in mode, threshold and language where no layer gives them: by the models, the gate and the locale."""
    models = [model for model in MODELS if own(model, merged)]
    if "decoding.mode" not in merged and len(models) == 1:
        merged["decoding.mode"] = Given(models[0], f"default, as {models[0]} stands alone")
    name, threshold, edge = (
        merged.get(key, DEFAULTS[key]).value for key in ("gate.name", "gate.threshold", "edge.model")
    )
    if isinstance(name, str) and name in _OF_MINI and threshold is None and edge and follows_shipped_prompts(str(edge)):
        merged["gate.threshold"] = Given(_OF_MINI[name], "default of the mini pair")
    if "prompt.language" not in merged:
        variable = next((name for name in _LOCALES if environ.get(name)), None)
        locale = environ[variable] if variable else ""
        place = f"{variable} is {show_name(locale)}" if variable else "default, without a locale"
        merged["prompt.language"] = Given("zh" if locale.lower().startswith("zh") else "en", place)
