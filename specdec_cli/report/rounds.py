"""What became of every token of a run, round by round, as the page draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from specdec_cli.transcript.schema import RoundRecord, Transcript

_BELOW_IS_UNSURE: Final = frozenset({"margin", "logprob", "random"})
_UNITS: Final = {"entropy": "nats", "logprob": "nats"}


def run_view(transcript: Transcript) -> dict[str, Any]:
    """One run: its rounds, its gate and its times, as plain values.

    Times are milliseconds, entropies nats; what was not measured is None.
    """
    timing, totals = transcript.timing, transcript.totals
    return {
        "gate": _gate(transcript.settings),
        "early": transcript.settings.get("cloud_prefill") == "early",
        "finish": transcript.finish_reason,
        "total": timing.total_ms,
        "ttft": timing.ttft_ms,
        "prefill": {"edge": timing.prefill_edge_ms, "cloud": timing.prefill_cloud_ms},
        "escalation": totals.escalation_rate if totals else None,
        "edge_share": totals.edge_token_share if totals else None,
        "rounds": [_round(record) for record in transcript.rounds],
    }


def _round(record: RoundRecord) -> dict[str, Any]:
    return {
        "tokens": [list(token) for token in tokens(record)],
        "text": record.committed_text if record.committed_pieces is None else None,
        "escalated": record.escalated,
        "reason": record.reason,
        "drafted": len(record.draft_ids),
        "committed": len(record.committed_ids),
        "accepted": record.accepted,
        "max": record.max_entropy,
        "draft": record.draft_ms,
        "verify": record.verify_ms,
        "network": record.network_ms,
    }


def tokens(record: RoundRecord) -> Iterator[tuple[str, str, float | None, float | None]]:
    """Text, fate, entropy and gate's figure of each token, in the order of the text.

    Fates are the sources of committed tokens, and two more: `rejected`, the cloud put its own token there, and `cut`,
    a stop rule ended the text before it. Rejected tokens stand before the one that replaced them. A correction and a
    bonus were not drafted, so they have no figures. Nothing comes of a transcript without the text of single tokens.
    """
    if record.committed_pieces is None or record.draft_pieces is None:
        return
    committed = list(zip(record.committed_pieces, record.source, strict=True))
    drafted = len(record.draft_pieces)
    kept = min(len(committed), record.accepted)
    for index, (piece, source) in enumerate(committed[:kept]):
        yield piece, source, _at(record.entropy, index), _at(record.score, index)
    tail = "rejected" if "corrected" in record.source else "cut"
    for index in range(kept, drafted):
        yield record.draft_pieces[index], tail, _at(record.entropy, index), _at(record.score, index)
    for piece, source in committed[kept:]:
        yield piece, source, None, None


def _at(figures: list[float], index: int) -> float | None:
    return figures[index] if index < len(figures) else None


def _gate(settings: Mapping[str, object]) -> dict[str, Any]:
    """Name of the gate, its threshold and unit, and whether figures below it are the unsure ones."""
    name = settings.get("gate")
    return {
        "name": name,
        "threshold": settings.get("threshold"),
        "below": name in _BELOW_IS_UNSURE,
        "unit": _UNITS.get(str(name)),
    }
