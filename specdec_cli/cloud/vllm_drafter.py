"""Drafting with a vLLM server, and what its likeliest few tokens of a position say of the whole distribution."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from specdec_cli.cloud.http import Caller
from specdec_cli.cloud.vllm_protocol import VllmClip
from specdec_cli.config import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.evidence import CANDIDATES, TokenEvidence
from specdec_cli.decoding.gate import GateState
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.models.processor import Prompt
from specdec_cli.types import LEAST_PROBABILITY, Candidates, ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmEdge


class VllmDrafter:
    """Drafts with a vLLM server: one request a block, or for all of a caption. See `decoding.draft.Drafter`.

    The gate reads the likeliest `MOST_CANDIDATES` tokens of each position. Raises EdgeError where the server fails.
    """

    elsewhere = True
    rows = None

    def __init__(
        self,
        edge: VllmEdge,
        prompt: Prompt,
        config: Config,
        vocab_size: int,
        stop_ids: Collection[int],
        groups: Synonyms = NO_SYNONYMS,
        top_n: int = 0,
    ) -> None:
        edge.require_served(config)
        self._edge, self._stop_ids, self._vocab_size = edge, frozenset(stop_ids), vocab_size
        self._groups, self._top_n, self._seed = groups, top_n, config.decoding.seed
        self._caller = Caller(edge.http)
        self._clip = VllmClip(edge, prompt, self._caller)
        self._banned = frozenset(edge.processor.banned_ids)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; as `Drafter.propose`. A banned token is replaced by the next best."""
        started, ids, rows, ended = time.perf_counter(), list[int](), list[Likely](), False
        drawing = {} if top_k is None else {"top_k": top_k, "seed": self._seed}
        try:
            with self._caller.call():
                self._edge.connect(self._caller)
                while len(ids) < k and not ended:
                    written = (*text, *ids)
                    scored = self._clip.scored(written, 0, k - len(ids), self._stop_ids, **drawing)
                    for token, listed in zip(scored.generated, scored.rows, strict=True):
                        likely = Likely.of(listed, self._banned, self._vocab_size)
                        chosen = token if likely.allows(token) else likely.best
                        ids.append(chosen)
                        rows.append(likely)
                        unsure = state.add(likely.evidence(chosen, self._groups))
                        ended = chosen in self._stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended or chosen != token:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        ms = (time.perf_counter() - started) * 1e3
        figures = state.block_value if ids else None
        return Draft(
            tuple(ids),
            likeliest=tuple(likely.top(self._top_n) for likely in rows) if self._top_n else (),
            evidence=tuple(state.evidence),
            gate_values=tuple(state.values),
            gate_value=figures,
            reason=state.reason,
            ms=ms,
            waking=state.waking,
        )

    def draft_ahead(self, *_: object) -> None:
        """Drafts nothing: it would take requests that may be of no use."""

    def keep(self, _text: tuple[int, ...] | None) -> int:
        """Nothing was drafted ahead."""
        return 0

    def close(self) -> None:
        """Ends a call under way."""
        self._caller.close()


class Likely(NamedTuple):
    """A position of a served edge's text: its likeliest tokens that may be generated, and what is known of the rest."""

    probabilities: dict[int, float]  # descending; of the distribution without the listed banned tokens
    rest: float  # probability of all others together
    others: int  # how many those are

    @classmethod
    def of(cls, listed: Mapping[int, float], banned: Collection[int], vocab_size: int) -> Likely:
        """From id -> log-probability. Raises CloudError if all of them are banned."""
        ps = {id_: math.exp(min(logprob, 0.0)) for id_, logprob in listed.items()}
        allowed = {id_: p for id_, p in ps.items() if id_ < vocab_size and id_ not in banned}
        if not allowed:
            raise CloudError(f"the likeliest {len(listed)} tokens of the edge are all banned")
        whole = max(1.0 - sum(p for id_, p in ps.items() if id_ not in allowed), sum(allowed.values()))
        ranked = sorted(allowed.items(), key=lambda item: -item[1])  # equal ones stay in the server's order
        rest = max(whole - sum(allowed.values()), 0.0) / whole
        return cls({id_: p / whole for id_, p in ranked}, rest, max(vocab_size - len(banned) - len(allowed), 1))

    @property
    def best(self) -> int:
        return next(iter(self.probabilities))

    def allows(self, id_: int) -> bool:
        return id_ in self.probabilities

    def top(self, count: int) -> Candidates:
        """The likeliest, as `decoding.scores.likeliest` gives them."""
        ranked = list(self.probabilities.items())[:count]
        return tuple((id_, round(p, 5)) for at, (id_, p) in enumerate(ranked) if at == 0 or p >= LEAST_PROBABILITY)

    def evidence(self, id_: int, groups: Synonyms) -> TokenEvidence:
        """The evidence on the token that was chosen.

        The entropy is the largest that the listed probabilities leave room for: the rest spread evenly over all other
        tokens. The least: none of them is likelier than the last that is listed, so that the rest falls on as few as
        that allows. Among classes, the rest is counted with the tokens that are in none.
        """
        ps = list(self.probabilities.values())
        listed, least, rest = _nats(*ps), min(ps), self.rest
        highest = listed + (rest * math.log(self.others / rest) if rest > 0 else 0.0)
        whole = int(rest / least) if least > 0 else 0
        lowest = listed + whole * _nats(least) + _nats(max(rest - whole * least, 0.0))
        sums = {-1: rest}
        for token, p in self.probabilities.items() if groups else ():
            group = groups.get(token, -1)
            sums[group] = sums.get(group, 0.0) + p
        return TokenEvidence(
            id_,
            highest,
            ps[0] - (ps[1] if len(ps) > 1 else min(rest, ps[0])),
            math.log(self.probabilities[id_]) if self.probabilities[id_] > 0 else -math.inf,
            tuple(self.probabilities.items())[:CANDIDATES],
            _nats(*sums.values()) if groups else 0.0,
            min(lowest, highest),
        )


def _nats(*probabilities: float) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)
