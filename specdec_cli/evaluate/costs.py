"""What each mode cost: sums over clips, ratios to edge-only and cloud-only, and what it spent of the three costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from specdec_cli.evaluate.bootstrap import Interval, Resampler, Statistic, Values, mean, middle, quotient, ratio, total
from specdec_cli.evaluate.frontier import Oracle, Spending, oracle, spendings
from specdec_cli.evaluate.pairing import PairedClip
from specdec_cli.evaluate.result import Figure, ModeFigures, Process
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Cost, Mode

Columns = dict[str, Values]
"""One mode's measurements by name, [clips] each; of repeats the median, NaN where not measured."""


def measurements(clips: Sequence[PairedClip], modes: Sequence[Mode]) -> dict[Mode, Columns]:
    """What was measured of each mode."""
    return {
        mode: {
            name: np.array([clip.middle(mode, figure) for clip in clips], dtype=np.float64)
            for name, figure in _MEASURED.items()
        }
        for mode in modes
    }


def costs(table: Mapping[Mode, Columns], resampler: Resampler) -> list[ModeFigures]:
    """One entry a mode, of at least one clip."""
    return [_figures(mode, table, resampler) for mode in table]


def process(transcripts: Sequence[Transcript]) -> Process:
    """The largest figures that any process which made `transcripts` reported."""

    def largest(figure: Callable[[Transcript], float | None]) -> float | None:
        return max((value for run in transcripts if (value := figure(run)) is not None), default=None)

    return Process(
        peak_rss_mb=largest(lambda run: run.resources.peak_rss_mb),
        gpu_mb=largest(lambda run: run.resources.gpu_mb),
        load_s=largest(lambda run: run.timing.load_s),
    )


def _figures(mode: Mode, table: Mapping[Mode, Columns], resampler: Resampler) -> ModeFigures:
    own = table[mode]

    def figure(statistic_of: Callable[[Columns], Statistic]) -> Figure:
        statistic = statistic_of(own)

        def against(other: Mode) -> Interval | None:
            if other == mode or other not in table:
                return None
            return resampler.interval(quotient(statistic, statistic_of(table[other])))

        return Figure(value=resampler.value(statistic), to_edge=against("edge"), to_cloud=against("cloud"))

    def share(part: str, whole: str) -> Interval | None:
        return resampler.interval(ratio(own[part], own[whole]))

    between = mode in ("hybrid", "lossless")

    def count(name: str) -> int:
        return round(float(np.nansum(own[name])))

    def known(name: str) -> bool:
        return bool(np.isfinite(own[name]).any())

    return ModeFigures(
        mode=mode,
        total_s=figure(lambda of: total(of["total_ms"] / 1e3)),
        ttft_ms=figure(lambda of: middle(of["ttft_ms"])),
        tokens_per_s=figure(lambda of: ratio(of["tokens"], of["total_ms"] / 1e3)),
        tokens=figure(lambda of: total(of["tokens"])),
        forwards_edge=figure(lambda of: total(of["forwards_edge"])),
        forwards_cloud=figure(lambda of: total(of["forwards_cloud"])),
        cloud_calls=None if mode == "cloud" else count("escalations"),
        rounds=count("rounds"),
        escalation_rate=share("escalations", "rounds") if between else None,
        clips_woken=resampler.interval(mean(own["woken"])) if between else None,
        cloud_time=resampler.interval(ratio(own["cloud_ms"], table["cloud"]["cloud_ms"]))
        if between and "cloud" in table
        else None,
        edge_token_share=share("edge_tokens", "tokens"),
        acceptance_rate=share("accepted", "drafted"),
        uplink_bytes=count("uplink"),
        network_s=round(float(np.nansum(own["network_ms"])) / 1e3, 4) if known("network_ms") else None,
        degraded=int((own["degraded"] > 0).sum()),
        near_ties=count("near_ties") if known("near_ties") else None,
        cpu_s=figure(lambda of: total(of["cpu_percent_ms"] / 1e5)),
    )


def cloud_ms(run: Transcript) -> float | None:
    """Time of the cloud's forwards, audio encoder included; 0 where it did nothing, None where it is not known."""
    return run.timing.forwards_cloud_ms if run.woken else 0.0


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _total(name: str) -> Callable[[Transcript], float | None]:
    return lambda run: getattr(run.totals, name, None)


_TOTALS: Final = (
    *("tokens", "rounds", "escalations", "drafted", "accepted"),
    *("forwards_edge", "forwards_cloud", "network_ms", "near_ties"),
)
_MEASURED: Final[dict[str, Callable[[Transcript], float | None]]] = {
    **{name: _total(name) for name in _TOTALS},
    "edge_tokens": lambda run: _product(_total("edge_token_share")(run), _total("tokens")(run)),
    "total_ms": lambda run: run.timing.total_ms,
    "ttft_ms": lambda run: run.timing.ttft_ms,
    "woken": lambda run: float(run.woken),
    "cloud_ms": cloud_ms,
    "prefill_cloud_ms": lambda run: run.timing.prefill_cloud_ms,
    "cpu_percent_ms": lambda run: _product(run.resources.cpu_percent, run.timing.total_ms),
    "uplink": lambda run: run.uplink.bytes,
    "degraded": lambda run: float(run.degraded is not None),
}
"""What is measured of a transcript; a new figure begins with a line here."""


def spent(mode: Mode, table: Mapping[Mode, Columns]) -> dict[Cost, Spending]:
    """What a mode between the two spent on each clip; its time is that of the cloud's recorded forwards."""
    own = table[mode]
    return spendings(own["escalations"], own["rounds"], own["woken"], own["cloud_ms"], table["cloud"]["cloud_ms"])


def oracle_of(edge: Values, cloud: Values, table: Mapping[Mode, Columns]) -> Oracle:
    """The oracle of the compared clips, whose classes `edge` and `cloud` name right or wrong [clips, attributes].

    Its blocks are of the size that the edge drafts; a clip costs what cloud-only took for encoder and prefill, and for
    each class after the first one verification, of the mean length of those that were run.
    """
    alone = table["cloud"]
    verification_ms = _verification_ms(table)
    return oracle(edge, cloud, table["edge"]["rounds"], alone["prefill_cloud_ms"], verification_ms, alone["cloud_ms"])


def _verification_ms(table: Mapping[Mode, Columns]) -> float | None:
    """Mean time of the cloud's forwards after its prefill; None where none was measured."""
    ms = forwards = 0.0
    for mode in ("hybrid", "lossless"):
        if mode in table:
            own = table[mode]
            ms += float(np.nansum(own["cloud_ms"] - own["prefill_cloud_ms"]))
            forwards += float(np.nansum(own["forwards_cloud"] - 1.0, where=own["woken"] > 0))
    return ms / forwards if forwards > 0 and ms > 0 else None
