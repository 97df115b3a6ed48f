"""Logits processors: the library's own, applied to each position with that position's history.

Order and settings are those of transformers' `generate()`, so that a text decoded here equals one decoded there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec_cli.decoding.options import DecodingOptions

_NO_TOKEN: Final = 2**62  # equals no token id, so that it completes no n-gram


class ScoreProcessors:
    """Turns a model's raw logits into the scores that its tokens are chosen by.

    The library's processors take rows of one length, but the positions of a block have histories that grow by a token
    each. Filled up in front with what cannot change a result, they go through in one call.

    Args:
        options: the run's settings.
        prompt_ids: the model's prompt; it counts as history, as in `generate()`.
        eos_ids: ids that end a text; impossible before `min_new_tokens`.
        device: where the logits live.
    """

    def __init__(
        self, options: DecodingOptions, prompt_ids: Sequence[int], eos_ids: Sequence[int], device: torch.device
    ) -> None:
        self._prompt = torch.tensor(list(prompt_ids), device=device)
        self._min_new_tokens = options.min_new_tokens
        self._penalty = self._no_repeat = self._not_yet = None
        if options.repetition_penalty != 1.0:
            self._penalty = RepetitionPenaltyLogitsProcessor(float(options.repetition_penalty))
        if options.no_repeat_ngram > 0:
            self._no_repeat = NoRepeatNGramLogitsProcessor(options.no_repeat_ngram)
        if options.min_new_tokens > 0:
            self._not_yet = MinNewTokensLengthLogitsProcessor(
                len(prompt_ids), options.min_new_tokens, list(eos_ids), device=str(device)
            )
        self._warpers = LogitsProcessorList()
        if options.sampling:
            if options.temperature != 1.0:
                self._warpers.append(TemperatureLogitsWarper(float(options.temperature)))
            if options.top_k:
                self._warpers.append(TopKLogitsWarper(options.top_k))
            if options.top_p is not None and options.top_p < 1.0:
                self._warpers.append(TopPLogitsWarper(options.top_p))

    def __call__(self, text: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Scores for the m positions that end a text.

        Args:
            text: token ids behind the prompt.
            logits: [m, vocab]; row i follows text[: len(text) - m + 1 + i], so the last row follows all of it.

        Returns:
            [m, vocab] scores; softmax gives the distribution that a token is drawn from.
        """
        scores = logits
        if self._penalty is not None or self._no_repeat is not None:
            behind = torch.tensor(list(text), device=logits.device, dtype=torch.long)
            history = torch.cat((self._prompt, behind))
            if self._penalty is not None:  # a token of the history counts no more for standing there twice
                scores = self._penalty(_histories(history, len(logits), int(self._prompt[0])), scores)
            if self._no_repeat is not None:
                scores = self._no_repeat(_histories(history, len(logits), _NO_TOKEN), scores)
        if self._not_yet is not None:
            scores = self._without_eos(len(text), scores)
        if len(self._warpers):
            scores = self._warpers(self._prompt[None], scores)
        return scores

    def _without_eos(self, length: int, scores: torch.Tensor) -> torch.Tensor:
        """`scores` with no end of text in rows behind too few tokens; the last row stands behind `length` of them."""
        assert self._not_yet is not None
        first = length - len(scores) + 1
        early = min(self._min_new_tokens - first, len(scores))
        if early <= 0:
            return scores
        # of a history the library's processor reads the length only, and all of these are short enough
        barred = self._not_yet(self._prompt.new_empty((1, len(self._prompt) + first)), scores[:early])
        return torch.cat((barred, scores[early:])) if early < len(scores) else barred


def _histories(history: torch.Tensor, rows: int, filling: int) -> torch.Tensor:
    """What stands before each of the last `rows` positions, `filling` in front: [rows, len(history)], a view.

    Args:
        history: [n] all tokens; the last row is all of them, and every row above has one less.
        rows: m of them.
        filling: token id.
    """
    if rows == 1:
        return history[None]
    return torch.nn.functional.pad(history, (rows - 1, 0), value=filling).unfold(0, len(history), 1)
