"""What each mode cost: sums over clips, ratios to edge-only and cloud-only, and what it spent of the three costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from specdec_cli.evaluate.bootstrap import Interval, Resampler, Statistic, Values, mean, middle, quotient, ratio, total
from specdec_cli.evaluate.gap import Spent
from specdec_cli.evaluate.pairing import PairedClip, middle_of
from specdec_cli.evaluate.result import Figure, ModeFigures
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Cost, Mode

Columns = dict[str, Values]
"""One mode's measurements by name, [clips] each; of repeats the median, NaN where not measured."""


def cloud_ms(run: Transcript) -> float | None:
    """Time of the cloud's forwards, audio encoder included; 0 where it did nothing, None where it is not known."""
    return run.timing.forwards_cloud_ms if run.woken else 0.0


def _total(name: str) -> Callable[[Transcript], float | None]:
    return lambda run: getattr(run.totals, name, None)


def _edge_tokens(run: Transcript) -> float | None:
    share, tokens = _total("edge_token_share")(run), _total("tokens")(run)
    return None if share is None or tokens is None else share * tokens


_TOTALS: Final = ("tokens", "rounds", "escalations", "drafted", "accepted", "forwards_edge", "forwards_cloud")
_MEASURED: Final[dict[str, Callable[[Transcript], float | None]]] = {
    **{name: _total(name) for name in (*_TOTALS, "network_ms")},
    "edge_tokens": _edge_tokens,
    "total_ms": lambda run: run.timing.total_ms,
    "ttft_ms": lambda run: run.timing.ttft_ms,
    "woken": lambda run: float(run.woken),
    "cloud_ms": cloud_ms,
    "uplink": lambda run: run.uplink.bytes,
    "degraded": lambda run: float(run.degraded is not None),
}
"""What is measured of a transcript; a new figure begins with a line here."""


def measurements(clips: Sequence[PairedClip], modes: Sequence[Mode]) -> dict[Mode, Columns]:
    """What was measured of each mode."""
    return {
        mode: {
            name: np.array([middle_of(clip[mode], figure) for clip in clips], dtype=np.float64)
            for name, figure in _MEASURED.items()
        }
        for mode in modes
    }


def spent_shares(escalations: Values, rounds: Values, woken: Values, cloud_ms: Values, alone_ms: Values) -> Spent:
    """The three costs of n clips [n].

    Args:
        escalations, rounds: blocks that were escalated, and all of them.
        woken: 1 for clips that called the cloud, else 0.
        cloud_ms, alone_ms: time of the cloud's forwards, and what cloud-only takes of it.
    """
    return {"blocks": ratio(escalations, rounds), "clips": mean(woken), "time": ratio(cloud_ms, alone_ms)}


def spent(mode: Mode, table: Mapping[Mode, Columns]) -> Spent:
    """What a mode spent on each clip; its time is that of the cloud's recorded forwards."""
    own = table[mode]
    alone_ms = table["cloud"]["cloud_ms"] if "cloud" in table else np.full(len(own["cloud_ms"]), np.nan)
    return spent_shares(own["escalations"], own["rounds"], own["woken"], own["cloud_ms"], alone_ms)


def costs(table: Mapping[Mode, Columns], resampler: Resampler) -> list[ModeFigures]:
    """One entry a mode, of at least one clip."""
    return [_figures(mode, table, resampler) for mode in table]


def _figures(mode: Mode, table: Mapping[Mode, Columns], resampler: Resampler) -> ModeFigures:
    own = table[mode]

    def figure(statistic_of: Callable[[Columns], Statistic]) -> Figure:
        def against(other: Mode) -> Interval | None:
            if other == mode or other not in table:
                return None
            return resampler.interval(quotient(statistic_of(own), statistic_of(table[other])))

        value = resampler.value(statistic_of(own))
        return Figure(value=value, to_edge=against("edge"), to_cloud=against("cloud"))

    shares: dict[Cost, Interval | None] = {}
    if mode in ("hybrid", "lossless"):
        shares = {cost: resampler.interval(share) for cost, share in spent(mode, table).items()}
    network_ms = own["network_ms"]
    return ModeFigures(
        mode=mode,
        total_s=figure(lambda of: total(of["total_ms"] / 1e3)),
        ttft_ms=figure(lambda of: middle(of["ttft_ms"])),
        tokens_per_s=figure(lambda of: ratio(of["tokens"], of["total_ms"] / 1e3)),
        forwards_edge=figure(lambda of: total(of["forwards_edge"])),
        forwards_cloud=figure(lambda of: total(of["forwards_cloud"])),
        escalation_rate=shares.get("blocks"),
        clips_woken=shares.get("clips"),
        cloud_time=shares.get("time"),
        edge_token_share=resampler.interval(ratio(own["edge_tokens"], own["tokens"])),
        acceptance_rate=resampler.interval(ratio(own["accepted"], own["drafted"])),
        uplink_bytes=round(float(np.nansum(own["uplink"]))),
        network_s=round(float(np.nansum(network_ms)) / 1e3, 4) if np.isfinite(network_ms).any() else None,
        degraded=int((own["degraded"] > 0).sum()),
    )
