"""One clip on one model: what it has read, and how to read on.

The same class serves edge and cloud, drafting and verifying. Its one rule keeps the cache right by construction:
feed whatever the cache lacks, in one pass, and never anything twice. What the cache lacks is derived from the text,
not remembered, so there is no seed token that could go stale.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from specdec_cli.errors import CacheError, DecodingError
from specdec_cli.models.cache import BufferedCache
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.types import ModelWork


class Session:
    """A model's state for one clip: the prompt, and the part of the text whose keys and values are cached.

    Args:
        model: the loaded checkpoint.
        inputs: the prompt with the clip's features.
        capacity: most tokens that will follow the prompt at any time, drafts included.
        vocab_size: ids from here on are never scored; None for all of the model's.

    Raises:
        DecodingError: prompt and text together would not fit into the model's context.
    """

    def __init__(
        self, model: AudioLanguageModel, inputs: PromptInputs, capacity: int, vocab_size: int | None = None
    ) -> None:
        if len(inputs.ids) + capacity > model.context:
            raise DecodingError(
                f"{model.name} takes {model.context} tokens, but the prompt has {len(inputs.ids)} (audio included) "
                f"and {capacity} may follow",
                hint="Use a shorter --prompt, a smaller --max-new-tokens, or shorter pieces (--segment).",
            )
        self.model = model
        self.prompt_ids = inputs.ids
        self.vocab_size = vocab_size or model.vocab_size
        self._features = inputs.features
        self._cache = BufferedCache(model.layers, len(inputs.ids) + capacity)
        self._prompt_cached = 0
        self._text_cached: list[int] = []
        self._banned = torch.tensor(
            [id_ for id_ in model.placeholder_ids if id_ < self.vocab_size], device=model.device
        )
        self._work = ModelWork(prompt_tokens=len(inputs.ids))

    @property
    def length(self) -> int:
        """Positions in the cache, prompt included."""
        return self._prompt_cached + len(self._text_cached)

    @property
    def cached_text(self) -> tuple[int, ...]:
        """The token ids behind the prompt that are in the cache."""
        return tuple(self._text_cached)

    @property
    def work(self) -> ModelWork:
        """What the model has done for this clip so far."""
        return self._work

    @torch.inference_mode()
    def prefill(self) -> None:
        """Reads the clip and the prompt ahead of need, all but the prompt's last token."""
        if self._prompt_cached == 0:
            self._feed(self.prompt_ids[:-1], 0)

    @torch.inference_mode()
    def advance(self, text: Sequence[int], positions: int) -> torch.Tensor:
        """Brings the cache up to prompt + `text` in one pass and scores what follows the last `positions` prefixes.

        Args:
            text: all token ids behind the prompt, drafts included; what is cached must be a prefix of it.
            positions: how many of the last positions to score; row i is the distribution after
                text[: len(text) - positions + 1 + i].

        Returns:
            float32 [positions, vocab_size] raw logits, placeholders at -inf.

        Raises:
            CacheError: the cache holds something else than a prefix of `text`, or too much of it to score
                `positions`: the caller has not rolled back.
        """
        known = len(self._text_cached)
        if self._text_cached != list(text[:known]):
            raise CacheError(f"the cache of {self.model.name} holds {known} tokens that are not the text's")
        pending = (*self.prompt_ids[self._prompt_cached :], *text[known:])
        if len(pending) < positions:
            raise CacheError(f"{positions} positions were to be scored, but {len(pending)} tokens are still to be fed")
        return self._feed(pending, positions)

    def rollback(self, text: Sequence[int]) -> None:
        """Forgets every cached token that is not part of `text`, and the last one if nothing would be left to feed."""
        keep = 0
        limit = min(len(self._text_cached), len(text))
        while keep < limit and self._text_cached[keep] == text[keep]:
            keep += 1
        if keep == len(text) and keep > 0:
            keep -= 1
        self._prompt_cached = min(self._prompt_cached, len(self.prompt_ids) - (0 if text else 1))
        self._cache.truncate(self._prompt_cached + keep)
        del self._text_cached[keep:]

    def _feed(self, tokens: Sequence[int], positions: int) -> torch.Tensor:
        """One forward over `tokens` behind the cache: [positions, vocab_size]."""
        started = time.perf_counter()
        audio, encoder_ms = None, 0.0
        prefill = self._prompt_cached == 0
        if prefill:
            audio = self.model.encode(self._features)
            self._synchronize()
            encoder_ms = (time.perf_counter() - started) * 1e3
        start = self.length
        self._cache.truncate(start)  # a pass that was interrupted may have filled some of the layers
        hidden = self.model.decode(self.model.embed(tokens, audio), start, self._cache)[0]
        logits = self.model.logits(hidden[hidden.shape[0] - positions :])[:, : self.vocab_size]
        if len(self._banned):
            logits[:, self._banned] = -torch.inf
        # NaN would choose tokens in silence (argmax takes the first one).
        if positions and not bool(logits.amax(dim=-1).isfinite().all()):
            raise DecodingError(
                f"the scores of {self.model.name} are not finite",
                hint="float16 overflows in many models: use bfloat16 or float32, or download the checkpoint again.",
            )
        self._synchronize()
        prompt_part = min(len(self.prompt_ids) - self._prompt_cached, len(tokens))
        self._prompt_cached += prompt_part
        self._text_cached.extend(tokens[prompt_part:])
        elapsed_ms = (time.perf_counter() - started) * 1e3 - encoder_ms
        done = self._work
        self._work = ModelWork(
            encoder_passes=done.encoder_passes + prefill,
            forwards=done.forwards + 1,
            encoder_ms=done.encoder_ms + encoder_ms,
            prefill_ms=done.prefill_ms + (elapsed_ms if prefill else 0.0),
            step_ms=done.step_ms + (0.0 if prefill else elapsed_ms),
            prompt_tokens=done.prompt_tokens,
            fed_tokens=done.fed_tokens + len(tokens) - prompt_part,
        )
        return logits

    def _synchronize(self) -> None:
        # Forward times are part of every transcript; on a GPU they are meaningless without waiting. The loop reads
        # each token back right after, so the wait is not an extra one.
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
