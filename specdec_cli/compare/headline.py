"""What a comparison comes to, in sentences that claim no more than their intervals allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from specdec_cli.compare.pairing import Pairing
from specdec_cli.compare.result import Basis, Gap, GapMeasure, ModeFigures
from specdec_cli.metrics.bootstrap import Interval
from specdec_cli.report.figures import percent, points, share, with_ends
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


def headline(pairing: Pairing, costs: Sequence[ModeFigures], gaps: Sequence[Gap]) -> list[str]:
    """The sentences, most important first."""
    clips = len(pairing.clips)
    if not clips:
        return ["No clip was captioned by every mode, so there is nothing to compare."]
    echoes = _echoes(pairing)
    sentences = [*_faults(pairing)]
    if clips < FEWEST_CLIPS:
        noun = "clip is" if clips == 1 else "clips are"
        sentences.append(
            f"{clips} {noun} too few to say which mode is better: the figures are those of these clips only."
        )
    else:
        stated = [gap for gap in gaps if gap.basis == "references"] or list(gaps)
        stated = [gap for gap in stated if gap.mode not in echoes]
        spent = {figures.mode: figures for figures in costs}
        first = {gap.mode: gap for gap in reversed(stated)}
        sentences += [_quality(gap, spent[gap.mode] if first[gap.mode] is gap else None) for gap in stated]
        if leading := next((gap for gap in sorted(stated, key=_place) if gap.closed is not None), None):
            sentences += _otherwise(leading)
    judged = gaps if clips >= FEWEST_CLIPS else []
    return [*sentences, *(sentence for figures in costs if (sentence := _time(figures, judged, echoes)))]


def _echoes(pairing: Pairing) -> set[Mode]:
    """Modes that say what the cloud says in every clip, so that all of the cloud's quality is theirs."""
    if "cloud" not in pairing.modes:
        return set()
    return {
        mode
        for mode in pairing.modes
        if mode not in ("edge", "cloud") and all(clip.caption(mode) == clip.caption("cloud") for clip in pairing.clips)
    }


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


def _quality(gap: Gap, costs: ModeFigures | None) -> str:
    subject = SUBJECTS[gap.basis, gap.measure]
    ends = f"edge-only {share(gap.edge)}, cloud-only {share(gap.cloud)}"
    if gap.edge == gap.cloud == gap.value:
        return f"{subject}: edge-only, {gap.mode} and cloud-only do the same ({share(gap.edge)})."
    if gap.closed is not None and is_above(gap.closed, 0):
        price = _price(costs) if costs else ""
        return f"{subject}: {gap.mode} closes {with_ends(gap.closed, percent)} of the gap ({ends}){price}."
    own = f"{gap.mode} {share(gap.value)}, {with_ends(gap.gain, points, ' points')} against edge-only"
    verdict = f"{gap.mode} is {_against_edge(gap.gain)} than edge-only ({own})"
    if gap.closed is not None:
        return f"{subject}: {verdict}; {ends}."
    cloud = _against_edge(gap.gap)
    so = "there is no gap to close" if cloud == "worse" else "no share of a gap can be given"
    return f"{subject}: cloud-only is {cloud} than edge-only ({ends}), so {so}; {verdict}."


def _price(costs: ModeFigures) -> str:
    """What a mode spends of the three costs, those first that look smallest."""
    shares = (
        (costs.escalation_rate, "of its blocks escalated"),
        (costs.clips_woken, "of the clips waking the cloud"),
        (costs.cloud_time, "of the time that cloud-only takes in the cloud"),
    )
    told = [f"{share(spent.value)} {what}" for spent, what in shares if spent is not None]
    return f", with {' and '.join(filter(None, (', '.join(told[:-1]), told[-1])))}" if told else ""


def _otherwise(gap: Gap) -> Iterator[str]:
    """What random escalation and the oracle close at the mode's own cost, by the cost that says most."""
    at = {each.cost: each for each in gap.at_costs}
    found = at.get("time") or at.get("clips")
    if found is None or found.above_random is None or gap.closed is None or not is_above(gap.closed, 0):
        return
    above = found.above_random
    place = "above that" if is_above(above, 0) else "below that" if is_below(above, 0) else "not measurably above that"
    cost = "of the cloud's time" if found.cost == "time" else "of the clips"
    best = f"; the oracle closes {with_ends(found.oracle, percent)}" if found.oracle else ""
    yield (
        f"{SUBJECTS[gap.basis, gap.measure]}: for as much {cost}, escalation at random closes "
        f"{share(found.spent.value)} of the gap; {gap.mode} is {place}, {with_ends(above, points, ' points')}{best}."
    )


def _against_edge(difference: Interval) -> str:
    if is_above(difference, 0):
        return "better"
    return "worse" if is_below(difference, 0) else "not measurably better"


def _time(figures: ModeFigures, gaps: Sequence[Gap], echoes: set[Mode]) -> str | None:
    to_edge, to_cloud = figures.total_s.to_edge, figures.total_s.to_cloud
    takes = [_takes(to_edge, "edge-only")] if to_edge else []
    if to_cloud and figures.mode != "edge":
        takes.append(_takes(to_cloud, "cloud-only"))
    if not takes:
        return None
    if figures.mode in echoes:
        return f"{_called(figures.mode)} takes {' and '.join(takes)}, whose captions it gives word for word."
    verdict = _verdict(figures.mode, gaps) if to_edge else None
    if verdict is None:
        return f"{_called(figures.mode)} takes {' and '.join(takes)}."
    return f"{_called(figures.mode)} takes {', '.join(takes)}, and is {verdict}."


def _takes(spread: Interval, other: str) -> str:
    if is_above(spread, 1) or is_below(spread, 1) or spread.low is None:
        return f"{_times(spread)} the time of {other}"
    return f"about the time of {other}, {_times(spread)}"


def _verdict(mode: Mode, gaps: Sequence[Gap]) -> str | None:
    """The quality gained for the time, by the measure that weighs most."""
    first = min(gaps, key=_place, default=None)
    if first is None or (mode == "cloud" and first.basis == "cloud"):
        return None
    if mode == "cloud":
        return f"{_against_edge(first.gap)} than edge-only"
    own = next(gap for gap in gaps if (gap.mode, gap.basis, gap.measure) == (mode, first.basis, first.measure))
    verdict = _against_edge(own.gain)
    if first.basis == "references":
        return f"{verdict} than edge-only"
    nearer = {"better": "nearer", "worse": "less near", "not measurably better": "not measurably nearer"}
    return f"{nearer[verdict]} to the cloud's captions than edge-only"


def _called(mode: Mode) -> str:
    return {"edge": "Edge-only", "cloud": "Cloud-only"}.get(mode, mode.capitalize())


def is_above(spread: Interval, bound: float) -> bool:
    """Whether all of the interval lies above `bound`."""
    return spread.low is not None and spread.low > bound


def is_below(spread: Interval, bound: float) -> bool:
    """Whether all of the interval lies below `bound`."""
    return spread.high is not None and spread.high < bound


def _times(spread: Interval) -> str:
    """`2.6 times (2.4 to 2.9)`; three figures are enough."""
    return with_ends(spread, lambda ratio: f"{ratio:.3g}", " times")
