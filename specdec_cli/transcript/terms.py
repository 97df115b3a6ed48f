"""What transcripts were made with, and the differences that keep them out of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.transcript.schema import SUGGESTED, ModelInfo, Models, differing

if TYPE_CHECKING:
    from specdec_cli.config import Config

Change = tuple[str, object, object]
"""A setting that differs: its name, the value there and the value here."""

_NOT_COMPARED: Final = frozenset({"style", SUGGESTED})
"""The prompt says the style, and what checkpoints suggest is known once they are loaded."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a transcript must have been made with to belong to a run.

    Attributes:
        language, prompt: as transcripts record them; None: whatever they are.
        settings: as transcripts record them.
        edge, cloud: name of each model that the mode uses, None for one that it does not.
        mode: of the run; None: not compared.
        labels: whether transcripts have labels; None: not compared.
    """

    language: str | None
    prompt: str | None
    settings: Mapping[str, object]
    edge: str | None
    cloud: str | None
    mode: str | None = None
    labels: bool | None = None

    @classmethod
    def of(cls, config: Config, settings: Mapping[str, object], labels: bool | None = None) -> Terms:
        """The terms of a run with `config`, whose transcripts record `settings`."""
        mode = config.decoding.mode
        edge = None if mode == "cloud" else config.edge.model
        cloud = config.cloud.label if config.cloud is not None and mode != "edge" else None
        return cls(config.prompt.language, config.prompt.instruction, settings, edge, cloud, mode, labels)

    def changes(self, values: Mapping[str, Any], *, models: bool = True) -> Iterator[Change]:
        """Whatever a transcript was made with that differs.

        Args:
            values: the transcript's fields.
            models: whether the names of its models count.
        """
        good = values.get("caption") is not None
        names = {role: info and info["name"] for role, info in values["models"].items()}
        rows: list[tuple[Change, bool]] = [
            (("mode", values["mode"], self.mode), self.mode is not None),
            (("edge.model", names.get("edge"), self.edge), models),
            (("cloud.model", names.get("cloud"), self.cloud), models),
            (("language", values["language"], self.language), self.language is not None),
            (("prompt", values["prompt"], self.prompt), self.prompt is not None),
            (("labels", values.get("labels") is not None, self.labels), self.labels is not None and good),
        ]
        yield from (row for row, counts in rows if counts and row[1] != row[2])
        yield from differing(values["settings"], self.settings, but=_NOT_COMPARED)


def loaded_changes(
    values: Mapping[str, Any],
    models: Models,
    settings: Mapping[str, object],
    names: Sequence[str] = tuple(ModelInfo.model_fields),
) -> Iterator[Change]:
    """Whatever differs of the loaded models from those of a transcript; what either does not know does not count.

    Args:
        values: the transcript's fields.
        models, settings: as transcripts of this run record them.
        names: what of each model counts.
    """
    for role in Models.model_fields:
        theirs, ours = values["models"].get(role), getattr(models, role)
        if theirs is None or ours is None:
            if (theirs is None) != (ours is None):
                yield role, theirs and theirs["name"], ours and ours.name
            continue
        for name in names:
            then, now = theirs.get(name), getattr(ours, name)
            unknown = name in ("dtype", "weights") and not {then, now}.isdisjoint((None, "unknown"))
            if then != now and not unknown:
                yield f"{role}.{name}", then, now
    then, now = ({SUGGESTED: of.get(SUGGESTED)} for of in (values["settings"], settings))
    yield from differing(then, now)
