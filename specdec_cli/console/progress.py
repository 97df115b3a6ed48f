"""How far a batch is, and its totals and failures at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from specdec_cli.console.clip import count_flags
from specdec_cli.console.theme import BAD, DIM, DOT
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, percent, seconds

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Progress
    from specdec_cli.console.view import View


def show_counts(view: View, counts: Progress) -> None:
    """A batch begins, or another of its recordings is done."""
    place = f"{counts.done:,} of {counts.total:,}" if counts.total is not None else count(counts.done, "recording")
    left = [f"{seconds(counts.left_s)} left"] if counts.left_s is not None else []
    numbers = ((counts.failed, "failed"), (counts.degraded, "degraded"))
    facts = [place, *left, *(f"{number} {what}" for number, what in numbers if number), *_rates(counts)]
    view.progress(counts.done, counts.total, facts)


def show_totals(view: View, counts: Progress, output: str) -> None:
    """A batch is over: its totals, where its captions are, and which lack the cloud or describe nothing."""
    view.close()
    kept = counts.captioned or counts.in_part or counts.skipped
    numbers = {
        "in part ({:,} of {:,} pieces)".format(*counts.pieces): counts.in_part,
        "failed": counts.failed,
        "done before": counts.skipped,
        "without anything to describe, as found before": counts.empty,
    }
    line = Text(f"{counts.captioned:,} captioned")
    for what, number in numbers.items():
        line.append(f"  {number:,} {what}" if number else "", BAD if what == "failed" else "")
    if counts.captioned:
        line.append(f"  {DOT.join([*_rates(counts), f'in {seconds(counts.elapsed_s)}'])}", DIM)
    view.say(line, good=bool(kept))
    if counts.degraded:
        view.warn(f"{count(counts.degraded, 'caption')} degraded: the cloud failed")
    if counts.flags:
        view.warn(f"captions that are no description: {count_flags(counts.flags)}")
    if kept or counts.tokens:
        view.say(f"captions are in {output}")


def show_failures(view: View, counts: Progress, output: str) -> None:
    """The recordings without a caption, as many as were kept; the rest is in `output`."""
    for file, reason in counts.failures:
        view.failed(file, SpecdecError(reason))
    if (more := counts.failed + counts.in_part - len({file for file, _ in counts.failures})) > 0:
        view.hint(f"{more:,} more failed; every one has a line with `error` in {output}")


def _rates(counts: Progress) -> list[str]:
    facts = [f"{seconds(counts.audio_s)} of audio"] if counts.audio_s else []
    facts += [f"{counts.tokens_per_s:.1f} tokens/s"] if counts.tokens_per_s is not None else []
    if counts.edge_ms and counts.clips_per_s is not None:
        edge = counts.edge_ms / (counts.edge_ms + counts.cloud_ms)
        share = f"edge {percent(edge)} and cloud {percent(1 - edge)} of the time at servers"
        facts += [f"{counts.clips_per_s:.1f} clips/s", share]
    if counts.escalation_rate is not None:
        facts.append(f"{percent(counts.escalation_rate)} of blocks escalated")
    return facts
