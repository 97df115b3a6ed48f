"""The record of one block: its draft, the gate's figures, the cloud's verdict, and the committed tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from specdec_cli.transcript.earlier import round_fields
from specdec_cli.types import Reason, Source

if TYPE_CHECKING:
    from specdec_cli.decoding.block import Block
    from specdec_cli.models.processor import Processor

_BOUNDS_DIFFER: Final = 0.01  # nats, from which on both bounds of an entropy are reported


class Record(BaseModel):
    """A part of a transcript."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _rounded(value: float) -> float:
    return round(value, 4)


Figure = Annotated[float, AfterValidator(_rounded)]
"""A measured figure; transcripts keep four decimals."""

_T = TypeVar("_T")
_Known = Annotated[tuple[_T, ...], BeforeValidator(lambda figures: figures or ())]  # null in older transcripts


class Round(Record):
    """One block: drafted, then kept or escalated, then committed."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    _earlier = model_validator(mode="before")(round_fields)

    index: Annotated[int, Field(ge=0)]
    """0-based number of the round"""
    draft_ids: tuple[int, ...]
    """drafted token ids; none if the cloud generates without a draft"""
    entropy: tuple[Figure, ...]
    """of the drafting model at each drafted token, nats"""
    gate_values: tuple[Figure, ...]
    """the gate's own figure per drafted token, in its unit"""
    escalated: bool
    """whether a gate, a repetition or a refusal sent the block to the cloud"""
    reason: Reason | None
    """why the cloud got the block; null if it did not, or only because no edge can write it"""
    accepted: Annotated[int, Field(ge=0)]
    """leading drafted tokens that were kept, before stop rules"""
    committed_ids: tuple[int, ...]
    """token ids that the round added, stop rules applied, correction or bonus included"""
    source: tuple[Source, ...]
    """origin of each committed token"""
    draft_ms: Figure
    """time drafting, ms, prefill left out"""
    verify_ms: Figure | None
    """time of the cloud's pass and the rule, ms, prefill left out; null: the cloud was not called"""
    gate_value: Figure | None = None
    """the block's, which is compared with the threshold; null: nothing was drafted"""
    max_entropy: Figure | None = None
    """largest of `entropy`, nats; null: nothing was drafted"""
    network_ms: Figure | None = None
    """time on the network, ms; null for a loaded cloud"""
    least_entropy: tuple[Figure, ...] | None = None
    """lower bounds, if a remote edge lists only its most likely tokens (`entropy`: upper bounds); else null"""
    margin: _Known[Figure] = ()
    """p(most likely) - p(second) at each drafted token"""
    logprob: _Known[Figure] = ()
    """of each drafted token, nats"""
    candidates: _Known[tuple[tuple[int, Figure], ...]] = ()
    """most likely tokens at each drafted one: [id, probability]"""
    near_ties: int | None = None
    """positions whose two best scores the cloud's number format cannot distinguish"""
    bytes_up: int | None = None
    """sent for this round, repeats included; null for a loaded cloud"""
    bytes_down: int | None = None
    """received for it; null for a loaded cloud"""
    sound: tuple[tuple[int, int, str], ...] = ()
    """[place, id, text]: a committed token, and the likeliest one in its place, which the sound banned"""
    waking: bool = False
    """whether the gate decided by the wake threshold, on the first call"""
    draft_text: str = ""
    """text of the draft, special tokens left out; half a character is U+FFFD"""
    committed_text: str = ""
    """text added, without special tokens; half a character comes with its rest"""
    draft_pieces: _Known[str] = ()
    """text of each drafted token; bytes of an incomplete character are U+FFFD"""
    committed_pieces: _Known[str] = ()
    """text of each committed token, likewise"""

    @classmethod
    def of(cls, block: Block, writer: Processor, committed_text: str) -> Self:
        """The record of a block. `committed_text` is the text that it adds; `writer` turns ids into text."""
        draft, verdict, evidence, state = block.draft, block.verdict, block.draft.evidence, block.draft.gate_state
        least = [token.entropy if token.least_entropy is None else token.least_entropy for token in evidence]
        bounded = any(token.entropy - low > _BOUNDS_DIFFER for token, low in zip(evidence, least, strict=True))
        return cls(
            index=block.index,
            draft_ids=draft.ids,
            entropy=tuple(token.entropy for token in evidence),
            gate_values=() if state is None else tuple(state.values),
            escalated=block.escalated,
            reason=block.reason,
            accepted=block.accepted,
            committed_ids=block.committed_ids,
            source=block.source,
            draft_ms=draft.ms,
            verify_ms=None if verdict is None else verdict.ms,
            gate_value=None if state is None else state.block_value,
            max_entropy=max((token.entropy for token in evidence), default=None),
            network_ms=None if verdict is None else verdict.network_ms,
            least_entropy=tuple(least) if bounded else None,
            margin=tuple(token.margin for token in evidence),
            logprob=tuple(token.logprob for token in evidence),
            candidates=tuple(token.candidates for token in evidence),
            near_ties=None if verdict is None else verdict.near_ties,
            bytes_up=None if verdict is None else verdict.bytes_up,
            bytes_down=None if verdict is None else verdict.bytes_down,
            sound=tuple(
                (at, token.instead, writer.token_text(token.instead))
                for at, token in enumerate(block.tokens)
                if token.instead is not None
            ),
            waking=state is not None and state.waking,
            draft_text=writer.text(draft.ids),
            committed_text=committed_text,
            draft_pieces=tuple(map(writer.token_text, draft.ids)),
            committed_pieces=tuple(map(writer.token_text, block.committed_ids)),
        )
