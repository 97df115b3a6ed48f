"""The totals, times and resources of a run's transcript, and the transcript of a failure."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specdec_cli.errors import SpecdecError
from specdec_cli.text import file_name
from specdec_cli.transcript.records import EncoderPasses, Timing, Totals, Transcript, TranscriptHead, Whole
from specdec_cli.transcript.round import Round
from specdec_cli.types import Finished


def totals(
    rounds: Sequence[Round], finished: Finished, *, cloud_takes_part: bool, sound_decides: bool = False
) -> Totals:
    """Sums over the rounds of one clip.

    Args:
        rounds, finished: of the clip.
        cloud_takes_part: in the mode, an edge drafts and a cloud verifies.
        sound_decides: the sound may ban tokens.
    """
    escalated = [each for each in rounds if each.escalated]
    sources = Counter(source for each in rounds for source in each.source)
    drafted = sum(len(each.draft_ids) for each in escalated)
    accepted = sum(each.accepted for each in escalated)
    edge, cloud = finished.edge, finished.cloud
    return Totals(
        tokens=len(finished.token_ids),
        rounds=len(rounds),
        escalations=len(escalated),
        drafted=drafted,
        accepted=accepted,
        corrected=sources["corrected"],
        bonus=sources["bonus"],
        acceptance_rate=_ratio(accepted, drafted),
        escalation_rate=_ratio(len(escalated), len(rounds)) if cloud_takes_part else None,
        edge_token_share=_ratio(sources["edge"] + sources["accepted"], sources.total()),
        network_ms=sum_of_known(each.network_ms for each in rounds),
        near_ties=sum_of_known(each.near_ties for each in rounds),
        guessed=sum(work.guessed for work in (edge, cloud) if work),
        guesses_kept=sum(work.guesses_kept for work in (edge, cloud) if work),
        forwards_edge=edge.forwards if edge else None,
        forwards_cloud=cloud.forwards if cloud else None,
        encoder_passes=EncoderPasses(
            edge=edge.encoder_passes if edge else None, cloud=cloud.encoder_passes if cloud else None
        ),
        sound=sum(len(each.sound) for each in rounds) if sound_decides else None,
    )


def timing(finished: Finished, *, load_s: float | None, audio_s: float | None) -> Timing:
    """Times of one clip; see `Timing` for units and definitions."""
    edge, cloud = (work if work and work.forwards else None for work in (finished.edge, finished.cloud))
    read = [work for work in (edge, cloud) if work and work.reading_ms]  # a vLLM server reports no times
    reading_s = sum(work.reading_ms for work in read) / 1e3
    return Timing(
        load_s=load_s,
        audio_s=audio_s,
        prefill_edge_ms=edge.reading_ms if edge else None,
        prefill_cloud_ms=cloud.reading_ms or None if cloud else None,
        forwards_edge_ms=edge.total_ms if edge else None,
        forwards_cloud_ms=cloud.total_ms if cloud else None,
        ttft_ms=finished.ttft_ms,
        total_ms=finished.total_ms,
        tokens_per_s=_ratio(len(finished.token_ids), finished.total_ms / 1e3),
        input_tokens_per_s=_ratio(sum(work.prompt_tokens for work in read), reading_s),
    )


def whole_of(pieces: Sequence[TranscriptHead]) -> Whole | None:
    """The recording of several pieces as a whole; None for one piece, and if none is described."""
    described = [(piece, piece.duration_s or 0.0) for piece in pieces if piece.good and piece.has_speech]
    total_s = sum(length_s for _, length_s in described)
    if len(pieces) < 2 or not total_s:
        return None
    speakers = defaultdict[str, float](float)  # seconds
    classes = defaultdict[str, defaultdict[str, float]](lambda: defaultdict(float))
    for piece, length_s in described:
        if piece.speaker is not None:
            speakers[piece.speaker] += length_s
        for attribute, class_ in (piece.labels or {}).items():
            if class_ is not None:
                classes[attribute][class_] += length_s

    def shares(lengths_s: Mapping[str, float]) -> dict[str, float]:
        ordered = sorted(lengths_s.items(), key=lambda named: -named[1])
        return {name: round(length_s / total_s, 3) for name, length_s in ordered}

    named = {attribute: shares(lengths_s) for attribute, lengths_s in classes.items()}
    return Whole(pieces=len(described), seconds=round(total_s, 3), speakers=shares(speakers), classes=named)


def error_transcript(file: str, error: SpecdecError, **known: Any) -> Transcript:
    """The transcript of a clip that could not be captioned; `known` are its other fields, by their names."""
    nothing = dict.fromkeys(("sha256", "duration_s", "caption", "finish_reason", "totals"))
    return Transcript.model_validate(
        {
            **nothing,
            "file": file_name(file),
            "error": {"type": type(error).__name__, "message": error.message},
            "rounds": [],
            "timing": dict.fromkeys(Timing.model_fields),
            "resources": {"cpu_percent": None, "peak_rss_mb": None},
            "uplink": {"payload": "none", "bytes": 0},
            **known,
        }
    )


def peak_rss_mb() -> float | None:
    """Largest resident memory of this process so far, MiB; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def gpu_mb() -> float | None:
    """Largest GPU memory that PyTorch has allocated so far, summed over all GPUs, MiB; None without a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return round(float(sum(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())))) / 2**20, 1)


def sum_of_known(values: Iterable[float | None]) -> Any:
    """The sum of the measured values; None if there is none."""
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
