"""The rounds of a run as they are printed: tokens with their figures, the gate's decision, the cloud's verdict.

A deferred draft is shown clause by clause, other blocks as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import Prose
from specdec_cli.console.theme import (
    ABOVE,
    BAD,
    BELOW,
    DIM,
    DOT,
    EOS,
    FAIL,
    GOOD,
    JOINT,
    NEWLINE,
    NOTICE,
    OK,
    PARTIAL,
    SPACE,
    STYLES,
)
from specdec_cli.decoding.gate import crosses
from specdec_cli.format import claimed
from specdec_cli.text import clean
from specdec_cli.times import milliseconds
from specdec_cli.transcript.records import Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.token_fates import HEARD, SIGNS, Fate, tokens
from specdec_cli.transcript.updates import ClaimsIn
from specdec_cli.types import LOW_IS_UNSURE, Claim

LABEL: Final = 8
"""Cells before the tokens of a row, for the names of figures; a longer name is cut."""
_WIDEST: Final = 110
_MOST_TOKENS: Final = 8  # of a row
_LEAST_SHOWN: Final = 0.005  # of a figure, which else would read 0.00
_EOS = re.compile(r"<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|</s>|<eos>")
_CLAUSE_ENDS: Final = frozenset(",;:.!?，、；：。！？…")
SIGNS_LEGEND: Final = (
    "a\xa0sign\xa0holds\xa0until\xa0the\xa0next:  "
    "edge\xa0unmarked  ✓accepted  ✗rejected  -not\xa0judged  →corrected  +bonus  "
    f"{HEARD}by\xa0the\xa0sound\xa0(the\xa0model's\xa0own\xa0word)  "
    f"{JOINT}\xa0between\xa0tokens  {EOS}\xa0end"
)
LABELS_LEGEND: Final = "what the model that decided a class's word believes, in %: too high for new voices"
_FIGURES: Final = {
    "margin": ("margin", "p(likeliest) - p(second)"),
    "logprob": ("logprob", "log-probability, nats"),
    "class-entropy": ("entropy", "over classes, nats"),
}
"""Gate -> name and meaning of its figure; that of every other gate is the entropy of each token."""
_WITHOUT_FIGURE = ("always", "loop", "refusal", "language")
"""Reasons to escalate other than the gate's figure."""


@dataclass(frozen=True, slots=True)
class TokenCell:
    """One token: its word, whether no space separates it from the one before, and its figure (empty: not drafted)."""

    word: Text
    joined: bool
    figure: Text
    written: str = ""  # what it adds to the text

    @property
    def width(self) -> int:
        """Cells of the token, with the space before it."""
        return 1 + max(self.word.cell_len, self.figure.cell_len)


def shown(piece: str) -> str:
    """`piece` with invisible characters made visible."""
    if _EOS.fullmatch(piece.strip()):
        return EOS
    if piece and not piece.strip():
        return NEWLINE if "\n" in piece else SPACE
    return clean(piece).replace("\ufffd", PARTIAL).strip()


def cells_of(round_: Round, settings: Mapping[str, object]) -> Iterator[TokenCell]:
    """The tokens of a round in the order of the text, each run of one fate behind its sign."""
    before: tuple[str, Fate | None] = (" ", None)
    for piece, fate, entropy, value, banned in tokens(round_):
        mark = (SIGNS[fate], STYLES[fate].replace(" strike", "")) if fate != before[1] else ("", "")
        word = shown(piece)
        joined = not (mark[0] or before[0].endswith((" ", "\n")) or piece.startswith((" ", "\n")))
        figure = _figure(round_, entropy, value, settings)
        written = "" if fate in ("rejected", "cut") or word == EOS else piece
        text = Text.assemble(mark, (word, STYLES[fate]))
        if banned is not None:
            text = Text.assemble(mark, (HEARD, NOTICE), (word, STYLES[fate]), (f" ({shown(banned)})", DIM))
        yield TokenCell(text, joined, figure, written)
        before = piece, fate


def _figure(round_: Round, entropy: float | None, own: float | None, settings: Mapping[str, object]) -> Text:
    """`0.42`, `1.64!` where the token by itself crosses the gate's threshold, and nothing for 0.00."""
    gate, threshold = str(settings.get("gate")), threshold_of(settings, waking=round_.waking)
    if (value := own if gate in _FIGURES else entropy) is None:
        return Text()
    if threshold is not None and (gate in _FIGURES or gate == "entropy") and crosses(gate, value, threshold):
        return Text(f"{value:.2f}!", ABOVE)
    return Text(f"{value:.2f}", BELOW) if abs(value) >= _LEAST_SHOWN else Text()


def token_rows(
    label: str, cells: Sequence[TokenCell], width: int, name: str, *, by_clause: bool = False
) -> Iterator[tuple[Sequence[TokenCell], Table]]:
    """Rows of tokens above their figures; each row is a table, so that a token takes no more cells than it needs.

    `label` is put before the first row; `by_clause`: a row also ends behind each punctuation mark.
    """
    for number, row in enumerate(_divided(cells, min(width, _WIDEST) - LABEL, by_clause)):
        table = Table.grid()
        table.add_column(style=DIM, justify="right", width=LABEL, no_wrap=True, overflow="crop")
        for _ in row:
            table.add_column(no_wrap=True)
        joints = [(JOINT, DIM) if place and cell.joined else " " for place, cell in enumerate(row)]
        words = [Text.assemble(joint, cell.word) for joint, cell in zip(joints, row, strict=True)]
        table.add_row("" if number else label, *words)
        if any(cell.figure for cell in row):
            table.add_row(name, *(Text(" ") + cell.figure for cell in row))
        yield row, table


def _divided(cells: Sequence[TokenCell], width: int, by_clause: bool) -> Iterator[Sequence[TokenCell]]:
    row: list[TokenCell] = []
    for cell in cells:
        full = len(row) == _MOST_TOKENS or sum(each.width for each in row) + cell.width > width
        ends = row and row[-1].word.plain[-1:] in _CLAUSE_ENDS and not cell.word.plain.endswith(EOS)
        if row and (full or (by_clause and ends)):
            yield row
            row = []
        row.append(cell)
    if row:
        yield row


def figure_name(settings: Mapping[str, object]) -> str:
    """The name of the figure under each word."""
    return _FIGURES.get(str(settings.get("gate")), ("entropy", ""))[0]


def threshold_of(settings: Mapping[str, object], *, waking: bool = False) -> float | None:
    """The gate's threshold in the unit of its figure; `waking`: that of a clip's first call."""
    value = settings.get("wake" if waking else "threshold")
    return float(value) if isinstance(value, int | float) else None


def figures_legend(settings: Mapping[str, object]) -> str:
    """A legend: which figure is under the words, and what marks a token that crosses the threshold."""
    name, meaning = _FIGURES.get(str(settings.get("gate")), ("entropy", "of each token, nats"))
    return f"{name} {meaning}; blank: 0.00; !\xa0crosses the gate's threshold"


def against_sound(claims: Sequence[Claim]) -> Text:
    """Claims that could be checked, each with the measured figure and whether it fits."""
    fits = {True: (OK, GOOD), False: (FAIL, BAD)}
    parts = [Text.assemble(f"{clean(claimed(claim))} ", fits[bool(claim.agrees)]) for claim in claims]
    return Text("; ").join(parts)


def _fresh(claims: Sequence[Claim], known: set[tuple[str, str | None]]) -> list[Claim]:
    """Claims that could be checked and are not in `known` yet; adds them to it."""
    found = [claim for claim in claims if claim.agrees is not None and (claim.attribute, claim.class_) not in known]
    known.update((claim.attribute, claim.class_) for claim in found)
    return found


def render_round(
    round_: Round, clip: Started, width: int, before: str = "", claims_in: ClaimsIn | None = None
) -> Iterator[RenderableType]:
    """The lines of one round of `clip` on a terminal of `width` cells.

    `claims_in` finds the claims about the sound, shown under the row of tokens that makes them; `before` is the
    text of the earlier rounds.
    """
    whole, drafted = clip.settings.get("k") == "whole", len(round_.draft_ids)
    label = "" if whole and drafted else str(round_.index + 1)
    cells = list(cells_of(round_, clip.settings))
    known = set[tuple[str, str | None]]()
    if claims_in is not None and before.strip():
        _fresh(claims_in(before.strip()), known)
    written = before
    for row, table in token_rows(label, cells, width, figure_name(clip.settings), by_clause=whole):
        yield table
        written += "".join(cell.written for cell in row)
        ends = row[-1].word.plain[-1:] in _CLAUSE_ENDS or row[-1] is cells[-1]
        if claims_in is not None and ends and (claims := _fresh(claims_in(written.strip()), known)):
            yield _named("sound", against_sound(claims))
    yield from _outcome(round_, clip)


def _outcome(round_: Round, clip: Started) -> Iterator[RenderableType]:
    """The gate's decision and the cloud's verdict."""
    drafted = len(round_.draft_ids)
    if clip.mode in ("edge", "cloud"):
        own = round_.draft_ms if round_.verify_ms is None or clip.mode == "edge" else round_.verify_ms
        yield _named(clip.mode, Text(milliseconds(own), DIM))
        return
    if drafted:
        verdict = (verdict_of(round_, clip.settings), NOTICE if round_.escalated else "")
        yield _named("gate", Text.assemble(verdict, (f"{DOT}drafted in {milliseconds(round_.draft_ms)}", DIM)))
    if round_.escalated or not drafted:
        outcome = [f"{round_.accepted}/{drafted} accepted"] if round_.escalated else []
        outcome.append(f"verified in {milliseconds(round_.verify_ms)}")
        outcome += [f"{milliseconds(round_.network_ms)} on the network"] if round_.network_ms is not None else []
        yield _named("cloud" if round_.escalated else "", Text(DOT.join(outcome), DIM))


def _named(name: str, body: Text) -> Prose:
    return Prose(body, Text(f"{name:>{LABEL}}", DIM), LABEL + 1)


def verdict_of(round_: Round, settings: dict[str, object]) -> str:
    """The gate's decision on a draft, in words, with the figure and the threshold that decided it."""
    outcome = "the cloud is called" if round_.escalated else "kept"
    gate = str(settings.get("gate"))
    if round_.reason in _WITHOUT_FIGURE:
        return f"{outcome}: {round_.reason}"
    threshold, value = threshold_of(settings, waking=round_.waking), round_.gate_value
    if value is None or threshold is None:
        return outcome
    crossed = crosses(gate, value, threshold)
    if crossed and not round_.escalated:
        outcome += " without the cloud"
    escalates, keeps = ("≤", ">") if gate in LOW_IS_UNSURE else ("≥", "<")
    if gate == "random":
        escalates, keeps = "<", "≥"
    return f"{outcome}: {value:.2f} {escalates if crossed else keeps} {threshold:g}"
