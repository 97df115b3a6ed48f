"""The refusal to mix, in one output, what was made with other settings or models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.batch.output import Line
from specdec_cli.prompts import Language
from specdec_cli.store import made_otherwise
from specdec_cli.transcript.schema import SUGGESTED
from specdec_cli.transcript.terms import Terms, loaded_changes

if TYPE_CHECKING:
    from specdec_cli.transcript.schema import Models

Asked = Callable[[Line], tuple[Language, str] | None]
"""Language and instruction that this run would use for the clip of a line; None where it would leave the line alone."""

_OF_MODELS: Final = ("dtype", "weights")


@dataclass(frozen=True)
class Identity:
    """What all lines of one output have in common.

    Attributes:
        output: name of the file, for messages.
        terms: of this run.
        asked: see `Asked`.
    """

    output: Path
    terms: Terms
    asked: Asked
    _made_by: dict[str, int] = field(default_factory=dict, init=False)  # models and suggestions -> first line

    def check(self, line: Line) -> None:
        """Refuses a line that this run would have made with other settings.

        Raises:
            ConfigError: names the settings with both values.
        """
        language, prompt = self.asked(line) or (None, None)
        if changed := list(replace(self.terms, language=language, prompt=prompt).changes(line.values)):
            raise made_otherwise(self.output, line.number, changed)
        models, settings = line.values["models"], line.values["settings"]
        made_by = {"models": models, "settings": {SUGGESTED: settings.get(SUGGESTED)}}
        self._made_by.setdefault(json.dumps(made_by), line.number)

    def check_models(self, models: Models, settings: Mapping[str, object]) -> None:
        """Once they are loaded: refuses lines that were made in another number format, or by other weights.

        Args:
            models, settings: as the transcripts of this run will record them.

        Raises:
            ConfigError: names both formats, both weights, or both suggestions of their checkpoints.
        """
        for made_by, number in self._made_by.items():
            if changed := list(loaded_changes(json.loads(made_by), models, settings, _OF_MODELS)):
                raise made_otherwise(self.output, number, changed)
