"""From logits to the scores that tokens are chosen by: the library's processors, each position with its own history.

Order and settings are those of transformers' `generate()`, so that a text decoded here equals one decoded there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
from transformers import (
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec_cli.config.schema import ScoringConfig
from specdec_cli.models.processor import effective
from specdec_cli.models.session import Session
from specdec_cli.types import LEAST_PROBABILITY, Candidates

_NO_TOKEN: Final = 2**62  # equals no token id, so that it completes no n-gram


class LogitsPipeline:
    """Turns a model's raw logits into scores. The prompt counts as history, as in `generate()`.

    The library's processors take rows of one length, but the positions of a block have histories that grow by a token
    each. Padded in front with what cannot change a result, they go through in one call.
    """

    def __init__(self, settings: ScoringConfig, session: Session) -> None:
        self.settings = settings = effective(settings, session.model.processor)
        self._session, self._end_ids = session, sorted(session.model.processor.eos_ids)
        self._penalty = self._no_repeat = None
        if settings.repetition_penalty not in (None, 1.0):
            self._penalty = RepetitionPenaltyLogitsProcessor(float(settings.repetition_penalty))
        if settings.no_repeat_ngram:
            self._no_repeat = NoRepeatNGramLogitsProcessor(settings.no_repeat_ngram)
        self._min_new_tokens = settings.min_new_tokens or 0
        self._warpers = LogitsProcessorList()
        if settings.sampling:
            if settings.temperature != 1.0:
                self._warpers.append(TemperatureLogitsWarper(float(settings.temperature)))
            if settings.top_k:
                self._warpers.append(TopKLogitsWarper(settings.top_k))
            if settings.top_p is not None and settings.top_p < 1.0:
                self._warpers.append(TopPLogitsWarper(settings.top_p))

    @cached_property
    def _prompt(self) -> torch.Tensor:
        return torch.tensor(self._session.prompt.ids, device=self._session.model.device)

    def __call__(self, text: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Scores [m, vocab] for the m positions that end a text; softmax gives the distribution to draw from.

        Row i of the logits [m, vocab] follows text[: len(text) - m + 1 + i], so the last row follows all of it.
        """
        scores = logits
        if self._penalty is not None or self._no_repeat is not None:
            after = torch.tensor(list(text), device=logits.device, dtype=torch.long)
            history = torch.cat((self._prompt, after))
            if self._penalty is not None:  # a token of the history counts no more for standing there twice
                scores = self._penalty(_histories(history, len(logits), int(self._prompt[0])), scores)
            if self._no_repeat is not None:
                scores = self._no_repeat(_histories(history, len(logits), _NO_TOKEN), scores)
        if self._min_new_tokens and (early := self._min_new_tokens - (len(text) - len(scores) + 1)) > 0:
            scores = scores.clone()
            scores[:early, self._end_ids] = -torch.inf  # rows after too few tokens for an end of text
        return self._warpers(self._prompt[None], scores) if self._warpers else scores


def _histories(history: torch.Tensor, rows: int, filling: int) -> torch.Tensor:
    """Histories [rows, n], padded in front with `filling`: the last row is all of it, each above has one token less."""
    if rows == 1:
        return history[None]
    return torch.nn.functional.pad(history, (rows - 1, 0), value=filling).unfold(0, len(history), 1)


def likeliest(scores: torch.Tensor, count: int) -> tuple[Candidates, ...]:
    """The `count` likeliest tokens of each row of processed scores [m, vocab]: the best, and others that may count."""
    if count < 1:
        return ()
    best = scores.softmax(dim=-1).topk(min(count, scores.shape[-1]), dim=-1)
    rows = (zip(*row, strict=True) for row in zip(best.indices.tolist(), best.values.tolist(), strict=True))
    return tuple(
        tuple((id_, round(p, 5)) for place, (id_, p) in enumerate(row) if place == 0 or p >= LEAST_PROBABILITY)
        for row in rows
    )


def generator_for(seed: int, place: bytes) -> torch.Generator:
    """A random generator that a seed and a place determine, on every machine."""
    digest = hashlib.blake2b(place, digest_size=8, key=seed.to_bytes(8, "big")).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> int:
    """One token id from a distribution [vocab], on the CPU whatever the device: so a seed gives one text everywhere."""
    return int(torch.multinomial(probabilities.float().cpu(), 1, generator=generator))
