"""What all lines of one output have in common, and the refusal to mix what was made with other settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_cli.batch.lines import Line
from specdec_cli.config.problems import show
from specdec_cli.errors import ConfigError
from specdec_cli.prompts import Language
from specdec_cli.transcript.schema import SUGGESTED, differing

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.transcript.schema import Models

Asked = Callable[[Line], tuple[Language, str] | None]
"""Language and instruction that this run would use for the clip of a line; None where it would leave the line alone."""

_OF_MODELS = ("dtype", "weights")
_HINT = "Give the same settings, name a new --output, or start anew with --overwrite."


@dataclass
class Identity:
    """The settings of this run, for comparison with those that an output was made with.

    Attributes:
        output: name of the file, for messages.
        mode: of this run.
        settings: as its transcripts will record them.
        names: role -> model as configured, or None for one that the mode does not use.
        asked: see `Asked`.
        labels: whether its transcripts say which classes their captions name.
    """

    output: Path
    mode: str
    settings: Mapping[str, object]
    names: Mapping[str, str | None]
    asked: Asked
    labels: bool = False

    def __post_init__(self) -> None:
        self._made_by: dict[tuple[str, str, str], int] = {}
        self._suggested: dict[str, int] = {}

    @classmethod
    def of(
        cls, output: Path, config: Config, settings: Mapping[str, object], asked: Asked, *, labels: bool
    ) -> Identity:
        """The identity of a run with `config`, whose transcripts record `settings`."""
        mode = config.decoding.mode
        edge = None if mode == "cloud" else config.edge.model
        cloud = config.cloud.label if config.cloud is not None and mode != "edge" else None
        return cls(output, mode, settings, {"edge": edge, "cloud": cloud}, asked, labels)

    def check(self, line: Line) -> None:
        """Refuses a line that this run would have made with other settings.

        Raises:
            ConfigError: names the settings with both values.
        """
        if changed := list(self._differences(line)):
            raise self._refusal(line.number, changed)
        self._suggested.setdefault(json.dumps((line.values.get("settings") or {}).get(SUGGESTED)), line.number)
        for role, model in line.values["models"].items():
            for name in _OF_MODELS if model is not None else ():
                if (value := model.get(name)) is not None:
                    self._made_by.setdefault((role, name, value), line.number)

    def check_models(self, models: Models, settings: Mapping[str, object]) -> None:
        """Once they are loaded: refuses lines that were made in another number format, or by other weights.

        Args:
            models, settings: as the transcripts of this run will record them.

        Raises:
            ConfigError: names both formats, both weights, or both suggestions of their checkpoints.
        """
        suggested = json.dumps(settings.get(SUGGESTED))
        for then, number in self._suggested.items():
            if then != suggested:
                raise self._refusal(number, [f"{SUGGESTED} was {then} and is {suggested}"])
        for (role, name, value), number in self._made_by.items():
            loaded = getattr(models, role)
            now = loaded and getattr(loaded, name)
            if now is not None and now != value and "unknown" not in (value, now):
                raise self._refusal(number, [f"{role}.{name} was {value} and is {now}"])

    def _differences(self, line: Line) -> Iterator[str]:
        values = line.values
        yield from _changed("mode", values.get("mode"), self.mode)
        for role, name in self.names.items():
            model = (values.get("models") or {}).get(role)
            yield from _changed(f"{role}.model", model["name"] if model else None, name)
        theirs: Mapping[str, Any] = values.get("settings") or {}
        # the prompt says the style, and what checkpoints suggest is known once they are loaded
        for name, then, now in differing(theirs, self.settings, but=frozenset({"style", SUGGESTED})):
            yield from _changed(name, then, now)
        if line.good:  # nobody names classes of what has no caption
            yield from _changed("labels", line.values.get("labels") is not None, self.labels)
        if (asked := self.asked(line)) is not None:
            yield from _changed("language", values.get("language"), asked[0])
            yield from _changed("prompt", values.get("prompt"), asked[1])

    def _refusal(self, number: int, changed: list[str]) -> ConfigError:
        return ConfigError(f"{self.output}:{number} was made with other settings: {'; '.join(changed)}.", hint=_HINT)


def _changed(name: str, then: object, now: object) -> Iterator[str]:
    if then != now:
        yield f"{name} was {show(then)} and is {show(now)}"
