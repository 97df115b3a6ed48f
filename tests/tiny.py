"""Settings by their own names, and what a loop yields."""

from collections.abc import Iterable
from typing import Any, Final

from specdec_cli.config import CloudConfig, Config, EdgeConfig
from specdec_cli.config.decoding_schema import DecodingConfig, GateConfig
from specdec_cli.config.schema import PromptConfig, RuntimeConfig
from specdec_cli.decoding.block import Block, Event
from specdec_cli.types import Finished

_SECTIONS: Final = {"decoding": DecodingConfig, "gate": GateConfig, "prompt": PromptConfig, "runtime": RuntimeConfig}


def settings(**given: Any) -> Config:
    """A configuration from settings by their own names, with `gate` for `gate.name`;
    `defer=True` is short for `k="whole"`:

    `settings(mode="hybrid", k=3, gate="entropy", threshold=0.5)`.
    """
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    given = {"closing": "off", "name": given.pop("gate", "entropy"), **given}
    if given.pop("defer", False):
        given["k"] = "whole"
    for name, value in given.items():
        section = next(section for section, type_ in _SECTIONS.items() if name in type_.model_fields)
        sections[section][name] = value
    made: dict[str, Any] = {name: type_(**sections[name]) for name, type_ in _SECTIONS.items()}
    return Config(edge=EdgeConfig(model="tiny/edge"), cloud=CloudConfig(model="tiny/cloud"), **made)


def collect(events: Iterable[Event]) -> tuple[list[Block], Finished]:
    """The rounds and the end of a run."""
    seen = list(events)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    return [event for event in seen if isinstance(event, Block)], finished
