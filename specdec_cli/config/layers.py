"""Values with the place they came from, and how a later layer replaces an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from specdec_cli.config.settings import SETTINGS, settings_of


class Rank(IntEnum):
    """Whose word counts: the larger wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    Attributes:
        rank: which layer.
        label: how to say it: "default", "mini.yaml:12", "SPECDEC_DECODING__K", "flag -k".
    """

    rank: Rank
    label: str

    @classmethod
    def default(cls) -> Origin:
        """The schema."""
        return cls(Rank.DEFAULT, "default")

    @classmethod
    def file(cls, place: str) -> Origin:
        """A line of the config file."""
        return cls(Rank.FILE, place)

    @classmethod
    def environment(cls, variable: str) -> Origin:
        """An environment variable."""
        return cls(Rank.ENVIRONMENT, variable)

    @classmethod
    def flag(cls, spelling: str) -> Origin:
        """A command-line flag, or an argument of a caller."""
        return cls(Rank.FLAG, f"flag {spelling}")


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it came from."""

    value: object
    origin: Origin


Layer = dict[str, Given]
"""Dotted name -> what was given. The name `cloud` alone, always with the value None, means: no cloud."""


@dataclass(frozen=True, slots=True)
class Displacement:
    """A choice that makes older settings meaningless: they return to their defaults.

    A threshold of 1.0 nat, written for the entropy gate, must not become a margin of 1.0 when a flag picks that gate.

    Attributes:
        chosen: dotted name of the choice.
        resets: what an earlier layer said about these no longer counts.
        when: (new value, old value) -> whether the choice does that.
        unless: (dotted name, value) of a setting with which it does not.
    """

    chosen: str
    resets: tuple[str, ...]
    when: Callable[[object, object], bool] = lambda new, old: new != old
    unless: tuple[str, object] | None = None


_VLLM: Final = ("cloud.engine", "vllm")  # has a model at an address

DISPLACEMENTS: Final = (
    Displacement("gate.name", ("gate.threshold",)),
    Displacement("prompt.style", ("prompt.text",), lambda _new, _old: True),
    Displacement("decoding.temperature", ("decoding.top_p", "decoding.top_k"), lambda new, _old: new == 0),
    Displacement("cloud.url", ("cloud.model", "cloud.revision"), lambda new, _old: new is not None, _VLLM),
    Displacement(
        "cloud.model", ("cloud.url", "cloud.token_env", "cloud.ca_file"), lambda new, _old: new is not None, _VLLM
    ),
    *(
        displacement
        for model in ("edge", "cloud")
        for displacement in (
            Displacement(f"{model}.model", (f"{model}.revision",)),
            Displacement(f"{model}.device", (f"{model}.device_map",), lambda new, _old: new != "auto"),
            Displacement(f"{model}.device_map", (f"{model}.device",), lambda new, _old: new is not None),
        )
    ),
)


def defaults(section: str) -> Layer:
    """The defaults of one section; what has none is left out."""
    origin = Origin.default()
    return {s.name: Given(s.default, origin) for s in settings_of(section) if not s.required}


def merge(layers: Iterable[Mapping[str, Given]]) -> Layer:
    """Lay `layers`, the weakest first, over the defaults.

    Returns:
        Every setting that has a value. Without a cloud its settings are missing and `cloud` says who decided so.
    """
    merged: Layer = {"cloud": Given(None, Origin.default())}
    for section in dict.fromkeys(setting.section for setting in SETTINGS.values()):
        if section != "cloud":
            merged |= defaults(section)
    for layer in layers:
        _lay(layer, merged)
    return merged


def _lay(layer: Mapping[str, Given], merged: Layer) -> None:
    if "cloud" in layer:
        for setting in settings_of("cloud"):
            merged.pop(setting.name, None)
        merged["cloud"] = layer["cloud"]
    elif "cloud" in merged and any(name.startswith("cloud.") for name in layer):
        del merged["cloud"]
        merged |= defaults("cloud")
    for displacement in DISPLACEMENTS:
        chosen, old = layer.get(displacement.chosen), merged.get(displacement.chosen)
        if displacement.unless is not None:
            name, value = displacement.unless
            kept_by = layer.get(name) or merged.get(name)
            if kept_by is not None and kept_by.value == value:
                continue
        if chosen is not None and displacement.when(chosen.value, old.value if old else None):
            for name in displacement.resets:
                merged[name] = Given(SETTINGS[name].default, Origin.default())
    merged |= {name: given for name, given in layer.items() if name != "cloud"}
