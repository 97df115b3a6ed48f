"""A block on its way through the loop: the draft, the verdict on it, and what it adds to the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import ClassVar, Protocol

import torch

from specdec_cli.decoding.gate import GateState
from specdec_cli.decoding.rows import TokenEvidence
from specdec_cli.types import (
    Alternatives,
    Candidates,
    Decider,
    Finished,
    ModelWork,
    Prefill,
    Reason,
    Sent,
    Source,
    Token,
)

Enough = Callable[[GateState], bool]
"""Whether a block ends with the token that was added to the gate's state last."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens."""

    ids: tuple[int, ...] = ()  # none: the cloud generates without a draft
    scores: tuple[torch.Tensor, ...] | None = None  # parts of [m, vocab] by which they were drawn; None: greedy
    gate_state: GateState | None = None  # with the evidence on them; None: the block went through no gate
    reason: Reason | None = None  # why the block should be verified; None: it need not be
    ms: float = 0.0  # drafting, without prefill
    likeliest: tuple[Candidates, ...] = ()  # at each drafted token, if they are to be named
    instead: tuple[int | None, ...] = ()  # at each: the most likely token, if the sound banned it

    @property
    def evidence(self) -> Sequence[TokenEvidence]:
        """The evidence on the tokens."""
        return () if self.gate_state is None else self.gate_state.evidence

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        assert self.scores is not None
        return torch.cat(self.scores).softmax(dim=-1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cloud's decision on a block. The network's figures are None for a loaded cloud."""

    accepted: int  # leading drafted tokens that are accepted
    token: int  # the cloud's own token after them: the correction, or the bonus if all were accepted
    run_on: tuple[int, ...] = ()  # tokens that the cloud generated after `token`
    near_ties: int | None = None  # see `Round`; None: unknown
    ms: float = 0.0  # the cloud's time, without its prefill and the network
    prefilled: bool = False  # whether this call also ran the cloud's encoder and prefill, whose time is not in `ms`
    network_ms: float | None = None
    bytes_up: int | None = None  # bodies of requests and answers as sent, repeats included
    bytes_down: int | None = None
    likeliest: tuple[Candidates, ...] | None = None  # at each accepted token, at `token`, and at each of `run_on`
    instead: tuple[int | None, ...] = ()  # at each of these: the most likely token, if the sound banned it


@dataclass(frozen=True, slots=True)
class Block:
    """A block that the loop has committed."""

    index: int  # 0-based
    draft: Draft  # without its scores
    verdict: Verdict | None  # None: the draft was kept without one
    tokens: tuple[Token, ...]  # added to the text, stop rules applied; at least one

    @property
    def draft_ids(self) -> tuple[int, ...]:
        """The drafted token ids."""
        return self.draft.ids

    @property
    def committed_ids(self) -> tuple[int, ...]:
        """The token ids that the block adds to the text."""
        return tuple(token.id for token in self.tokens)

    @property
    def source(self) -> tuple[Source, ...]:
        """Where each added token comes from."""
        return tuple(token.source for token in self.tokens)

    @property
    def escalated(self) -> bool:
        """Whether a gate, a repetition or a refusal sent the block to the cloud.

        Text that the cloud writes because the edge failed is no escalation.
        """
        return self.verdict is not None and self.draft.reason is not None

    @property
    def reason(self) -> Reason | None:
        """Why the cloud verified the block; None if it did not."""
        return None if self.verdict is None else self.draft.reason

    @property
    def accepted(self) -> int:
        """Leading drafted tokens that were kept, before stop rules."""
        return len(self.draft.ids) if self.verdict is None else self.verdict.accepted


class Drafter(Protocol):
    """Proposes the blocks of one clip, with a model here or at a server."""

    is_remote: ClassVar[bool]

    @property
    def work(self) -> ModelWork:
        """What the model has done for the clip so far."""

    def propose(
        self, text_ids: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """At most `k` tokens after a text; fewer if one ends it, the gate stops drafting, or `enough` is true.

        `top_k`: sample from so many most likely tokens, to leave a repetition. Raises EdgeError if a server fails.
        """

    def close(self) -> None:
        """Ends the running call."""


class Verifier(Protocol):
    """Verifies the blocks of one clip, with a model here or at a server. Raises CloudError if a server fails."""

    is_remote: ClassVar[bool]

    @property
    def work(self) -> ModelWork:
        """What the model has done for the clip so far."""

    def verify(self, text_ids: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The verdict on `draft` after `text_ids`: all its positions are scored at once, then the rule decides.

        After its own token the cloud generates at most `run_on` more, in `Verdict.run_on`. Without drafted tokens it
        only generates. Two calls with the same arguments return the same verdict but for times.
        """

    def prefill(self) -> None:
        """Encodes the clip and the prompt before a block needs them."""

    def close(self) -> None:
        """Ends the running call."""


Event = Prefill | Sent | Block | Finished
"""What happens while a clip is decoded."""


def tokens_of(draft: Draft, verdict: Verdict | None, by: Decider, top_n: int) -> list[Token]:
    """The tokens that a block adds before stop rules apply.

    `by` is the model that drafted it. Each token names the `top_n` most likely ones in its place.
    """
    if verdict is None:
        rows, chosen = _decided(draft, None, by, top_n), chain(draft.instead, repeat(None))
        return [Token(id_, by, row, None, instead) for id_, row, instead in zip(draft.ids, rows, chosen, strict=False)]
    accepted = verdict.accepted
    own: Source = "cloud" if not draft.ids else "bonus" if accepted == len(draft.ids) else "corrected"
    ids = (*draft.ids[:accepted], verdict.token, *verdict.run_on)
    sources: list[Source] = ["accepted"] * accepted
    sources.append(own)
    sources.extend("cloud" for _ in verdict.run_on)
    verified = [*draft.ids[:accepted], draft.ids[accepted] if own == "corrected" else None]  # the edge's, by place
    likeliest, instead = _decided(draft, verdict, by, top_n), chain(verdict.instead, repeat(None))
    columns = zip(ids, sources, likeliest, chain(verified, repeat(None)), instead, strict=False)
    return [Token(*token) for token in columns]


def _decided(draft: Draft, verdict: Verdict | None, by: Decider, top_n: int) -> chain[Alternatives]:
    """The most likely tokens at each place, of the model that decided it; of the drafting one if that named none."""
    if verdict is not None and verdict.likeliest:
        return chain((("cloud", row) for row in verdict.likeliest), repeat(("cloud", ())))
    drafted = draft.likeliest if verdict is None else draft.likeliest[: verdict.accepted + 1]
    return chain(((by, row[:top_n]) for row in drafted), repeat(("cloud", ())))
