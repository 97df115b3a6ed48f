"""What an output must hold: from the recordings, the settings and the last captions, without reading the product."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from tests.captioning.stand_in import SOUNDS, UNIT_S, Asked, caption, digest

Key = tuple[str, str | None]
"""Name of a recording, id of its row."""
Part = tuple[int, int] | None
"""Begin and end in units; None: all of the recording."""
Settings = tuple[int, bool]
"""k, and whether recordings are cut into units."""


@dataclass
class Known:
    """The captions of a clip: of one content and one part."""

    source: tuple[str, Part]
    captions: dict[float, str] = field(default_factory=dict)  # by start, seconds


def within(content: str, part: Part) -> Part:
    """A part of a recording, which it may not have to its end."""
    return part and (part[0], min(part[1], len(SOUNDS[content])))


def pieces(content: str, part: Part, cut: bool) -> list[float]:
    """Starts of the pieces that have something to describe, seconds."""
    first, end = part or (0, len(SOUNDS[content]))
    units = SOUNDS[content][first:end]
    if not cut or len(units) == 1:
        return [round(first * UNIT_S, 4)] if "v" in units else []
    return [round((first + n) * UNIT_S, 4) for n, unit in enumerate(units) if unit == "v"]


@dataclass
class Model:
    """The recordings and the last captions of each clip.

    Attributes:
        sounds: name of each recording -> its content.
        rows: id -> recording and part, if a table names them; None: all of a folder.
        settings: of the next run.
        made_with: settings of the lines of the output; None: it has none.
        known: the captions that the output holds.
        before: the same without the last one.
    """

    sounds: dict[str, str] = field(default_factory=dict)
    rows: dict[str, tuple[str, Part]] | None = None
    settings: Settings = (5, False)
    made_with: Settings | None = None
    known: dict[Key, Known] = field(default_factory=dict)
    before: dict[Key, Known] = field(default_factory=dict)

    @property
    def clips(self) -> dict[Key, Part]:
        """The clips that a run is given, in order."""
        if self.rows is None:
            return {(name, None): None for name in sorted(self.sounds)}
        return {(name, id_): part for id_, (name, part) in self.rows.items()}

    def follow(self, lined: list[Key], failed: set[Key]) -> None:
        """Captions of recordings that have gone are those of recordings of the same content without lines.

        `lined`: the clips that have lines, in the order of the output. `failed`: see `missing`; they are renamed, too.
        """
        gone = {
            (self.known[key].source[0], key[1]): key
            for key in lined
            if key in self.known and self.known[key].captions and key[0] not in self.sounds
        }
        for key in self.clips:
            if key not in lined and key[0] in self.sounds:
                old = gone.pop((digest(self.sounds[key[0]]), key[1]), None)
                if old is not None:
                    self.known[key] = self.known.pop(old)
                    failed |= {key} if old in failed else set()

    def missing(self, clips: dict[Key, Part], failed: set[Key]) -> list[Asked]:
        """The pieces of clips that have no caption of the present content, part and settings.

        `failed`: whole recordings that failed since they were captioned, with another content: a new caption takes the
        place of the failure.
        """
        found: list[Asked] = []
        for key, part in clips.items():
            content = self.sounds.get(key[0])
            if content is None:
                continue
            known = self.known.get(key)
            source = digest(content), within(content, part)
            same = known is not None and known.source == source and key not in failed
            done = known.captions if known is not None and same else {}
            found += [(*key, start) for start in pieces(content, part, self.settings[1]) if start not in done]
        return found

    def fails(self, asked: Asked, content: str | None, parts: dict[Key, Part]) -> bool:
        """Whether a piece has no caption because models fail on a content, but for the last of several pieces."""
        name, id_, start = asked
        first, end = within(name_ := self.sounds[name], parts[name, id_]) or (0, len(SOUNDS[name_]))
        last_of_several = self.settings[1] and end - first > 1 and start == round((end - 1) * UNIT_S, 4)
        return self.sounds[name] == content and not last_of_several

    def took(self, asked: Asked, parts: dict[Key, Part]) -> None:
        """A piece has a caption."""
        self.before = deepcopy(self.known)
        key, start = asked[:2], asked[2]
        source = digest(self.sounds[key[0]]), within(self.sounds[key[0]], parts[key])
        if key not in self.known or self.known[key].source != source:
            self.known.pop(key, None)
            self.known[key] = Known(source)
        self.known[key].captions[start] = caption(source[0], start, self.settings[0])

    def of(self, name: str) -> set[str]:
        """All captions of a recording."""
        return {text for key, known in self.known.items() if key[0] == name for text in known.captions.values()}

    @property
    def captions(self) -> list[str]:
        """All captions, sorted."""
        return sorted(text for known in self.known.values() for text in known.captions.values())
