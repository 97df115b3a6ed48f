"""The progress of a batch, and its totals and failures at the end."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from specdec_cli.captioning.tasks import Progress
from specdec_cli.console.clip import count_flags
from specdec_cli.console.theme import BAD, DIM, DOT
from specdec_cli.console.view import View
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, percent
from specdec_cli.times import seconds
from specdec_cli.types import Flag


def show_counts(view: View, counts: Progress) -> None:
    """Shows the progress of a batch, at its beginning and after each outcome."""
    place = f"{counts.done:,} of {counts.total:,}"
    left = [f"{seconds(counts.left_s)} left"] if counts.left_s is not None else []
    numbers = ((counts.failed, "failed"), (counts.degraded, "degraded"))
    done_s, of_s = counts.under_way
    part = [f"{seconds(done_s)} of {seconds(of_s)} of audio in those under way"] if done_s else []
    facts = [place, *part, *left, *(f"{number} {what}" for number, what in numbers if number), *_rates(counts)]
    view.progress(counts.reached, counts.total, facts)


def show_totals(view: View, counts: Progress, output: Path | None) -> None:
    """Shows the totals of a run, where its captions are, and how many are degraded or flagged."""
    kept = counts.captioned or counts.skipped
    line = Text(f"{counts.captioned:,} captioned")
    line.append(f" ({count(counts.pieces, 'piece')})" if counts.pieces > counts.captioned else "")
    line.append(f"  {counts.failed:,} failed" if counts.failed else "", BAD)
    line.append(f"  {counts.degraded:,} degraded" if counts.degraded else "", BAD)
    line.append(f"  {counts.skipped:,} done before" if counts.skipped else "")
    line.append(f" ({counts.without:,} without a caption)" if counts.without else "", BAD)
    if counts.captioned and (rates := _rates(counts)):
        line.append(f"  {DOT.join([*rates, f'in {seconds(counts.elapsed_s)}'])}", DIM)
    view.conclude(line, good=bool(kept))
    if counts.degraded:
        again = "; --retry-failed makes them again" if output is not None and output.suffix == ".jsonl" else ""
        view.warn(f"{count(counts.degraded, 'caption')} degraded: the cloud failed{again}")
    flags: dict[Flag, int] = {flag: number for flag, number in counts.flags.items() if flag != "no_speech"}
    if flags:
        view.warn(f"flagged captions: {count_flags(flags)}")
    warn_no_speech(view, counts)
    if output is not None and (kept or counts.tokens):
        view.say(f"captions are in {output}")


def warn_no_speech(view: View, counts: Progress) -> None:
    """Warns once of the clips without speech, with their times."""
    if number := counts.flags["no_speech"]:
        places = [f"{file} ({', '.join(times)})" if times else file for file, times in counts.silent.items()]
        more = number - sum(max(1, len(times)) for times in counts.silent.values())
        listed = ", ".join(places) + (f" and {more:,} more" if more > 0 else "")
        view.warn(f"no speech was found in {count(number, 'clip')}, so what captions say is invented: {listed}")


def show_warnings(view: View, counts: Progress) -> None:
    """Shows warnings of clips that were not shown one by one, a line for each kind."""
    for number, first, files in counts.warnings.values():
        others = [file for file in files if file not in first]  # which most name themselves
        more = f" and {number - len(files):,} more" if number > len(files) else ""
        also = "also " if len(others) < len(files) else ""
        view.warn(f"{first} ({also}{', '.join(others)}{more})" if others else first)


def show_failures(view: View, counts: Progress, output: Path | None) -> None:
    """Shows the recordings without a caption, the first ones by name; `output` has all."""
    for file, reason in counts.failures:
        view.failed(file, SpecdecError(reason))
    if more := counts.failed - len(counts.failures):
        view.hint(f"{more:,} more failed" + (f"; every one has a line with `error` in {output}" if output else ""))


def _rates(counts: Progress) -> list[str]:
    facts = [f"{seconds(counts.audio_s)} of audio"] if counts.audio_s else []
    if counts.tokens:
        facts.append(f"{counts.tokens / counts.elapsed_s:.1f} tokens/s")
    if counts.edge_ms:
        facts.append(f"{counts.captioned / counts.elapsed_s:.1f} clips/s")
        edge = counts.edge_ms / (counts.edge_ms + counts.cloud_ms)
        facts.append(f"edge {percent(edge)} and cloud {percent(1 - edge)} of the time at servers")
    if counts.escalation_rate is not None:
        facts.append(f"{percent(counts.escalation_rate)} of blocks escalated")
    return facts
