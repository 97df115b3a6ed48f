"""What each mode cost: sums over clips, and their ratios to edge-only and cloud-only with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.compare.pairing import PairedClip, Pairing
from specdec_cli.compare.result import Figure, ModeFigures, Process, Spread
from specdec_cli.metrics.bootstrap import Resampler, Statistic, Values, middle, quotient, ratio, total
from specdec_cli.transcript.schema import Totals, Transcript
from specdec_cli.types import Mode

_ASKING: tuple[Mode, ...] = ("hybrid", "lossless")


def costs(pairing: Pairing, resampler: Resampler) -> list[ModeFigures]:
    """One entry a mode; `pairing` holds at least one clip."""
    table = {mode: _Columns.of(pairing.clips, mode) for mode in pairing.modes}
    return [_figures(mode, table, resampler) for mode in pairing.modes]


def process(transcripts: Sequence[Transcript]) -> Process:
    """The largest figures that any process which made `transcripts` reported."""
    resources = [transcript.resources for transcript in transcripts]
    return Process(
        peak_rss_mb=_largest([part.peak_rss_mb for part in resources]),
        gpu_mb=_largest([part.gpu_mb for part in resources]),
        load_s=_largest([transcript.timing.load_s for transcript in transcripts]),
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """One mode's figures, [clips] each; NaN where not measured."""

    total_ms: Values
    ttft_ms: Values
    tokens: Values
    rounds: Values
    escalations: Values
    drafted: Values
    accepted: Values
    edge_tokens: Values
    forwards_edge: Values
    forwards_cloud: Values
    prompt_tokens: Values
    prefill_ms: Values
    cpu_ms: Values
    uplink: Values
    network_ms: Values
    hidden_ms: Values
    flight_ms: Values
    degraded: Values
    near_ties: Values

    @classmethod
    def of(cls, clips: Sequence[PairedClip], mode: Mode) -> _Columns:
        def each(figure: Callable[[Transcript], float | None]) -> Values:
            return np.array([clip.middle(mode, figure) for clip in clips], dtype=np.float64)

        def count(figure: Callable[[Totals], float | None]) -> Values:
            return each(lambda run: figure(run.totals) if run.totals else None)

        return cls(
            total_ms=each(lambda run: run.timing.total_ms),
            ttft_ms=each(lambda run: run.timing.ttft_ms),
            tokens=count(lambda totals: totals.tokens),
            rounds=count(lambda totals: totals.rounds),
            escalations=count(lambda totals: totals.escalations),
            drafted=count(lambda totals: totals.drafted),
            accepted=count(lambda totals: totals.accepted),
            edge_tokens=count(lambda totals: _product(totals.edge_token_share, totals.tokens)),
            forwards_edge=count(lambda totals: totals.forwards_edge),
            forwards_cloud=count(lambda totals: totals.forwards_cloud),
            prompt_tokens=each(lambda run: _product(run.timing.input_tokens_per_s, _prefill_ms(run), 1e-3)),
            prefill_ms=each(_prefill_ms),
            cpu_ms=each(lambda run: _product(run.resources.cpu_percent, run.timing.total_ms, 1e-2)),
            uplink=each(lambda run: run.uplink.bytes),
            hidden_ms=count(lambda totals: totals.hidden_ms),
            flight_ms=each(_flight_ms),
            network_ms=each(_network_ms),
            degraded=each(lambda run: float(run.degraded is not None)),
            near_ties=count(lambda totals: totals.near_ties),
        )


def _figures(mode: Mode, table: dict[Mode, _Columns], resampler: Resampler) -> ModeFigures:
    own = table[mode]
    asks = mode in _ASKING

    def figure(statistic_of: Callable[[_Columns], Statistic]) -> Figure:
        return _figure(mode, {name: statistic_of(columns) for name, columns in table.items()}, resampler)

    def share(part: Values, whole: Values) -> Spread | None:
        return resampler.interval(ratio(part, whole))

    return ModeFigures(
        mode=mode,
        total_s=figure(lambda columns: total(columns.total_ms / 1e3)),
        ttft_ms=figure(lambda columns: middle(columns.ttft_ms)),
        tokens_per_s=figure(lambda columns: ratio(columns.tokens, columns.total_ms / 1e3)),
        input_tokens_per_s=figure(lambda columns: ratio(columns.prompt_tokens, columns.prefill_ms / 1e3)),
        tokens=figure(lambda columns: total(columns.tokens)),
        forwards_edge=figure(lambda columns: total(columns.forwards_edge)),
        forwards_cloud=figure(lambda columns: total(columns.forwards_cloud)),
        cloud_calls=None if mode == "cloud" else _whole(own.escalations),
        clips_asked=None if mode == "cloud" else int((own.escalations > 0).sum()),
        rounds=_whole(own.rounds),
        escalation_rate=share(own.escalations, own.rounds) if asks else None,
        edge_token_share=share(own.edge_tokens, own.tokens),
        acceptance_rate=share(own.accepted, own.drafted),
        uplink_bytes=_whole(own.uplink),
        network_s=None if np.isnan(own.network_ms).all() else round(float(np.nansum(own.network_ms)) / 1e3, 4),
        hidden_share=share(np.nan_to_num(own.hidden_ms), np.nan_to_num(own.flight_ms))
        if np.isfinite(own.hidden_ms).any()
        else None,
        degraded=int((own.degraded > 0).sum()),
        near_ties=None if np.isnan(own.near_ties).all() else _whole(own.near_ties),
        cpu_s=figure(lambda columns: total(columns.cpu_ms / 1e3)),
        cpu_percent=resampler.value(ratio(100 * own.cpu_ms, own.total_ms)),
    )


def _figure(mode: Mode, statistics: dict[Mode, Statistic], resampler: Resampler) -> Figure:
    own = statistics[mode]

    def against(other: Mode) -> Spread | None:
        if other == mode or other not in statistics:
            return None
        return resampler.interval(quotient(own, statistics[other]))

    return Figure(value=resampler.value(own), to_edge=against("edge"), to_cloud=against("cloud"))


def _product(*factors: float | None) -> float | None:
    product = 1.0
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product


def _prefill_ms(run: Transcript) -> float | None:
    parts = [part for part in (run.timing.prefill_edge_ms, run.timing.prefill_cloud_ms) if part is not None]
    return sum(parts) if parts else None


def _network_ms(run: Transcript) -> float | None:
    """Time on the link, None where no round used one."""
    parts = [round_.network_ms for round_ in run.rounds if round_.network_ms is not None]
    return sum(parts) if parts else None


def _flight_ms(run: Transcript) -> float | None:
    """Time that blocks were on their way or at the cloud, its prefill included, milliseconds."""
    network_ms = _network_ms(run)
    return None if network_ms is None else network_ms + (run.timing.forwards_cloud_ms or 0.0)


def _whole(values: Values) -> int:
    return round(float(np.nansum(values)))


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
