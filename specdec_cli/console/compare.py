"""A comparison for a person to read, on stdout: what it comes to, the figures, and the captions side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging
from specdec_cli.console.compare_captions import LEFT_OUT, clip_lines
from specdec_cli.console.compare_figures import Wording, agreement_rows, cost_rows, reference_rows
from specdec_cli.console.figures import count, seconds
from specdec_cli.console.grid import Row, render
from specdec_cli.console.tables import stdout_console
from specdec_cli.console.theme import BAD, DIM, STRONG, UNICODE, signs_for

if TYPE_CHECKING:
    from specdec_cli.compare.result import Comparison

PIPED_WIDTH: Final = 120
"""Cells of a line where there is no terminal to ask."""
PROSE_WIDTH: Final = 100
WIDEST: Final = 160


def print_comparison(comparison: Comparison, *, captions: int, console: Console | None = None) -> None:
    """Print a comparison.

    Args:
        comparison: what was found.
        captions: clips whose captions differ to show side by side, at most.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    width = min(console.width, WIDEST) if console.is_terminal else PIPED_WIDTH
    for line in _Page(comparison, width, console).lines(captions):
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


class _Page:
    def __init__(self, comparison: Comparison, width: int, console: Console) -> None:
        self._comparison = comparison
        self._width = width
        self._signs = signs_for(console)
        self._wording = Wording(unicode=self._signs is UNICODE)

    def lines(self, captions: int) -> Iterator[Text]:
        """All of it."""
        yield from self._headline()
        if self._comparison.clips:
            yield from self._costs()
            yield from self._quality()
            yield from self._captions(captions)
        yield from self._errors()

    def _headline(self) -> Iterator[Text]:
        found = self._comparison
        facts = [count(len(found.clips), "clip"), seconds(found.audio_s), found.language]
        if found.repeats > 1:
            facts.append(f"up to {found.repeats} repeats")
        if found.planned is not None and found.unfinished + len(found.clips) + len(found.errors) < found.planned:
            facts[0] += f" of {found.planned} recordings"
        if found.unfinished:
            facts.append(f"{found.unfinished} unfinished")
        yield Text(f" {self._signs.dot} ".join(facts), DIM)
        for sentence in found.headline:
            yield from self._prose(sentence)

    def _prose(self, sentence: str, style: str = "") -> Iterator[Text]:
        yield from hanging(Text(f" {self._signs.dot}"), Text(clean(sentence), style), 3, min(self._width, PROSE_WIDTH))

    def _costs(self) -> Iterator[Text]:
        found = self._comparison
        base = "edge-only" if "edge" in found.modes else "cloud-only"
        level = f"{100 * found.level:g}%"
        yield from self._grid(
            "Cost", f"with the ratio to {base} and its {level} interval", cost_rows(found, self._wording)
        )
        process = found.process
        facts = []
        if process.peak_rss_mb is not None:
            facts.append(f"peak memory {process.peak_rss_mb:.0f} MiB")
        facts.append(f"GPU {process.gpu_mb:.0f} MiB" if process.gpu_mb is not None else "no GPU")
        held = "of the process, which holds the models of all modes at once"
        yield from hanging(Text(" process"), Text.assemble(", ".join(facts), (f" ({held})", DIM)), 16, self._width)

    def _quality(self) -> Iterator[Text]:
        found = self._comparison
        if rows := list(reference_rows(found, self._wording)):
            clips = found.references_found or 0
            yield from self._grid("Against the references", f"of {count(clips, 'clip')}, with macro F1", rows)
        if rows := list(agreement_rows(found, self._wording)):
            yield from self._grid("Against the cloud's captions", "", rows)

    def _grid(self, title: str, note: str, rows: list[Row]) -> Iterator[Text]:
        yield Text()
        yield from hanging(Text(), Text.assemble((title, STRONG), (f" {note}" if note else "", DIM)), 0, self._width)
        yield from render(self._comparison.modes, rows, self._width)

    def _captions(self, most: int) -> Iterator[Text]:
        differing = [clip for clip in self._comparison.clips if len(set(clip.captions.values())) > 1]
        shown = differing[:most]
        yield Text()
        total = len(self._comparison.clips)
        if not differing:
            yield Text(f"All modes say the same of {'the clip' if total == 1 else f'all {total} clips'}.")
            return
        note = f" of the {len(differing)} of {count(total, 'clip')} where they differ"
        yield from hanging(Text(), Text.assemble(("Captions", STRONG), (note, DIM)), 0, self._width)
        if shown:
            base = "cloud" if "cloud" in self._comparison.modes else self._comparison.modes[0]
            legend = f"[...] other words than {base}, [{LEFT_OUT}] something that {base} says is left out"
            yield from hanging(Text(), Text(legend, DIM), 0, self._width)
        for clip in shown:
            yield from clip_lines(clip, min(self._width, WIDEST), self._signs)
        if len(shown) < len(differing):
            left = len(differing) - len(shown)
            more = f"{self._signs.ellipsis} and {left} more: --captions {len(differing)} shows all"
            yield from hanging(Text(), Text(more, DIM), 0, self._width)

    def _errors(self) -> Iterator[Text]:
        errors = self._comparison.errors
        if not errors:
            return
        yield Text()
        yield Text(f"{count(len(errors), 'recording')} left out", BAD)
        for error in errors:
            message = clean(error.message)
            said = message if clean(error.file) in message else f"{clean(error.file)}: {message}"
            modes = "" if len(error.modes) == len(self._comparison.modes) else f" (in mode {', '.join(error.modes)})"
            yield from self._prose(said + modes)
