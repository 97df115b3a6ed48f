"""The pages of a comparison and of a tuning; each takes a result and a width, cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, fit_end
from specdec_cli.console.clip import count_flags
from specdec_cli.console.tables import columns, facts, grid, item
from specdec_cli.console.theme import BAD, DIM, GOOD, NOTICE, OK, STRONG
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.result import ONE_SPEAKER
from specdec_cli.format import count, percent, points, share, with_ends
from specdec_cli.text import clean, paragraph
from specdec_cli.times import NONE, seconds
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from specdec_cli.evaluate.result import ClipComparison, Comparison
    from specdec_cli.tune.outcomes import Tuning
    from specdec_cli.types import Mode

_INDENT: Final = 11
_LEFT_OUT: Final = "^"
_SHOWN: Final = 2  # clips with their captions side by side
_GROUPS: Final = 20  # rows of a table by speaker or the like
_UNITS: Final = re.compile(r"[A-Za-z0-9'’-]+|\s+|.", re.DOTALL)
_OF: Final[dict[Cost, str]] = {"blocks": "the blocks", "clips": "the clips", "time": "cloud-only's time in the cloud"}
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions (chrF)",
}


def comparison_page(found: Comparison, width: int) -> Iterator[RenderableType]:
    """The headline, the figures, and the captions of the first clips where they differ."""
    about = [count(len(found.clips), "clip"), seconds(found.audio_s), found.language]
    about += [f"references of {found.references_found}"] if found.references_found is not None else []
    about += filter(None, [tables.about_references(found.reference_columns)])
    about += [f"{count(found.unfinished, 'clip')} not finished in every mode"] if found.unfinished else []
    yield facts(*about)
    yield from map(item, (*found.headline, *filter(None, [tables.worst_confusions(found)]), *found.notes))
    if table := tables.summary(found) if found.clips else None:
        yield Text()
        yield from grid(table.columns, table.rows, width)
        drawn = f"{count(found.speakers, 'speaker')}" if found.speakers else "clips"
        note = f"Beside a figure: its {percent(found.level)} interval over {drawn}. -o page.html explains all figures."
        if ONE_SPEAKER not in found.notes:
            yield Prose(Text(note, DIM), indent=1)
        for by in tables.by_group(found):
            yield from (Text(), Text(clean(by.title), STRONG))
            yield from grid(by.columns, [row._replace(label=clean(row.label)) for row in by.rows[:_GROUPS]], width)
            if len(by.rows) > _GROUPS:
                yield Prose(Text(f"… and {len(by.rows) - _GROUPS} more: -o page.html shows all", DIM))
        yield from _captions(found, width)
    if found.errors:
        yield from (Text(), Text(f"{count(len(found.errors), 'recording')} left out", BAD))
    for error in found.errors:
        named = error.message if error.file in error.message else f"{error.file}: {error.message}"
        yield item(named if len(error.modes) == len(found.modes) else f"{named} (in mode {', '.join(error.modes)})")
    counts = {mode: Counter(flag for clip in found.clips for flag in clip.flags.get(mode, ())) for mode in found.modes}
    if flagged := "; ".join(f"{mode} {count_flags(flags)}" for mode, flags in counts.items() if flags):
        yield from (Text(), item(f"Flagged captions: {flagged}."))


def _captions(found: Comparison, width: int) -> Iterator[RenderableType]:
    differing = [clip for clip in found.clips if len(set(clip.captions.values())) > 1]
    if not differing:
        yield from (Text(), Text(f"All modes give the same caption of {count(len(found.clips), 'clip')}."))
        return
    where = f"Captions of the {len(differing)} of {count(len(found.clips), 'clip')} where they differ"
    yield from (Text(), Text(where, STRONG))
    base = "cloud" if "cloud" in found.modes else found.modes[0]
    legend = f"[...]: words that are not {base}'s. [{_LEFT_OUT}]: {base} has more words here."
    yield Prose(Text(legend, DIM))
    for clip in differing[:_SHOWN]:
        yield from _clip(clip, width)
    if len(differing) > _SHOWN:
        yield Prose(Text(f"… and {len(differing) - _SHOWN} more: -o page.html shows all", DIM))


def _clip(clip: ClipComparison, width: int) -> Iterator[RenderableType]:
    """The captions of a clip, what differs marked by brackets and colour; modes with the same caption share it."""
    start = f" from {clip.start_s:g} s" if clip.start_s is not None else ""
    start += f", channel {clip.channel}" if clip.channel is not None else ""
    yield Text.assemble((fit_end(clean(clip.file), width - len(start)), STRONG), (start, DIM))
    base: Mode = "cloud" if "cloud" in clip.captions else next(iter(clip.captions))
    for caption in dict.fromkeys(clip.captions.values()):
        modes = [mode for mode, written in clip.captions.items() if written == caption]
        text = marked(paragraph(caption), paragraph(clip.captions[base]))
        yield Prose(text, Text("\n".join(f" {mode}" for mode in modes)), _INDENT)
    for caption in clip.reference_texts:
        yield Prose(Text(paragraph(caption), DIM), Text(" reference", DIM), _INDENT)


def marked(caption: str, base: str) -> Text:
    """`caption` with words that `base` lacks in brackets, and `[^]` where `base` has more words."""
    ours, theirs = _UNITS.findall(caption), _UNITS.findall(base)
    text = Text()
    for kind, start, end, at, until in SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes():
        own = "".join(ours[start:end])
        if kind == "equal":
            text.append(own)
        elif own.strip():
            text.append(f"[{own.strip()}]" + (" " if own[-1:].isspace() else ""), f"{NOTICE} underline")
        elif "".join(theirs[at:until]).strip():
            text.append(f"[{_LEFT_OUT}]", NOTICE)
            text.append(own)
    return text


def tuning_page(found: Tuning, _: int) -> Iterator[RenderableType]:
    """The recommendation, and the settings that were run, gate by gate."""
    about = [count(found.clips, "clip"), f"{found.confirmed_on} of them for confirmation, split by {found.split_by}"]
    about += [f"references of {found.references_found}"] if found.references_found is not None else []
    about += filter(None, [tables.about_references(found.reference_columns)])
    yield facts(*about)
    yield from map(item, (*_sentences(found), *found.notes))
    yield Text()
    figures = [*COSTS, "quality", "gain, points"]
    figures += [f"gap closed ({found.of})"] if any(point.gap_closed for point in found.confirmed) else []
    table = columns(" setting", *figures, right=figures)
    gates = list(dict.fromkeys(point.gate for point in found.confirmed))
    for point in sorted(found.confirmed, key=lambda point: gates.index(point.gate)):
        chosen = found.recommended is not None and point.label == found.recommended.label
        label = Text.assemble((OK if chosen else " ", GOOD), (clean(point.label), STRONG if chosen else ""))
        closed = with_ends(point.gap_closed, percent) if point.gap_closed else NONE
        costs = [share(point.spent[cost]) for cost in COSTS]
        cells = [*costs, share(point.quality), with_ends(point.gain, points), closed]
        table.add_row(label, *cells[: len(figures)])
    yield table
    note = (
        "blocks, clips, time: shares of the blocks, of the clips and of cloud-only's time that the cloud got. Each "
        "setting ran on clips other than those on which it was chosen."
    )
    note += " random escalates a fixed share of the blocks." if "random" in gates else ""
    yield Prose(Text(note, DIM), indent=1)


def _sentences(found: Tuning) -> Iterator[str | Text]:
    best = found.recommended
    what = f" in {', '.join(found.attributes)}" if found.attributes else ""
    yield (
        f"Measured on the clips for confirmation, against {_MEASURES[found.measure]}{what}: "
        f"edge {share(found.edge_quality)}, cloud {share(found.cloud_quality)}, "
        f"a difference of {with_ends(found.gap, points, ' points')}."
    )
    if best is None:
        yield Text(found.reason or "", NOTICE)
        return
    known = [f"{share(best.spent[cost])} of {_OF[cost]}" for cost in COSTS if best.spent[cost] is not None]
    closes = (
        f" It closes {with_ends(best.gap_closed, percent)} of the gap between edge and cloud."
        if best.gap_closed
        else ""
    )
    calls = f"{best.escalations_per_clip:.1f} calls per clip"
    yield Text(
        f"Recommended: {best.label}. The cloud gets {', '.join(known)} ({calls}).{closes} Of the settings within the "
        "budget that are as good as the best, to one standard error, this one gives the cloud the least of "
        f"{_OF[found.cost]}.",
        GOOD,
    )
    if found.output:
        yield f"Use it: --config {found.output}"
