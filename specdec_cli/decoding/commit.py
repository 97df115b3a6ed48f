"""What a block adds to the text, and the record of its round. Importing this loads no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.block import Draft
from specdec_cli.types import Alternatives, Decider, Round, Source

_BOUNDS_DIFFER: Final = 0.01  # nats, from which on both bounds of an entropy are reported


def outcome(
    draft: Draft, verdict: Verdict | None, by: Decider, top_n: int
) -> tuple[Sequence[int], list[Source], Sequence[Alternatives]]:
    """The tokens that a round adds before stop rules, where each comes from, and the likeliest at its place.

    `by` is the drafting model; of each token `top_n` likeliest are kept.
    """
    # a cloud elsewhere may name none: at drafted positions, those of the edge stand in
    cloud_top: list[Alternatives] = [] if verdict is None else [("cloud", row) for row in verdict.likeliest or ()]
    edge_top = () if cloud_top else draft.top(top_n)
    if verdict is None:
        return draft.ids, [by] * len(draft.ids), [(by, row) for row in edge_top]
    accepted = verdict.accepted
    own: Source = "cloud" if not draft.ids else "bonus" if accepted == len(draft.ids) else "corrected"
    sources: list[Source] = ["accepted"] * accepted
    sources.append(own)
    sources.extend("cloud" for _ in verdict.more)
    known = cloud_top or [("edge", row) for row in edge_top[: accepted + 1]]
    unknown: Alternatives = ("cloud", ())
    ids = (*draft.ids[:accepted], verdict.token, *verdict.more)
    return ids, sources, [*known, *[unknown] * (len(ids) - len(known))]


def round_of(
    index: int,
    draft: Draft,
    verdict: Verdict | None,
    *,
    committed_ids: tuple[int, ...],
    source: tuple[Source, ...],
    alternatives: tuple[Alternatives, ...],
    hidden_ms: float | None,
    thrown_away: int,
) -> Round:
    """The record of a round whose draft was kept (`verdict` None) or verified."""
    _, entropy, margin, logprob, candidates, _, least = (
        zip(*draft.evidence, strict=True) if draft.evidence else ((),) * 7
    )
    found = verdict or Verdict(len(draft.ids), token=-1)  # without one, all is kept
    bounded = any(low is not None and high - low > _BOUNDS_DIFFER for low, high in zip(least, entropy, strict=True))
    return Round(
        index=index,
        draft_ids=draft.ids,
        entropy=entropy,
        max_entropy=max(entropy, default=None),
        least_entropy=least if bounded else None,
        gate_values=draft.gate_values,
        gate_value=draft.gate_value,
        margin=margin,
        logprob=logprob,
        candidates=candidates,
        escalated=verdict is not None and draft.reason is not None,
        reason=None if verdict is None else draft.reason,
        accepted=found.accepted,
        committed_ids=committed_ids,
        source=source,
        draft_ms=draft.ms,
        verify_ms=None if verdict is None else verdict.ms,
        network_ms=found.network_ms,
        hidden_ms=hidden_ms,
        thrown_away=thrown_away,
        near_ties=found.near_ties,
        bytes_up=found.bytes_up,
        bytes_down=found.bytes_down,
        alternatives=alternatives,
        waking=draft.waking,
    )
