"""One clip on one model: a session gets the whole text, crops its cache to the common prefix, and feeds the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Final

import torch
from transformers.cache_utils import Cache

from specdec_cli.errors import CheckpointError, ContextError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.types import ModelWork

UNREAD: Final = -1
"""In place of a token whose id is on the device alone."""


class Session:
    """A model's state for one clip: the prompt, and the part of the text whose keys and values are cached.

    Args:
        capacity: most tokens that will follow the prompt at any time, drafts included.
        vocab_size: ids from `vocab_size` on are never scored; None: the tokenizer's number of ids.

    Raises ContextError if prompt and text together would not fit into the model's context.
    """

    can_step: ClassVar[bool] = True  # whether `step` may be called

    def __init__(self, model: AudioLM, prompt: Prompt, capacity: int, vocab_size: int | None = None) -> None:
        context = model.processor.context
        if len(prompt.ids) + capacity > context:
            raise ContextError(
                f"{model.name} takes {context} tokens, but the prompt has {len(prompt.ids)} (audio included) "
                f"and {capacity} may follow",
                hint="Use a shorter prompt, a smaller decoding.max_new_tokens, or shorter pieces with audio.segment.",
            )
        self.model, self.prompt, self.capacity = model, prompt, capacity
        self.vocab_size = vocab_size or model.processor.vocab_size
        self.work = ModelWork(prompt_tokens=len(prompt.ids))
        self.cache: Cache | None = None  # None: the prompt has not been fed
        self.fed: list[int] = []  # text tokens that are cached
        self._after_prompt: torch.Tensor | None = None

    @property
    def is_read(self) -> bool:
        """Whether the prompt is cached. During a prefill in another thread it is not."""
        return self.cache is not None

    @property
    def length(self) -> int:
        """Positions in the cache, prompt included."""
        return 0 if self.cache is None else len(self.prompt.ids) + len(self.fed)

    @cached_property
    def _banned(self) -> torch.Tensor:
        banned = [id_ for id_ in self.model.processor.banned_ids if id_ < self.vocab_size]
        return torch.tensor(banned, dtype=torch.long, device=self.model.device)

    def logits(self, text_ids: Sequence[int], positions: int = 1) -> torch.Tensor:
        """Scores what follows the last `positions` (1 to len(text_ids) + 1) prefixes of prompt + text, drafts included.

        The forward reads prompt and audio, too, if they are not cached. Returns float32 [positions, vocab_size] raw
        logits, placeholders at -inf; row i is the distribution after text_ids[: len(text_ids) - positions + 1 + i]. On
        a GPU they may not have been computed yet; whoever reads them checks that they are finite.
        """
        if not torch.is_inference_mode_enabled():  # the loop enters it once a block: for one token it costs too much
            with torch.inference_mode():
                return Session.logits(self, text_ids, positions)
        lacking = self.align(text_ids, positions)
        reading, start = self.cache is None, self.length
        if not lacking and not reading:
            return self._with_prompt_row(None)
        cache = self.model.new_cache(len(self.prompt.ids) + self.capacity) if self.cache is None else self.cache
        ids = (*self.prompt.ids, *lacking) if reading else lacking
        started = time.perf_counter()
        try:
            logits, encoder_ms, passes = self.model.forward(
                ids,
                torch.arange(start, start + len(ids), device=self.model.device),
                cache,
                positions if reading else min(positions, len(ids)),
                self.prompt.audio if reading else None,
            )
            self.fed.extend(lacking)
        except BaseException:
            self.close()  # some layers may be ahead of others
            raise
        ended, rows = time.perf_counter(), self.vocabulary_rows(logits, positions, len(text_ids))
        if reading and not cache.is_croppable:
            raise CheckpointError(
                f"{self.model.name} keeps a recurrent state, which cannot be rolled back after a rejected draft",
                hint="Use a model whose layers are all attention.",
            )
        self.account(len(lacking), (ended - started) * 1e3 - encoder_ms, encoder_ms, passes)
        if reading and positions > len(text_ids):
            self._after_prompt = rows[:1].clone()
        self.cache = cache  # last, see `is_read`
        return rows

    def step(self, token: torch.Tensor) -> torch.Tensor:
        """The raw logits [1, vocab_size] after one more token, int64 [1] on the device, which the host has not read.

        The prompt must be cached, and `can_step` true. Before any call but `step`, `fill_in` follows.
        """
        assert self.cache is not None
        started, at = time.perf_counter(), self.length
        where = torch.arange(at, at + 1, device=self.model.device)
        cache, self.cache = self.cache, None  # until it is done: some layers may be ahead of others
        logits, encoder_ms, passes = self.model.forward(token, where, cache, 1)
        self.cache = cache
        self.fed.append(UNREAD)
        self.account(1, (time.perf_counter() - started) * 1e3, encoder_ms, passes)
        return self.vocabulary_rows(logits, 1, len(self.fed))

    def fill_in(self, ids: Sequence[int]) -> None:
        """Fills in the ids of the last tokens that `step` has fed."""
        self.fed[-len(ids) :] = ids

    def close(self) -> None:
        """Drops the cache, and with it the clip's slot. The next scores would read the prompt again."""
        self.cache = None

    def align(self, text_ids: Sequence[int], positions: int) -> list[int]:
        """Crops the cache to what it shares with `text_ids`; returns the text tokens that it lacks for these scores."""
        if self.cache is None:
            self.fed = []
            return list(text_ids)
        if positions > len(text_ids) and self._after_prompt is None:
            self.cache, self.fed = None, []  # the row after the prompt is requested, and was not kept
            return list(text_ids)
        keep = min(shared_length(self.fed, text_ids), max(len(text_ids) - positions, 0))
        if keep < len(self.fed):
            self.cache.crop(keep - len(self.fed))
            del self.fed[keep:]
        return list(text_ids[keep:])

    def vocabulary_rows(self, logits: torch.Tensor, positions: int, text_length: int) -> torch.Tensor:
        """The last `positions` rows of a forward's logits [m, rows], cut to the vocabulary."""
        rows = logits[:, : self.vocab_size]
        if self._banned.numel():
            rows.index_fill_(1, self._banned, -math.inf)
        return self._with_prompt_row(rows) if positions > text_length and len(rows) < positions else rows

    def account(self, tokens: int, ms: float, encoder_ms: float, passes: int) -> None:
        """Adds a forward that fed `tokens` text tokens to `work`. If it also read the prompt, their share is a step."""
        step_ms = ms * tokens / (len(self.prompt.ids) + tokens) if passes else ms
        done, prefill_ms = self.work, ms - step_ms
        self.work = ModelWork(  # at every token; `ModelWork.__add__` would take three times as long
            done.encoder_passes + passes,
            done.forwards + 1,
            done.encoder_ms + encoder_ms,
            done.prefill_ms + prefill_ms,
            done.step_ms + step_ms,
            done.prompt_tokens,
            done.fed_tokens + tokens,
            done.bytes_up,
            done.guessed,
            done.guesses_kept,
        )

    def _with_prompt_row(self, rows: torch.Tensor | None) -> torch.Tensor:
        """The kept row after the prompt, [1, vocab_size], and `rows` after it."""
        assert self._after_prompt is not None
        return self._after_prompt.clone() if rows is None else torch.cat((self._after_prompt, rows))


def shared_length(known: list[int], text_ids: Sequence[int]) -> int:
    """How many tokens two texts share from their beginning."""
    most = min(len(known), len(text_ids))
    if known[:most] == list(text_ids[:most]):
        return most
    return next(at for at in range(most) if known[at] != text_ids[at])
