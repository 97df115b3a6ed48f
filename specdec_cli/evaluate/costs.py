"""What each mode costs: sums over clips, ratios to edge-only and cloud-only, and shares of the three costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from specdec_cli.evaluate.gap import Spent
from specdec_cli.evaluate.pairing import PairedClip
from specdec_cli.evaluate.result import Figure, ModeFigures
from specdec_cli.stats import Resampler, Statistic, Values, mean, middle, quotient, ratio, total
from specdec_cli.transcript.records import Totals, Transcript
from specdec_cli.types import Interval, Mode

Columns = dict[str, Values]
"""One mode's measurements by name, [clips] each, NaN where not measured."""

_COMPARED: Final[dict[str, Callable[[Columns], Statistic]]] = {
    "total_s": lambda of: total(of["total_ms"] / 1e3),
    "ttft_ms": lambda of: middle(of["ttft_ms"]),
    "tokens_per_s": lambda of: ratio(of["tokens"], of["total_ms"] / 1e3),
    "forwards_edge": lambda of: total(of["forwards_edge"]),
    "forwards_cloud": lambda of: total(of["forwards_cloud"]),
}
"""Field of `ModeFigures` that has ratios to the baselines -> its statistic."""


def cloud_ms(run: Transcript) -> float | None:
    """Time of the cloud's forwards, audio encoder included, ms; 0 if it was not called, None if it is not known."""
    return run.timing.forwards_cloud_ms if run.woken else 0.0


def _measured(run: Transcript) -> dict[str, float | None]:
    """The measured figures of a transcript by name; None: not known."""
    totals = {name: getattr(run.totals, name, None) for name in Totals.model_fields if name != "encoder_passes"}
    share = totals["edge_token_share"]
    return {
        **totals,
        "edge_tokens": None if share is None else share * totals["tokens"],
        "total_ms": run.timing.total_ms,
        "ttft_ms": run.timing.ttft_ms,
        "woken": float(run.woken),
        "cloud_ms": cloud_ms(run),
        "uplink": run.uplink.bytes,
        "degraded": float(run.degraded is not None),
    }


def measurements(clips: Sequence[PairedClip], modes: Sequence[Mode]) -> dict[Mode, Columns]:
    """Mode -> its measured figures; empty without clips."""
    table: dict[Mode, Columns] = {}
    for mode in modes if clips else ():
        rows = [_measured(clip[mode]) for clip in clips]
        table[mode] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    return table


def spent_shares(escalations: Values, rounds: Values, woken: Values, cloud_ms: Values, alone_ms: Values) -> Spent:
    """The shares of the three costs that n clips spend.

    Args:
        escalations, rounds: blocks that were escalated, and all of them.
        woken: 1 for clips that called the cloud, else 0.
        cloud_ms, alone_ms: time of the cloud's forwards, and what cloud-only takes of it.
    """
    return {"blocks": ratio(escalations, rounds), "clips": mean(woken), "time": ratio(cloud_ms, alone_ms)}


def spent(mode: Mode, table: Mapping[Mode, Columns]) -> Spent:
    """The shares of the three costs that a mode spends; its time is that of the cloud's forwards."""
    own = table[mode]
    alone_ms = table["cloud"]["cloud_ms"] if "cloud" in table else np.full(len(own["cloud_ms"]), np.nan)
    return spent_shares(own["escalations"], own["rounds"], own["woken"], own["cloud_ms"], alone_ms)


def costs(mode: Mode, table: Mapping[Mode, Columns], resampler: Resampler) -> ModeFigures:
    """What a mode costs over at least one clip."""
    own = table[mode]

    def against(other: Mode, statistic_of: Callable[[Columns], Statistic]) -> Interval | None:
        if other == mode or other not in table:
            return None
        return resampler.interval(quotient(statistic_of(own), statistic_of(table[other])))

    compared = {
        name: Figure(value=resampler.value(of(own)), to_edge=against("edge", of), to_cloud=against("cloud", of))
        for name, of in _COMPARED.items()
    }
    statistics = spent(mode, table) if mode in ("hybrid", "lossless") else {}
    shares = {cost: resampler.interval(share) for cost, share in statistics.items()}
    network_ms = own["network_ms"]
    return ModeFigures(
        mode=mode,
        **compared,
        escalation_rate=shares.get("blocks"),
        clips_woken=shares.get("clips"),
        cloud_time=shares.get("time"),
        edge_token_share=resampler.interval(ratio(own["edge_tokens"], own["tokens"])) if statistics else None,
        acceptance_rate=resampler.interval(ratio(own["accepted"], own["drafted"])),
        uplink_bytes=round(float(np.nansum(own["uplink"]))),
        network_s=round(float(np.nansum(network_ms)) / 1e3, 4) if np.isfinite(network_ms).any() else None,
        degraded=int((own["degraded"] > 0).sum()),
    )
