"""The tokens of a round as text, told apart by sign and by colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.theme import DIM, STYLES, Role, Signs
from specdec_cli.types import EventText, Mode, Round, Source

_EOS = re.compile(r"<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|</s>|<eos>")
_SPECIAL = re.compile(r"<\|(\w+)\|>")


def is_eos(piece: str) -> bool:
    """Whether `piece` is the token that ends a text, in the spelling of the usual tokenizers."""
    return _EOS.fullmatch(piece.strip()) is not None


def roles(round_: Round, text: EventText) -> Iterator[tuple[str, Role]]:
    """Each token of the round with what became of it, in the order of the text.

    The rejected tail of the draft stands before the token that replaced it.
    """
    tail: Role = "rejected" if round_.corrected else "cut"
    committed = [
        (piece, _role(source, round_)) for piece, source in zip(text.committed_pieces, round_.source, strict=False)
    ]
    kept = len(committed) if "cloud" in round_.source and not round_.escalated else round_.accepted
    yield from committed[:kept]
    yield from ((piece, tail) for piece in text.draft_pieces[kept:])
    yield from committed[kept:]


def _role(source: Source, round_: Round) -> Role:
    return "run_on" if source == "cloud" and round_.escalated else source


def shown(piece: str, signs: Signs) -> str:
    """`piece` with what cannot be seen made visible; a space at either end is kept."""
    if is_eos(piece):
        return signs.eos
    if piece and not piece.strip():
        return signs.newline if "\n" in piece else signs.space
    return _SPECIAL.sub(r"<\1>", clean(piece)).replace("\ufffd", signs.partial)


def render_tokens(round_: Round, text: EventText, signs: Signs) -> Text:
    """The round's tokens in runs of one fate, each run behind its sign.

    Tokens that a space divides are set apart by it, all others by a joint: `✓语速|较 ✗慢 →快`.
    """
    rendered = Text()
    for role, run in groupby(roles(round_, text), key=lambda item: item[1]):
        if rendered:
            rendered.append(" ")
        rendered.append(signs.roles[role], style=STYLES[role].replace(" strike", ""))
        _append_run(rendered, [shown(piece, signs) for piece, _ in run], STYLES[role], signs)
    return rendered


def _append_run(rendered: Text, pieces: list[str], style: str, signs: Signs) -> None:
    divided = True
    for index, piece in enumerate(pieces):
        if index and (divided or piece.startswith(" ")):
            rendered.append(" ")
        elif index:
            rendered.append(signs.joint, style=DIM)
        rendered.append(piece.strip(), style=style)
        divided = piece.endswith(" ")


def legend(signs: Signs, mode: Mode, *, run_on: bool = False) -> Text | None:
    """One line that explains the signs; None in the modes that need none.

    Args:
        signs: of the display.
        mode: of the run.
        run_on: whether the cloud may write more than one token at a time.
    """
    if mode in ("edge", "cloud"):
        return None
    parts: list[tuple[Role, str]] = [
        ("accepted", "accepted"),
        ("rejected", "rejected"),
        ("corrected", "corrected"),
        ("bonus", "bonus"),
    ]
    if run_on:
        parts.append(("run_on", "run on"))
    rendered = Text("edge unmarked  " if mode == "hybrid" else "")
    for role, word in parts:
        rendered.append(signs.roles[role], style=STYLES[role].replace(" strike", ""))
        rendered.append(word, style=STYLES[role])
        rendered.append("  ")
    rendered.rstrip()
    return rendered
