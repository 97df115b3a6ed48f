"""A comparison for a person to read, on stdout: what it comes to, the figures, and the captions side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, fit_end, hanging, padded, paragraph, wrap
from specdec_cli.console.clip import count_flags
from specdec_cli.console.plain import console_on
from specdec_cli.console.tables import PROSE_WIDTH, grid, page_width, print_lines, titled
from specdec_cli.console.theme import ASKED, BAD, DIM, STRONG, Signs, signs_for
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
    console = console or console_on()
    width, signs = page_width(console), signs_for(console)
    lines = [*_headline(comparison, width, signs)]
    if comparison.clips:
        lines += [*_table(comparison, width), *_captions(comparison, captions, width, signs)]
    print_lines([*lines, *_errors(comparison, width, signs), *_flags(comparison, width, signs)], console)


def _prose(sentence: str, width: int, signs: Signs) -> Iterator[Text]:
    yield from hanging(Text(f" {signs.dot}"), Text(clean(sentence)), 3, min(width, PROSE_WIDTH))


def _headline(found: Comparison, width: int, signs: Signs) -> Iterator[Text]:
    facts = [count(len(found.clips), "clip"), seconds(found.audio_s), found.language]
    if found.repeats > 1:
        facts.append(f"up to {found.repeats} repeats")
    if found.planned is not None and found.unfinished + len(found.clips) + len(found.errors) < found.planned:
        facts[0] += f" of {count(found.planned, 'recording')}"
    if found.references_found is not None:
        facts.append(f"references of {found.references_found}")
    if found.unfinished:
        facts.append(f"{found.unfinished} unfinished")
    yield Text(f" {signs.dot} ".join(facts), DIM)
    if columns := found.reference_columns:
        told = ", ".join(name if name == column else f"{name} from {column}" for name, column in columns.items())
        yield from wrap(Text(f"references: {clean(told)}", DIM), width)
    for sentence in found.headline:
        yield from _prose(sentence, width, signs)


def _table(found: Comparison, width: int) -> Iterator[Text]:
    if table := tables.summary(found):
        yield Text()
        base = "edge" if "edge" in found.modes else "cloud"
        rows = [_compared(row, base) for row in table.rows]
        yield from grid(table.columns, rows, width)
        note = f"ratios are to {base}-only; intervals of {percent(found.level)} over clips. All figures: --html FILE"
        yield from wrap(Text(f" {note}", DIM), width)


def _compared(row: tables.FigureRow, base: str) -> tables.FigureRow:
    """The row with no other ratios than those to `base`."""
    cells = [
        [(more.removesuffix(base).rstrip(), ends) for more, ends in cell.notes if not more or more.endswith(base)]
        for cell in row.cells
    ]
    compared = zip(row.cells, cells, strict=True)
    return tables.FigureRow(row.label, tuple(tables.Cell(cell.value, tuple(notes)) for cell, notes in compared))


def _captions(found: Comparison, most: int, width: int, signs: Signs) -> Iterator[Text]:
    differing = [clip for clip in found.clips if len(set(clip.captions.values())) > 1]
    total = len(found.clips)
    if not differing:
        clips = "the clip" if total == 1 else f"all {total} clips"
        yield from (Text(), Text(f"All modes give the same caption of {clips}."))
        return
    yield from titled("Captions", f"of the {len(differing)} of {count(total, 'clip')} where they differ", width)
    if most:
        base = "cloud" if "cloud" in found.modes else found.modes[0]
        legend = f"[...] words that differ from {base}, [{_LEFT_OUT}] words of {base} that are left out"
        yield from wrap(Text(legend, DIM), width)
    for clip in differing[:most]:
        yield from clip_lines(clip, width, signs)
    if len(differing) > most:
        more = f"{signs.ellipsis} and {len(differing) - most} more: --captions {len(differing)} shows all"
        yield from wrap(Text(more, DIM), width)


def _errors(found: Comparison, width: int, signs: Signs) -> Iterator[Text]:
    if found.errors:
        yield from (Text(), Text(f"{count(len(found.errors), 'recording')} left out", BAD))
    for error in found.errors:
        message = clean(error.message)
        message = message if clean(error.file) in message else f"{clean(error.file)}: {message}"
        modes = "" if len(error.modes) == len(found.modes) else f" (in mode {', '.join(error.modes)})"
        yield from _prose(message + modes, width, signs)


def _flags(found: Comparison, width: int, signs: Signs) -> Iterator[Text]:
    """How many captions of each mode are no description."""
    counts = {mode: Counter(flag for clip in found.clips for flag in clip.flags.get(mode, ())) for mode in found.modes}
    if told := "; ".join(f"{mode} {count_flags(flags)}" for mode, flags in counts.items() if flags):
        yield from (Text(), *_prose(f"Captions that are no description: {told}.", width, signs))


def clip_lines(clip: ClipComparison, width: int, signs: Signs) -> Iterator[Text]:
    """The captions of a clip, what differs marked by brackets and colour; modes with the same caption share a line."""
    length = f" ({seconds(clip.duration_s)})" if clip.duration_s is not None else ""
    start = f" from {clip.start_s:g} s" if clip.start_s is not None else ""
    name = fit_end(clean(clip.file), width - len(length + start), signs.ellipsis)
    yield Text.assemble((name, STRONG), (f"{start}{length}", DIM))
    base: Mode = "cloud" if "cloud" in clip.captions else next(iter(clip.captions))
    for caption in dict.fromkeys(clip.captions.values()):
        modes = [mode for mode, said in clip.captions.items() if said == caption]
        text = Text(paragraph(caption)) if base in modes else marked(paragraph(caption), paragraph(clip.captions[base]))
        lines = wrap(text, width - _INDENT)
        for index in range(max(len(lines), len(modes))):
            head = padded(Text(f" {modes[index]}" if index < len(modes) else ""), _INDENT)
            yield Text.assemble(head, lines[index] if index < len(lines) else "")
    for caption in clip.reference_texts:
        yield from hanging(Text(" reference", DIM), Text(paragraph(caption), DIM), _INDENT, width)
    if classes := _classes(clip):
        yield from hanging(Text(" classes", DIM), Text(classes), _INDENT, width)


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
