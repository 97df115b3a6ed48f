"""Logits processors: the library's own, applied to each position with that position's history.

Order and settings are those of transformers' `generate()`, so that a text decoded here equals one decoded there.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class ScoreProcessors:
    """Turns a model's raw logits into the scores that its tokens are chosen by.

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
        self._with_history = LogitsProcessorList()
        if options.repetition_penalty != 1.0:
            self._with_history.append(RepetitionPenaltyLogitsProcessor(float(options.repetition_penalty)))
        if options.no_repeat_ngram > 0:
            self._with_history.append(NoRepeatNGramLogitsProcessor(options.no_repeat_ngram))
        if options.min_new_tokens > 0:
            self._with_history.append(
                MinNewTokensLengthLogitsProcessor(
                    len(prompt_ids), options.min_new_tokens, list(eos_ids), device=str(device)
                )
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
        if len(self._with_history):
            history = torch.cat([self._prompt, torch.tensor(list(text), device=logits.device, dtype=torch.long)])
            first = len(history) - len(logits) + 1
            scores = torch.cat(
                [self._with_history(history[None, : first + row], logits[row : row + 1]) for row in range(len(logits))]
            )
        if len(self._warpers):
            scores = self._warpers(self._prompt[None], scores)
        return scores
