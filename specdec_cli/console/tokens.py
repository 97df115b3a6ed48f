"""The tokens of a run as text: single ones, and the caption that they add up to."""

from __future__ import annotations

import re
from typing import Final

from rich.text import Text

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.theme import DIM, EOS, JOINT, NEWLINE, PARTIAL, SIGNS, SPACE, STYLES
from specdec_cli.transcript.token_fates import Fate
from specdec_cli.types import EventText, Mode, Round, Source

_EOS = re.compile(r"<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|</s>|<eos>")
_WORDS: Final[dict[Fate, str]] = {"cut": "not judged", "run_on": "run on"}
_SPECIAL = re.compile(r"<\|(\w+)\|>")


def is_eos(piece: str) -> bool:
    """Whether `piece` is the token that ends a text, in the spelling of the usual tokenizers."""
    return _EOS.fullmatch(piece.strip()) is not None


def shown(piece: str) -> str:
    """`piece` with what cannot be seen made visible."""
    if is_eos(piece):
        return EOS
    if piece and not piece.strip():
        return NEWLINE if "\n" in piece else SPACE
    return _SPECIAL.sub(r"<\1>", clean(piece)).replace("\ufffd", PARTIAL).strip()


def sign(fate: Fate) -> tuple[str, str]:
    """The sign before a run of tokens of this fate, and its style."""
    return SIGNS[fate], STYLES[fate].replace(" strike", "")


def legend(mode: Mode, *, run_on: bool = False) -> Text:
    """What the signs mean that `mode` needs; `run_on`: whether the cloud may write more than one token at a time."""
    named: list[Fate] = ["accepted", "rejected", "cut", "corrected", "bonus"] if mode in ("hybrid", "lossless") else []
    rendered = Text("edge unmarked  " if mode == "hybrid" else "")
    for fate in [*named, "run_on"] if named and run_on else named:
        rendered.append(*sign(fate)).append(_WORDS.get(fate, fate), style=STYLES[fate]).append("  ")
    return rendered.append(JOINT, DIM).append(" between tokens")


class CaptionTrail:
    """The clean caption, and how far its characters can be traced back to tokens.

    Bytes of one character may come in several tokens, and a tokenizer may change spaces: where the pieces do not
    spell the caption, the rest of it is shown in no colour rather than in a wrong one.
    """

    def __init__(self) -> None:
        self.caption = ""
        self._mixed = False
        self._parts: list[tuple[str, Source]] = []

    def add(self, round_: Round, text: EventText) -> None:
        """Take in what a round committed."""
        self._mixed = self._mixed or round_.escalated
        self._parts += [each for each in zip(text.committed_pieces, round_.source, strict=False) if not is_eos(each[0])]
        self.caption = text.caption

    def text(self) -> Text:
        """The caption as one paragraph; what the cloud put in is coloured and underlined."""
        rendered = Text(paragraph(self.caption))
        position = 0
        for piece, source in self._parts:
            bare = paragraph(piece)
            found = rendered.plain.find(bare, position, position + len(bare) + 1)
            if found < 0:
                break
            position = found + len(bare)
            if bare and (source in ("corrected", "bonus") or (source == "cloud" and self._mixed)):
                rendered.stylize(f"{STYLES[source]} underline", found, position)
        return rendered
