"""What a comparison comes to, in sentences that claim no more than their intervals allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from specdec_cli.evaluate.pairing import Pairing
from specdec_cli.evaluate.result import Basis, Gap, GapMeasure
from specdec_cli.format import count, percent, share, with_ends
from specdec_cli.types import Mode

FEWEST_CLIPS: Final = 10
"""Below this a percentile bootstrap is too narrow to base a claim on."""

SUBJECTS: Final[Mapping[tuple[Basis, GapMeasure], str]] = {
    ("references", "labels"): "Classes named right",
    ("references", "emotion"): "Emotion named right",
    ("references", "chrf"): "chrF with the references",
    ("cloud", "captions"): "Captions equal to the cloud's",
    ("cloud", "labels"): "Classes equal to the cloud's",
    ("cloud", "chrf"): "chrF with the cloud's captions",
}
"""What each measure says, that which decides the verdict first."""
_WEIGHT: Final[tuple[tuple[Basis, GapMeasure], ...]] = tuple(SUBJECTS)


def headline(pairing: Pairing, gaps: Sequence[Gap]) -> list[str]:
    """The sentences: what must not happen, and how much of the gap each mode closes by the measure that leads.

    A mode whose captions all equal the cloud's is left out.
    """
    clips = len(pairing.clips)
    if not clips:
        return ["No clip was captioned by every mode, so there is nothing to compare."]
    if clips < FEWEST_CLIPS:
        few = f"{count(clips, 'clip')} only: at least {FEWEST_CLIPS} are needed to say which mode is better."
        return [*_faults(pairing), few]
    stated = [gap for gap in gaps if gap.basis == "references"] or gaps
    leading = {gap.mode: gap for gap in sorted(stated, key=lambda gap: (gap.closed is None, _place(gap)), reverse=True)}
    return [*_faults(pairing), *(_quality(gap) for mode, gap in leading.items() if not _equals_cloud(pairing, mode))]


def _equals_cloud(pairing: Pairing, mode: Mode) -> bool:
    return all(clip.caption(mode) == clip.caption("cloud") for clip in pairing.clips)


def _faults(pairing: Pairing) -> Iterator[str]:
    """What must not happen, said first."""
    if unstable := pairing.unstable:
        yield (
            f"Fault: the greedy caption of {unstable[0]}{_and_others(len(unstable))} differs between repeats. "
            "Figures of quality are those of the first."
        )
    if {"lossless", "cloud"} <= set(pairing.modes):
        greedy = [clip for clip in pairing.clips if clip.first("lossless").settings.get("acceptance") == "greedy"]
        other = [clip for clip in greedy if clip.caption("lossless") != clip.caption("cloud")]
        if other:
            yield (
                f"Lossless differs from cloud-only in {len(other)} of {len(greedy)} captions; "
                "in 16-bit formats a near tie may fall the other way, in float32 it is a fault."
            )


def _and_others(count: int) -> str:
    return "" if count == 1 else f" and of {count - 1} other clip{'s' if count > 2 else ''}"


def _place(gap: Gap) -> int:
    return _WEIGHT.index((gap.basis, gap.measure))


def _quality(gap: Gap) -> str:
    """How much of the gap a mode closes; no difference is reported whose interval includes 0."""
    ends = f"edge-only {share(gap.edge)}, {gap.mode} {share(gap.value)}, cloud-only {share(gap.cloud)}"
    told = f"{SUBJECTS[gap.basis, gap.measure]}: {ends}."
    if gap.closed is None:
        return f"{told} Cloud-only is not measurably better than edge-only here, so there is no gap to close."
    if gap.closed.low is not None and gap.closed.low > 0:
        return f"{told} {gap.mode.capitalize()} closes {with_ends(gap.closed, percent)} of the gap."
    if gap.gain.high is not None and gap.gain.high < 0:
        return f"{told} {gap.mode.capitalize()} is worse than edge-only."
    return f"{told} No difference between {gap.mode} and edge-only can be reported from these clips."
