"""The caption as it grows, each part in the colour of the model that wrote it."""

from __future__ import annotations

from rich.text import Text

from specdec_cli.console.cells import paragraph
from specdec_cli.console.theme import STYLES
from specdec_cli.console.tokens import is_eos
from specdec_cli.types import EventText, Round, Source


class CaptionTrail:
    """The clean caption, and how far its characters can be traced back to tokens.

    Bytes of one character may come in several tokens, and a tokenizer may change spaces: where the pieces do not
    spell the caption, the rest of it is shown in no colour rather than in a wrong one.
    """

    def __init__(self) -> None:
        self._caption = ""
        self._mixed = False
        self._parts: list[tuple[str, Source]] = []

    def add(self, round_: Round, text: EventText) -> None:
        """Take in what a round committed."""
        self._mixed = self._mixed or round_.escalated
        self._parts += [
            (piece, source)
            for piece, source in zip(text.committed_pieces, round_.source, strict=False)
            if not is_eos(piece)
        ]
        self._caption = text.caption

    def finish(self, caption: str) -> None:
        """Take the final caption, which a stop string may have shortened."""
        self._caption = caption

    def text(self) -> Text:
        """The caption as one paragraph; what the cloud put in is coloured and underlined."""
        rendered = Text(paragraph(self._caption))
        position = 0
        for piece, source in self._parts:
            bare = paragraph(piece)
            found = rendered.plain.find(bare, position, position + len(bare) + 1)
            if found < 0:
                break
            if bare and (source in ("corrected", "bonus") or (source == "cloud" and self._mixed)):
                rendered.stylize(f"{STYLES[source]} underline", found, found + len(bare))
            position = found + len(bare)
        return rendered
