"""Verifying with a vLLM server: one request per block; the rule reads the likeliest few tokens of each position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from specdec_cli.cloud.cloud import RemoteVerifier
from specdec_cli.cloud.vllm_protocol import MOST_CANDIDATES, Scored, VllmClip
from specdec_cli.config import AcceptanceConfig
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict
from specdec_cli.decoding.block import Draft
from specdec_cli.errors import CloudError
from specdec_cli.types import ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmCloud

# Gap of two log-probabilities that counts as a near tie. A server gives neither its number format nor how far the
# scores of a position spread, so this is the tolerance of the coarsest usual format alone, as for a spread of 1.
TIE: Final = 0.08  # as `models.selftest` has it


class VllmVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`."""

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud.require_served(self.config)
        # `top_n` is left aside: vLLM would list the likeliest tokens of every position of the prompt, in each answer
        self._clip = VllmClip(self.cloud, self.prompt, self.caller)
        banned = frozenset(self.cloud.processor.banned_ids)
        self._rules = VllmRules(self.config.acceptance, banned, self.vocab_size, self.synonyms)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms = self.work.step_ms
        room = self.config.decoding.max_new_tokens - len(text)
        found = self._generated(text, draft.ids, max(1, min(1 + run_on, room - len(draft.ids))))
        tokens, most = [found.token, *found.more], min(1 + run_on, room - found.accepted)
        while len(tokens) < most and tokens[-1] not in self.stop_ids:
            further = self._generated((*text, *draft.ids[: found.accepted], *tokens), (), most - len(tokens))
            tokens += (further.token, *further.more)
        return replace(found, more=tuple(tokens[1:]), ms=self.work.step_ms - before_ms)

    def upload(self) -> None:
        if not self.work.encoder_passes:
            self._clip.scored((), 0, 1, self.stop_ids, candidates=1)

    def _generated(self, text: Sequence[int], draft: tuple[int, ...], tokens: int) -> Verdict:
        """The rule's verdict, with up to `tokens` tokens of the cloud's own."""
        for candidates in (self._rules.needed + 1, MOST_CANDIDATES):  # one of them may be banned
            scored = self._clip.scored((*text, *draft), len(draft), tokens, self.stop_ids, candidates=candidates)
            verdict = self._rules.verdict(draft, scored, at_most=candidates == MOST_CANDIDATES)
            if verdict is not None:
                return verdict
        raise CloudError(f"the likeliest {MOST_CANDIDATES} tokens of the cloud at {self.cloud.name} are all banned")


class VllmRules(NamedTuple):
    """The acceptance rules that can be applied to the likeliest few tokens of each position, for one clip."""

    acceptance: AcceptanceConfig  # greedy, rank or class
    banned: frozenset[int]  # ids that are never generated
    vocab_size: int  # nor these and those above
    synonyms: Synonyms = NO_SYNONYMS

    @property
    def needed(self) -> int:
        """Likeliest tokens of a drafted position by which a rule decides."""
        return self.acceptance.rank if self.acceptance.rule == "rank" else 1

    def verdict(self, draft: tuple[int, ...], scored: Scored, *, at_most: bool = False) -> Verdict | None:
        """The rule applied to a block of m tokens; None if the answer does not hold enough.

        With `at_most` no answer holds more: a drafted token whose rank it does not give is not kept.
        """
        m, rows = len(draft), [self._ranked(listed) for listed in scored.rows]
        if not at_most and (min(map(len, rows[:m]), default=self.needed) < self.needed or not rows[m]):
            return None
        accepted = next((at for at, id_ in enumerate(draft) if not self._passes(id_, rows[at])), m)
        if not rows[accepted]:
            return None
        tokens = [rows[accepted][0][0]]
        for at, written in enumerate(scored.generated[:-1], start=m + 1) if accepted == m else ():
            if tokens[-1] != written or not rows[at]:
                break  # what was generated after follows a banned token
            tokens.append(rows[at][0][0])
        gaps = [row[0][1] - row[1][1] if len(row) > 1 else math.nan for row in rows[: accepted + 1]]
        ties = None if any(map(math.isnan, gaps)) else sum(gap <= TIE for gap in gaps)
        return Verdict(accepted, tokens[0], tuple(tokens[1:]), ties)

    def _ranked(self, listed: Mapping[int, float]) -> list[tuple[int, float]]:
        """Listed tokens that may be generated, the likeliest first, of equal ones the lowest id."""
        allowed = ((id_, p) for id_, p in listed.items() if id_ < self.vocab_size and id_ not in self.banned)
        return sorted(allowed, key=lambda item: (-item[1], item[0]))

    def _passes(self, id_: int, row: list[tuple[int, float]]) -> bool:
        """Whether a drafted token is kept, by the listed tokens of its position."""
        if not row:
            return False
        best, groups = row[0][0], self.synonyms if self.acceptance.rule == "class" else NO_SYNONYMS
        if self.acceptance.rule == "rank":
            own = dict(row).get(id_, -math.inf)
            return own > -math.inf and sum(p > own for _, p in row) < self.acceptance.rank
        return id_ == best or (id_ in groups and groups[id_] == groups.get(best))
