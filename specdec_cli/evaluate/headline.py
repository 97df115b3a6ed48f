"""The result of a comparison in sentences; none reports a difference whose interval includes 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from specdec_cli.evaluate.pairing import PairedClip
from specdec_cli.evaluate.result import Comparison, Gap
from specdec_cli.format import count, percent, share, with_ends
from specdec_cli.types import Mode

FEWEST_CLIPS: Final = 10
"""Below this a percentile bootstrap is too narrow to report a difference."""


def headline(found: Comparison, clips: Sequence[PairedClip]) -> Iterator[str]:
    """Faults first; then the quality, the time and the calls of each mode between edge-only and cloud-only."""
    yield from _faults(clips)
    if not clips:
        yield "No clip was captioned by every mode, so there is nothing to compare."
    elif len(clips) < FEWEST_CLIPS:
        yield f"{count(len(clips), 'clip')} only: at least {FEWEST_CLIPS} are needed to say which mode is better."
    else:
        for mode in found.modes:
            if mode not in ("edge", "cloud"):
                yield from _quality(found, mode)
                yield from _cost(found, mode)


def _faults(clips: Sequence[PairedClip]) -> Iterator[str]:
    both = [clip for clip in clips if {"lossless", "cloud"} <= clip.keys()]
    greedy = [clip for clip in both if clip["lossless"].settings.get("acceptance") == "greedy"]
    if other := sum(clip["lossless"].caption != clip["cloud"].caption for clip in greedy):
        yield (
            f"Lossless differs from cloud-only in {other} of {len(greedy)} captions. "
            "In 16-bit formats a near tie may fall the other way; in float32 it is a fault."
        )


def _quality(found: Comparison, mode: Mode) -> Iterator[str]:
    """How good a mode is, by the first measure whose gap has an interval above 0."""
    if found.same_as_cloud(mode):
        yield f"{mode.capitalize()} gives cloud-only's captions."
        return
    if gaps := [gap for gap in found.stated_gaps() if gap.mode == mode]:
        gap = next((gap for gap in gaps if gap.closed), gaps[0])
        ends = f"edge-only {share(gap.edge)}, {mode} {share(gap.value)}, cloud-only {share(gap.cloud)}"
        yield f"{gap.subject}: {ends}. {_verdict(gap)}"


def _verdict(gap: Gap) -> str:
    if gap.closed is None:
        return "Cloud-only is not measurably better than edge-only here, so there is no gap to close."
    if gap.closed.low is not None and gap.closed.low > 0:
        closed = with_ends(gap.closed, percent)
        return f"{gap.mode.capitalize()} closes {closed} of the gap between edge-only and cloud-only."
    if gap.gain.high is not None and gap.gain.high < 0:
        return f"{gap.mode.capitalize()} is worse than edge-only."
    return f"No difference between {gap.mode} and edge-only can be reported from these clips."


def _cost(found: Comparison, mode: Mode) -> Iterator[str]:
    """The time of a mode, and how often it calls the cloud."""
    own = next(each for each in found.costs if each.mode == mode)
    if own.total_s.to_cloud and own.clips_woken:
        called = "every clip" if own.clips_woken.value == 1 else f"{percent(own.clips_woken.value)} of the clips"
        spent = with_ends(own.total_s.to_cloud, percent)
        yield f"{mode.capitalize()} takes {spent} of cloud-only's time and calls the cloud for {called}."
