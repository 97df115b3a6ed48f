"""Values with the place they came from, and how a later layer replaces an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import SETTINGS, settings_of


class Rank(IntEnum):
    """Whose word counts: the larger wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True, slots=True)
class Given:
    """A value, its layer, and its place: "default", "mini.yaml:12", "SPECDEC_DECODING__K" or "flag -k"."""

    value: object
    rank: Rank = Rank.DEFAULT
    place: str = "default"


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
    """

    chosen: str
    resets: tuple[str, ...]
    when: Callable[[object, object], bool] = lambda new, old: new != old


def _named(new: object, _old: object) -> bool:
    return new is not None


DISPLACEMENTS: Final = (
    Displacement("gate.name", ("gate.threshold", "gate.wake")),
    Displacement("gate.threshold", ("gate.wake",)),
    Displacement("decoding.k", ("decoding.defer",), lambda _new, _old: True),
    Displacement("gate.stop_drafting", ("decoding.defer",), lambda new, _old: new is True),
    Displacement("prompt.style", ("prompt.text",), lambda _new, _old: True),
    Displacement("decoding.temperature", ("decoding.top_p", "decoding.top_k"), lambda new, _old: new == 0),
    Displacement("audio.segment", ("audio.segment_s",), _named),
    Displacement("audio.segment_s", ("audio.segment",), _named),
    Displacement("edge.model", ("edge.revision",)),
    Displacement("edge.device", ("edge.device_map",), lambda new, _old: new != "auto"),
    Displacement("edge.device_map", ("edge.device",), _named),
    Displacement("cloud.model", ("cloud.revision",)),
    Displacement("cloud.device", ("cloud.device_map",), lambda new, _old: new != "auto"),
    Displacement("cloud.device_map", ("cloud.device",), _named),
)
_ONE_PLACE: Final = (
    Displacement("cloud.url", ("cloud.model", "cloud.revision"), _named),
    Displacement("cloud.model", ("cloud.url", "cloud.token_env", "cloud.ca_file"), _named),
)
"""A cloud is loaded here or reached at an address; only a vllm has a model at an address."""


def merge(layers: Iterable[Layer]) -> Layer:
    """Lay `layers`, the weakest first, over the defaults.

    Returns:
        Every setting that has a value. Without a cloud its settings are missing and `cloud` says who decided so.
    """
    merged: Layer = {"cloud": Given(None)}
    for section in SECTIONS:
        if section != "cloud":
            merged |= _defaults(section)
    for layer in layers:
        _lay(layer, merged)
    return merged


def _defaults(section: str) -> Layer:
    return {setting.name: Given(setting.default) for setting in settings_of(section) if not setting.required}


def _lay(layer: Layer, merged: Layer) -> None:
    if "cloud" in layer:
        for setting in settings_of("cloud"):
            merged.pop(setting.name, None)
        merged["cloud"] = layer["cloud"]
    elif "cloud" in merged and any(name.startswith("cloud.") for name in layer):
        del merged["cloud"]
        merged |= _defaults("cloud")
    engine = layer.get("cloud.engine") or merged.get("cloud.engine")
    vllm = engine is not None and engine.value == "vllm"
    for displacement in DISPLACEMENTS if vllm else (*_ONE_PLACE, *DISPLACEMENTS):
        chosen, old = layer.get(displacement.chosen), merged.get(displacement.chosen)
        if chosen is not None and displacement.when(chosen.value, old.value if old else None):
            merged |= {name: Given(SETTINGS[name].default) for name in displacement.resets}
    merged |= {name: given for name, given in layer.items() if name != "cloud"}
