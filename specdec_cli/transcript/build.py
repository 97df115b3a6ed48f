"""From a run's events to its transcript."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.errors import SpecdecError
from specdec_cli.transcript.schema import (
    EncoderPasses,
    ErrorInfo,
    Models,
    Resources,
    RoundRecord,
    Timing,
    Totals,
    Transcript,
    Uplink,
)
from specdec_cli.types import EventText, Finished, Mode, ModelWork, Round

_DRAFTED_BY_EDGE = ("edge", "accepted")
_DIGITS = 4  # decimals kept of times and entropies


def round_record(event: Round, draft_text: str, committed_text: str, pieces: EventText) -> RoundRecord:
    """One round as the transcript keeps it; `pieces` has the text of its tokens one by one."""
    return RoundRecord(
        index=event.index,
        draft_ids=list(event.draft_ids),
        draft_text=draft_text,
        entropy=_rounded(event.entropy),
        max_entropy=_round(event.max_entropy),
        score=_rounded(event.score),
        margin=_rounded(event.margin) or None,
        logprob=_rounded(event.logprob) or None,
        candidates=[[(id_, round(p, _DIGITS)) for id_, p in token] for token in event.candidates] or None,
        escalated=event.escalated,
        reason=event.reason,
        accepted=event.accepted,
        committed_ids=list(event.committed_ids),
        committed_text=committed_text,
        source=list(event.source),
        draft_pieces=list(pieces.draft_pieces),
        committed_pieces=list(pieces.committed_pieces),
        draft_ms=round(event.draft_ms, _DIGITS),
        verify_ms=_round(event.verify_ms),
        network_ms=_round(event.network_ms),
        hidden_ms=_round(event.hidden_ms),
        bytes_up=event.bytes_up,
        bytes_down=event.bytes_down,
        near_ties=event.near_ties,
    )


def totals(rounds: Sequence[Round], finished: Finished, *, cloud_takes_part: bool) -> Totals:
    """Sums over the rounds of one clip.

    Args:
        rounds: all of them.
        finished: the end of the run.
        cloud_takes_part: whether the mode lets an edge ask a cloud.
    """
    escalated = [event for event in rounds if event.escalated]
    sources = [source for event in rounds for source in event.source]
    drafted = sum(len(event.draft_ids) for event in escalated)
    accepted = sum(event.accepted for event in escalated)
    edge, cloud = finished.edge, finished.cloud
    hidden_ms = _sum([event.hidden_ms for event in rounds])
    return Totals(
        tokens=len(finished.token_ids),
        rounds=len(rounds),
        escalations=len(escalated),
        drafted=drafted,
        accepted=accepted,
        corrected=sources.count("corrected"),
        bonus=sources.count("bonus"),
        acceptance_rate=_ratio(accepted, drafted),
        escalation_rate=_ratio(len(escalated), len(rounds)) if cloud_takes_part else None,
        edge_token_share=_ratio(sum(source in _DRAFTED_BY_EDGE for source in sources), len(sources)),
        run_on=sources.count("cloud") if cloud_takes_part else None,
        network_ms=_sum([event.network_ms for event in rounds]),
        hidden_ms=hidden_ms,
        thrown_away=None if hidden_ms is None else sum(event.thrown_away for event in rounds),
        near_ties=_whole([event.near_ties for event in rounds]),
        forwards_edge=edge.forwards if edge else None,
        forwards_cloud=cloud.forwards if cloud else None,
        encoder_passes=EncoderPasses(
            edge=edge.encoder_passes if edge else None, cloud=cloud.encoder_passes if cloud else None
        ),
    )


def timing(finished: Finished, *, load_s: float | None, audio_s: float | None) -> Timing:
    """Times of one clip; see `Timing` for units and definitions."""
    edge, cloud = finished.edge, finished.cloud
    read = [work for work in (edge, cloud) if work is not None and _prefill_ms(work) > 0]  # a vLLM does not say
    prefill_s = sum(_prefill_ms(work) for work in read) / 1e3
    return Timing(
        load_s=_round(load_s),
        audio_s=_round(audio_s),
        prefill_edge_ms=_round(_prefill_ms(edge)) if edge and edge.forwards else None,
        prefill_cloud_ms=_round(_prefill_ms(cloud) or None) if cloud and cloud.forwards else None,
        forwards_edge_ms=_round(edge.total_ms) if edge and edge.forwards else None,
        forwards_cloud_ms=_round(cloud.total_ms) if cloud and cloud.forwards else None,
        ttft_ms=_round(finished.ttft_ms),
        total_ms=_round(finished.total_ms),
        tokens_per_s=_round(_ratio(len(finished.token_ids), finished.total_ms / 1e3)),
        input_tokens_per_s=_round(_ratio(sum(work.prompt_tokens for work in read), prefill_s)),
    )


def error_transcript(
    file: str,
    error: SpecdecError,
    *,
    language: str,
    prompt: str,
    mode: Mode,
    models: Models,
    settings: dict[str, object],
    sha256: str | None = None,
    duration_s: float | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
) -> Transcript:
    """The line of a clip that could not be captioned."""
    return Transcript.model_validate(
        {
            "file": file,
            "sha256": sha256,
            "duration_s": duration_s,
            "start_s": start_s,
            "end_s": end_s,
            "language": language,
            "prompt": prompt,
            "mode": mode,
            "caption": None,
            "finish_reason": None,
            "error": ErrorInfo(type=type(error).__name__, message=error.message),
            "models": models,
            "settings": settings,
            "rounds": [],
            "totals": None,
            "timing": Timing.model_validate(dict.fromkeys(Timing.model_fields)),
            "resources": Resources(cpu_percent=None, peak_rss_mb=None),
            "uplink": Uplink(payload="none", bytes=0),
        }
    )


def _prefill_ms(work: ModelWork) -> float:
    return work.encoder_ms + work.prefill_ms


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of what was measured; None if nothing was."""
    measured = [value for value in values if value is not None]
    return round(sum(measured), _DIGITS) if measured else None


def _whole(values: Sequence[int | None]) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, _DIGITS) for value in values]
