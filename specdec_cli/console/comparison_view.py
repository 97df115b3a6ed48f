"""The page of a comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, clean, fit_end, paragraph
from specdec_cli.console.clip import count_flags
from specdec_cli.console.tables import facts, grid, item
from specdec_cli.console.theme import ASKED, BAD, DIM, STRONG
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.format import count, percent, seconds

if TYPE_CHECKING:
    from specdec_cli.evaluate.result import ClipComparison, Comparison
    from specdec_cli.types import Mode

_INDENT: Final = 11
_LEFT_OUT: Final = "^"
_UNITS: Final = re.compile(r"[A-Za-z0-9'’-]+|\s+|.", re.DOTALL)


def comparison_page(found: Comparison, width: int, *, captions: int) -> Iterator[RenderableType]:
    """What it comes to, the figures, and the captions of at most `captions` clips where they differ."""
    about = [count(len(found.clips), "clip"), seconds(found.audio_s), found.language]
    about += [f"references of {found.references_found}"] if found.references_found is not None else []
    about += [f"{count(found.unfinished, 'clip')} not finished in every mode"] if found.unfinished else []
    yield facts(*about)
    yield from map(item, found.headline)
    if table := tables.summary(found) if found.clips else None:
        yield Text()
        yield from grid(table.columns, table.rows, width)
        note = f"intervals of {percent(found.level)} over clips. All figures: --html FILE"
        yield Prose(Text(note, DIM), indent=1)
        yield from _captions(found, captions, width)
    if found.errors:
        yield from (Text(), Text(f"{count(len(found.errors), 'recording')} left out", BAD))
    for error in found.errors:
        named = error.message if error.file in error.message else f"{error.file}: {error.message}"
        yield item(named if len(error.modes) == len(found.modes) else f"{named} (in mode {', '.join(error.modes)})")
    counts = {mode: Counter(flag for clip in found.clips for flag in clip.flags.get(mode, ())) for mode in found.modes}
    if flagged := "; ".join(f"{mode} {count_flags(flags)}" for mode, flags in counts.items() if flags):
        yield from (Text(), item(f"Captions that are no description: {flagged}."))


def _captions(found: Comparison, most: int, width: int) -> Iterator[RenderableType]:
    differing = [clip for clip in found.clips if len(set(clip.captions.values())) > 1]
    if not differing:
        yield from (Text(), Text(f"All modes give the same caption of {count(len(found.clips), 'clip')}."))
        return
    where = f"Captions of the {len(differing)} of {count(len(found.clips), 'clip')} where they differ"
    yield from (Text(), Text(where, STRONG))
    if most:
        base = "cloud" if "cloud" in found.modes else found.modes[0]
        legend = f"[...] words that differ from {base}, [{_LEFT_OUT}] words of {base} that are left out"
        yield Prose(Text(legend, DIM))
    for clip in differing[:most]:
        yield from _clip(clip, width)
    if len(differing) > most:
        yield Prose(Text(f"… and {len(differing) - most} more: --captions {len(differing)} shows all", DIM))


def _clip(clip: ClipComparison, width: int) -> Iterator[RenderableType]:
    """The captions of a clip, what differs marked by brackets and colour; modes with the same caption share it."""
    start = f" from {clip.start_s:g} s" if clip.start_s is not None else ""
    yield Text.assemble((fit_end(clean(clip.file), width - len(start)), STRONG), (start, DIM))
    base: Mode = "cloud" if "cloud" in clip.captions else next(iter(clip.captions))
    for caption in dict.fromkeys(clip.captions.values()):
        modes = [mode for mode, written in clip.captions.items() if written == caption]
        text = marked(paragraph(caption), paragraph(clip.captions[base]))
        yield Prose(text, Text("\n".join(f" {mode}" for mode in modes)), _INDENT)
    for caption in clip.reference_texts:
        yield Prose(Text(paragraph(caption), DIM), Text(" reference", DIM), _INDENT)


def marked(caption: str, base: str) -> Text:
    """`caption` with what `base` lacks in brackets, and `[^]` where it leaves out something that `base` has."""
    ours, theirs = _UNITS.findall(caption), _UNITS.findall(base)
    text = Text()
    for kind, start, end, at, until in SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes():
        own = "".join(ours[start:end])
        if kind == "equal":
            text.append(own)
        elif own.strip():
            text.append(f"[{own.strip()}]" + (" " if own[-1:].isspace() else ""), f"{ASKED} underline")
        elif "".join(theirs[at:until]).strip():
            text.append(f"[{_LEFT_OUT}]", ASKED)
            text.append(own)
    return text
