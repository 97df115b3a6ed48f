"""A comparison for a person to read, on stdout: what it comes to, the figures, and the captions side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console, RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, clean, fit_end, paragraph
from specdec_cli.console.clip import count_flags
from specdec_cli.console.tables import grid, print_page, titled
from specdec_cli.console.theme import ASKED, BAD, DIM, DOT, STRONG
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.format import count, percent, seconds

if TYPE_CHECKING:
    from specdec_cli.evaluate.result import ClipComparison, Comparison
    from specdec_cli.types import Mode

_INDENT: Final = 11
_LEFT_OUT: Final = "^"
_UNITS: Final = re.compile(r"[A-Za-z0-9'’-]+|\s+|.", re.DOTALL)


def print_comparison(comparison: Comparison, *, captions: int, console: Console | None = None) -> None:
    """Print a comparison to `console` (None: stdout), with at most `captions` clips whose captions differ."""
    print_page(partial(_parts, comparison, captions), console)


def _parts(found: Comparison, captions: int, width: int) -> Iterator[RenderableType]:
    yield from _headline(found)
    if found.clips:
        yield from _table(found, width)
        yield from _captions(found, captions, width)
    if found.errors:
        yield from (Text(), Text(f"{count(len(found.errors), 'recording')} left out", BAD))
    for error in found.errors:
        message = clean(error.message)
        message = message if clean(error.file) in message else f"{clean(error.file)}: {message}"
        yield _item(message + ("" if len(error.modes) == len(found.modes) else f" (in mode {', '.join(error.modes)})"))
    counts = {mode: Counter(flag for clip in found.clips for flag in clip.flags.get(mode, ())) for mode in found.modes}
    if flagged := "; ".join(f"{mode} {count_flags(flags)}" for mode, flags in counts.items() if flags):
        yield from (Text(), _item(f"Captions that are no description: {flagged}."))


def _item(sentence: str) -> Prose:
    return Prose(Text(clean(sentence)), Text(DOT), indent=3)


def _headline(found: Comparison) -> Iterator[RenderableType]:
    facts = [count(len(found.clips), "clip"), seconds(found.audio_s), found.language]
    if found.repeats > 1:
        facts.append(f"up to {found.repeats} repeats")
    if found.planned is not None and found.unfinished + len(found.clips) + len(found.errors) < found.planned:
        facts[0] += f" of {count(found.planned, 'recording')}"
    if found.references_found is not None:
        facts.append(f"references of {found.references_found}")
    if found.unfinished:
        facts.append(f"{found.unfinished} unfinished")
    yield Text(DOT.join(facts), DIM)
    if read := found.reference_columns:
        names = ", ".join(name if name == column else f"{name} from {column}" for name, column in read.items())
        yield Prose(Text(f"references: {clean(names)}", DIM))
    yield from map(_item, found.headline)


def _table(found: Comparison, width: int) -> Iterator[RenderableType]:
    if table := tables.summary(found):
        yield Text()
        base = "edge" if "edge" in found.modes else "cloud"
        yield from grid(table.columns, [_compared(row, base) for row in table.rows], width)
        note = f"ratios are to {base}-only; intervals of {percent(found.level)} over clips. All figures: --html FILE"
        yield Prose(Text(note, DIM), indent=1)


def _compared(row: tables.FigureRow, base: str) -> tables.FigureRow:
    """The row with no other ratios than those to `base`."""
    cells = [
        [(more.removesuffix(base).rstrip(), ends) for more, ends in cell.notes if not more or more.endswith(base)]
        for cell in row.cells
    ]
    compared = zip(row.cells, cells, strict=True)
    return tables.FigureRow(row.label, tuple(tables.Cell(cell.value, tuple(notes)) for cell, notes in compared))


def _captions(found: Comparison, most: int, width: int) -> Iterator[RenderableType]:
    differing = [clip for clip in found.clips if len(set(clip.captions.values())) > 1]
    total = len(found.clips)
    if not differing:
        clips = "the clip" if total == 1 else f"all {total} clips"
        yield from (Text(), Text(f"All modes give the same caption of {clips}."))
        return
    yield from titled("Captions", f"of the {len(differing)} of {count(total, 'clip')} where they differ")
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
    facts = f" from {clip.start_s:g} s" if clip.start_s is not None else ""
    facts += f" ({seconds(clip.duration_s)})" if clip.duration_s is not None else ""
    yield Text.assemble((fit_end(clean(clip.file), width - len(facts)), STRONG), (facts, DIM))
    base: Mode = "cloud" if "cloud" in clip.captions else next(iter(clip.captions))
    for caption in dict.fromkeys(clip.captions.values()):
        modes = [mode for mode, written in clip.captions.items() if written == caption]
        text = Text(paragraph(caption)) if base in modes else marked(paragraph(caption), paragraph(clip.captions[base]))
        yield Prose(text, Text("\n".join(f" {mode}" for mode in modes)), _INDENT)
    for caption in clip.reference_texts:
        yield Prose(Text(paragraph(caption), DIM), Text(" reference", DIM), _INDENT)
    if classes := _classes(clip):
        yield Prose(Text(classes), Text(" classes", DIM), _INDENT)


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


def _classes(clip: ClipComparison) -> str:
    """Attributes on which the modes, or the modes and the reference, do not agree: `emotion: edge sad, cloud happy`."""
    parts = []
    for attribute in dict.fromkeys(name for labels in clip.labels.values() for name in labels):
        named = {mode: labels.get(attribute) for mode, labels in clip.labels.items()}
        known = clip.reference_labels.get(attribute)
        if len(set(named.values())) == 1 and known in (None, *named.values()):
            continue
        groups: dict[str | None, list[str]] = {}
        for mode, name in named.items():
            groups.setdefault(name, []).append(mode)
        facts = [f"{' '.join(modes)} {name or 'none'}" for name, modes in groups.items()]
        parts.append(f"{attribute}: {', '.join([*facts, f'reference {known}'] if known else facts)}")
    return "; ".join(parts)
