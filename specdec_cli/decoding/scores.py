"""From logits to the scores that tokens are chosen by: the library's processors, each position with its own history.

Order and settings are those of transformers' `generate()`, so that a text decoded here equals one decoded there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
from torch.nn.functional import pad
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.models.processor import effective
from specdec_cli.models.session import Session, shared_length

NO_TOKEN: Final = 2**62  # equals no token id, so that it completes no n-gram
_COLDEST: Final = 1e-30  # a temperature: below, float32 scores would be infinite; here the best token has probability 1


class LogitsPipeline:
    """Turns a model's raw logits into scores. The prompt counts as history, as in `generate()`.

    Between the call and `warped` the sound may ban tokens (`NextScores`).

    The library's processors take rows of one length, but the history of each position of a block is one token longer
    than the one before. Padded in front with tokens that change nothing, all rows go through in one call. Nothing is
    fetched from the device.
    """

    def __init__(self, settings: ScoringConfig, session: Session) -> None:
        self.settings = settings = effective(settings, session.model.processor)
        self._penalty = None
        if settings.repetition_penalty not in (None, 1.0):
            self._penalty = RepetitionPenaltyLogitsProcessor(float(settings.repetition_penalty))
        self._ngram, self._min_new_tokens = settings.no_repeat_ngram or 0, settings.min_new_tokens or 0
        self._history = History(session) if self._penalty is not None or self._ngram else None
        self._end_ids = torch.empty(0)
        if self._min_new_tokens:
            self._end_ids = torch.tensor(sorted(session.model.processor.eos_ids), device=session.model.device)
        self._prompt = torch.empty(1, 0)  # warpers take a prompt and do not read it
        self._warpers = LogitsProcessorList()
        if settings.sampling:
            if settings.temperature != 1.0:
                self._warpers.append(TemperatureLogitsWarper(max(float(settings.temperature), _COLDEST)))
            if settings.top_k:
                self._warpers.append(TopKLogitsWarper(settings.top_k))
            if settings.top_p is not None and settings.top_p < 1.0:
                self._warpers.append(TopPLogitsWarper(settings.top_p))

    def __call__(self, text_ids: Sequence[int], logits: torch.Tensor, last: torch.Tensor | None = None) -> torch.Tensor:
        """Scores [m, vocab] for the m positions that end a text, before `warped`.

        Row i of the logits [m, vocab] follows text_ids[: len(text_ids) - m + 1 + i]; the last follows the whole text.
        `last` is the text's last token, int64 [1] on the device, if the host has not read it (`UNREAD`).
        """
        scores = logits
        if self._history is not None:
            self._history.follow(text_ids, last)
            rows = self._history.rows(len(scores))
            if self._penalty is not None:  # a token that is in the history twice is penalised once
                # tokens without a score share a column, which is dropped
                scores = self._penalty(rows.clamp(max=scores.shape[1]), pad(scores, (0, 1)))[:, :-1]
            if self._ngram:
                scores = _without_repeats(scores, rows, self._ngram)
        if self._min_new_tokens and (early := self._min_new_tokens - (len(text_ids) - len(scores) + 1)) > 0:
            scores = scores.clone()
            scores[:early] = scores[:early].index_fill(1, self._end_ids, -torch.inf)  # too few tokens for an end
        return scores

    def warped(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores [m, vocab] after temperature, top-k and top-p: softmax gives the distribution to draw from."""
        return self._warpers(self._prompt, scores) if self._warpers else scores

    def fill_in(self, ids: Sequence[int]) -> None:
        """Fills in the ids of the last tokens, which the host had not read."""
        if self._history is not None:
            self._history.fill_in(ids)


class History:
    """Prompt and text of a clip on its model's device, in one tensor that is filled in place."""

    def __init__(self, session: Session) -> None:
        self._session, self._text_ids = session, list[int]()
        self._front = session.capacity  # places before the prompt, so that a row may begin earlier than another

    @cached_property
    def _ids(self) -> torch.Tensor:
        prompt, room = self._session.prompt.ids, self._session.capacity
        with torch.inference_mode(False):  # a tensor made within it could not be changed outside
            ids = torch.full((self._front + len(prompt) + room,), NO_TOKEN)
            ids[self._front : self._front + len(prompt)] = torch.tensor(prompt)
            return ids.to(self._session.model.device)

    def follow(self, text_ids: Sequence[int], last: torch.Tensor | None) -> None:
        """Replaces the text by `text_ids`; `last`: see `LogitsPipeline`."""
        same, start = shared_length(self._text_ids, text_ids), self._front + len(self._session.prompt.ids)
        new = list(text_ids[same:])
        read = len(new) - (last is not None)
        if read > 0:
            self._ids[start + same : start + same + read] = placed(new[:read], self._ids.device)
        if last is not None:
            self._ids[start + len(text_ids) - 1 : start + len(text_ids)] = last
        self._text_ids[same:] = new

    def fill_in(self, ids: Sequence[int]) -> None:
        """Fills in the ids of the last tokens, which the host had not read."""
        self._text_ids[-len(ids) :] = ids

    def rows(self, count: int) -> torch.Tensor:
        """Histories int64 [count, n]: the last row is the whole one, each above has one token less and begins with
        `NO_TOKEN`.
        """
        length = len(self._session.prompt.ids) + len(self._text_ids)
        return self._ids[self._front - count + 1 : self._front + length].unfold(0, length, 1)


def _without_repeats(scores: torch.Tensor, histories: torch.Tensor, n: int) -> torch.Tensor:
    """Bans tokens that would repeat an n-gram of a row's history [m, length]; see `NoRepeatNGramLogitsProcessor`."""
    length = histories.shape[1]
    if length < n:
        return scores
    grams, tail = histories.unfold(1, n, 1), histories[:, length - n + 1 :]
    ids = grams[..., -1]
    hits = (grams[..., :-1] == tail[:, None]).all(dim=-1) & (ids < scores.shape[1])
    bans = torch.where(hits, -torch.inf, torch.inf).to(scores.dtype)
    return scores.scatter_reduce(1, ids.where(hits, 0), bans, "amin")


def placed(ids: Sequence[int], device: torch.device) -> torch.Tensor:
    """Token ids int64 [n] on a device; a GPU copies them while the host goes on."""
    if device.type != "cuda":
        return torch.tensor(ids, device=device)
    return torch.tensor(ids).pin_memory().to(device, non_blocking=True)


def generator_for(seed: int, place: bytes) -> torch.Generator:
    """A random generator that depends on a seed and a place alone, on every machine."""
    digest = hashlib.blake2b(place, digest_size=8, key=seed.to_bytes(8, "big")).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draws one token from each distribution [m, vocab]: int64 [m] on its device, as `torch.multinomial` does.

    The token with the largest p / e is drawn, where each e is exponentially distributed. The numbers e are made on the
    CPU whatever the device, so that a seed gives one text everywhere. The distributions stay on their device.
    """
    noise = torch.empty(probabilities.shape).exponential_(1, generator=generator)
    return (probabilities.float() / noise.to(probabilities.device, non_blocking=True)).argmax(dim=-1)
