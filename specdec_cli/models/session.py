"""One clip on one model: what it has read, and how to read on, alone or in one forward with other clips.

The same class serves edge and cloud, drafting and verifying. Its one rule keeps the cache right by construction:
feed whatever the cache lacks, in one pass, and never anything twice. What the cache lacks is derived from the text,
not remembered, so there is no seed token that could go stale.

A session says what it would feed (a `Pass`) apart from feeding it, so that the passes of several clips can be made
together; a clip alone is a batch of one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch

from specdec_cli.errors import CacheError, DecodingError
from specdec_cli.models.cache import BufferedCache
from specdec_cli.models.encoders import Encoders, Heard, heard_by
from specdec_cli.models.family import AudioLanguageModel, PromptInputs, Span
from specdec_cli.types import ModelWork


class Session:
    """A model's state for one clip: the prompt, and the part of the text whose keys and values are cached.

    Args:
        model: the loaded checkpoint.
        inputs: the prompt with the clip's features.
        capacity: most tokens that will follow the prompt at any time, drafts included.
        vocab_size: ids from here on are never scored; None for all of the model's.
        least_ms: an imitated cost: a forward is made to last at least so long, milliseconds.

    Raises:
        DecodingError: prompt and text together would not fit into the model's context.
    """

    def __init__(
        self,
        model: AudioLanguageModel,
        inputs: PromptInputs,
        capacity: int,
        vocab_size: int | None = None,
        least_ms: float = 0.0,
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
        self.least_ms = least_ms
        self._features = inputs.features
        self._heard: Future[Heard] | None = None
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
    def cache_bytes(self) -> int:
        """Memory of the keys and values, bytes: all of it from the first pass on, 0 before."""
        return self._cache.nbytes

    @property
    def work(self) -> ModelWork:
        """What the model has done for this clip so far."""
        return self._work

    def ask_prefill(self) -> Pass | None:
        """The pass that reads the clip and the prompt ahead of need, all but the prompt's last token."""
        return Pass(self, self.prompt_ids[:-1], 0) if self._prompt_cached == 0 else None

    def hear(self, encoders: Encoders) -> Future[Heard] | None:
        """Begins to read the audio in another thread, for the first pass to find; None where that would not help."""
        if self._prompt_cached > 0 or not self.model.steady_encoder:
            return None
        if self._heard is None:
            self._heard = encoders.hear(self.model, self._features)
        return self._heard

    def prefill(self) -> None:
        """Makes that pass."""
        wanted = self.ask_prefill()
        if wanted is not None:
            wanted.run()

    def ask(self, text: Sequence[int], positions: int) -> Pass:
        """The pass that brings the cache up to prompt + `text` and scores what follows the last `positions` prefixes.

        Args:
            text: all token ids behind the prompt, drafts included; what is cached must be a prefix of it.
            positions: how many of the last positions to score; row i is the distribution after
                text[: len(text) - positions + 1 + i].

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
        return Pass(self, pending, positions)

    def advance(self, text: Sequence[int], positions: int) -> torch.Tensor:
        """Makes the pass of `ask`: float32 [positions, vocab_size] raw logits, placeholders at -inf."""
        return self.ask(text, positions).run()

    def rollback(self, text: Sequence[int]) -> None:
        """Forgets every cached token that is not part of `text`, and the last one if nothing would be left to feed."""
        keep = min(len(self._text_cached), len(text))
        if self._text_cached[:keep] != list(text[:keep]):
            pairs = zip(self._text_cached, text, strict=False)
            keep = next(index for index, (ours, theirs) in enumerate(pairs) if ours != theirs)
        if keep == len(text) and keep > 0:
            keep -= 1
        self._prompt_cached = min(self._prompt_cached, len(self.prompt_ids) - (0 if text else 1))
        self._cache.truncate(self._prompt_cached + keep)
        del self._text_cached[keep:]

    def _feed(self, tokens: Sequence[int], positions: int) -> torch.Tensor:
        """One forward over `tokens` behind the cache: [positions, vocab_size]."""
        (scores,) = feed_together([Pass(self, tokens, positions)])
        if isinstance(scores, DecodingError):
            raise scores
        return scores

    def _encode(self) -> tuple[torch.Tensor | None, float]:
        """The audio, if it is still to be read, and the milliseconds that it took."""
        if self._prompt_cached > 0:
            return None, 0.0
        heard = self._heard.result() if self._heard is not None else heard_by(self.model, self._features)
        return heard.audio, heard.ms

    def _span(self, length: int) -> Span:
        start = self.length
        self._cache.truncate(start)  # a pass that was interrupted may have filled some of the layers
        return Span(start, length, self._cache)

    def _took(self, tokens: Sequence[int], encoder_ms: float, decoder_ms: float) -> None:
        """Records that `tokens` are in the cache."""
        prefill = self._prompt_cached == 0
        prompt_part = min(len(self.prompt_ids) - self._prompt_cached, len(tokens))
        self._prompt_cached += prompt_part
        self._heard = None
        self._text_cached.extend(tokens[prompt_part:])
        done = self._work
        self._work = ModelWork(
            encoder_passes=done.encoder_passes + prefill,
            forwards=done.forwards + 1,
            encoder_ms=done.encoder_ms + encoder_ms,
            prefill_ms=done.prefill_ms + (decoder_ms if prefill else 0.0),
            step_ms=done.step_ms + (0.0 if prefill else decoder_ms),
            prompt_tokens=done.prompt_tokens,
            fed_tokens=done.fed_tokens + len(tokens) - prompt_part,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A forward that a clip needs.

    Attributes:
        session: the clip on its model.
        tokens: what to feed behind the cache.
        positions: how many of the last ones to score.
    """

    session: Session
    tokens: Sequence[int]
    positions: int

    def run(self) -> torch.Tensor:
        """Makes the pass alone: [positions, vocab_size]."""
        return self.session._feed(self.tokens, self.positions)


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Something that is computed elsewhere, in another thread or on another machine.

    Attributes:
        future: its result or its error, for whoever yielded this to look at.
    """

    future: Future[Any]

    def run(self) -> None:
        """Waits until it is there, and raises nothing whatever became of it."""
        wait([self.future])


T = TypeVar("T")
Steps: TypeAlias = Generator[Pass | Wait, Any, T]
"""A computation that stops where it needs a forward: it yields the pass and is sent the scores.

Where it needs something from elsewhere it yields a `Wait`, and goes on (sent None) when that is there.
"""


def run_alone(steps: Steps[T]) -> T:
    """The result of a computation, making every forward that it needs for this clip alone."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(wanted.run())
    except StopIteration as done:
        result: T = done.value
        return result


@torch.inference_mode()
def feed_together(passes: Sequence[Pass]) -> list[torch.Tensor | DecodingError]:
    """One forward for several clips on one model.

    Args:
        passes: of different sessions on the same model with the same vocabulary.

    Returns:
        For each pass float32 [positions, vocab_size] raw logits, placeholders at -inf; or what is wrong with them.
        Of the forward's time, every session's account gets a share by the number of tokens that it fed.
    """
    model = passes[0].session.model
    encoded = [made.session._encode() for made in passes]
    started = time.perf_counter()
    heard = [audio for audio, _ in encoded if audio is not None]
    tokens = [token for made in passes for token in made.tokens]
    embeddings = model.embed(tokens, torch.cat(heard) if heard else None)[0]
    hidden = model.decode_together(embeddings, [made.session._span(len(made.tokens)) for made in passes])
    scores = _scores(passes, hidden)
    _synchronize(model)
    least_s = max(made.session.least_ms for made in passes) / 1e3
    if least_s > 0:
        time.sleep(max(least_s - (time.perf_counter() - started), 0.0))
    ms_per_token = (time.perf_counter() - started) * 1e3 / len(tokens)
    for made, (_, encoder_ms), found in zip(passes, encoded, scores, strict=True):
        if not isinstance(found, DecodingError):
            made.session._took(made.tokens, encoder_ms, ms_per_token * len(made.tokens))
    return scores


def _scores(passes: Sequence[Pass], hidden: torch.Tensor) -> list[torch.Tensor | DecodingError]:
    """What follows the last positions of each pass; `hidden` [tokens, width] holds all of them, end to end."""
    session = passes[0].session
    scored: list[torch.Tensor] = []
    end = 0
    for made in passes:
        end += len(made.tokens)
        scored.append(hidden[end - made.positions : end])
    rows = torch.cat(scored) if len(scored) > 1 else scored[0]
    logits = session.model.logits(rows)[:, : session.vocab_size]
    if len(session._banned):
        logits.index_fill_(1, session._banned, -torch.inf)
    found: list[torch.Tensor | DecodingError] = list(logits.split_with_sizes([made.positions for made in passes]))
    # NaN would choose tokens in silence (argmax takes the first one).
    if len(logits) and not _finite(logits):
        for index, part in enumerate(logits.split_with_sizes([made.positions for made in passes])):
            if len(part) and not _finite(part):
                found[index] = DecodingError(
                    f"the scores of {session.model.name} are not finite",
                    hint="float16 overflows in many models: use bfloat16 or float32, or download the checkpoint again.",
                )
    return found


def _finite(logits: torch.Tensor) -> bool:
    """Whether the likeliest token of every row has a score that is a number: [m, vocab]."""
    return all(map(math.isfinite, logits.amax(dim=-1).tolist()))


def _synchronize(model: AudioLanguageModel) -> None:
    # Forward times are part of every transcript; on a GPU they are meaningless without waiting. The loop reads
    # each token back right after, so the wait is not an extra one.
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
