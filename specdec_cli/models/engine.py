"""The engine: makes the forwards of all clips, together if several wait for one model.

Each clip is decoded in a thread of its own. One forward serves all clips that wait for a model. Clips in slots of fixed
memory (see `Slots`) share a recorded forward, padded to one shape, which costs a GPU next to nothing. Clips with caches
that grow lie end to end, with a block-diagonal mask: a CPU would pay for every padded token. A clip's first pass, which
runs the audio encoder, is made in the clip's thread, several at a time.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from specdec_cli.errors import DecodingError, as_specdec_error
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session

_log = logging.getLogger(__name__)

MOST_CLIPS: Final = 16
"""Clips that share a forward at most."""

_SMALL: Final = 100_000_000  # weights up to which one core makes a decoding step faster than several busy ones

_Wanted: TypeAlias = tuple[Session, Sequence[int], int]
"""The scores that a clip waits for: session, text and positions of a call of `Session.logits`."""
_Scores: TypeAlias = "torch.Tensor | BaseException"


@dataclass(slots=True, eq=False)
class _Job:
    wanted: _Wanted
    counted: bool  # whether the waiting thread counts as a clip at work
    future: Future[torch.Tensor] = field(default_factory=Future)


class _JointSession(Session):
    """A session whose forwards an engine makes, together with those of other clips."""

    can_step = False

    def __init__(self, engine: Engine, model: AudioLM, prompt: Prompt, capacity: int, vocab_size: int | None) -> None:
        super().__init__(model, prompt, capacity, vocab_size)
        self._engine = engine

    def logits(self, text_ids: Sequence[int], positions: int = 1) -> torch.Tensor:
        """See the base class."""
        return self._engine.logits(self, text_ids, positions)


class Engine(AbstractContextManager["Engine"]):
    """Makes forwards for several clips, one at a time for each model. Use it as a context manager.

    A forward starts only when no clip is at work between two forwards: then it serves as many clips as possible.

    Args:
        models: models that get `clips` slots, if they have slots at all.
        clips: how many clips are decoded at a time.
        encoders: how many audio encoders run at a time, in the threads of their clips.
        threads: PyTorch's threads for each forward that is made here; None: as in the creating thread.
    """

    def __init__(
        self, models: Iterable[AudioLM] = (), clips: int = 1, encoders: int = 1, threads: int | None = None
    ) -> None:
        for model in models:
            model.reserve(min(clips, MOST_CLIPS))
        self._encoding = threading.BoundedSemaphore(encoders)
        # the number of threads is a setting of the calling thread
        count = (threads or torch.get_num_threads(),)
        self._servers = ThreadPoolExecutor(None, "specdec model", torch.set_num_threads, count)
        self._lock, self._local = threading.RLock(), threading.local()
        self._waiting: defaultdict[AudioLM, deque[_Job]] = defaultdict(deque)
        self._served: set[AudioLM] = set()  # models whose forward is running
        self._at_work, self._closed = 0, False

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def clip(self) -> Iterator[None]:
        """Within the block this thread decodes a clip. A forward starts only when all such threads wait for one.

        At the end of the block the sessions that this thread opened in it are closed, which frees their slots.
        """
        self._local.opened = list[weakref.ref[Session]]()
        try:
            with self._counting(True):
                yield
        finally:
            for session in self._local.__dict__.pop("opened"):
                if (left := session()) is not None:
                    left.close()

    def session(self, model: AudioLM, prompt: Prompt, capacity: int, vocab_size: int | None = None) -> Session:
        """A session whose forwards are made here. It ends with the clip of this thread, if that is within `clip`."""
        made = _JointSession(self, model, prompt, capacity, vocab_size)
        if (opened := getattr(self._local, "opened", None)) is not None:
            opened.append(weakref.ref(made))
        return made

    def step_aside(self) -> AbstractContextManager[None]:
        """Within the block forwards of other clips do not wait for this thread."""
        return self._counting(False)

    @contextmanager
    def encoder_turn(self) -> Iterator[None]:
        """Waits until an audio encoder may run; within the block it runs in this thread."""
        with self.step_aside(), self._encoding:
            yield

    def close(self) -> None:
        """Waits for the running forwards. Clips that are still queued fail."""
        with self._lock:
            self._closed = True
        self._servers.shutdown()
        for job in chain.from_iterable(self._waiting.values()):
            job.future.set_exception(_shut_down())
        self._waiting.clear()

    def logits(self, session: Session, text_ids: Sequence[int], positions: int) -> torch.Tensor:
        """See `Session.logits`; blocks until the scores are there."""
        if not session.is_read or not text_ids:
            with self.encoder_turn():
                return Session.logits(session, text_ids, positions)
        job = _Job((session, tuple(text_ids), positions), getattr(self._local, "counted", False))
        with self._lock:
            if self._closed:
                raise _shut_down()
            self._waiting[session.model].append(job)
            self._count_at_work(-job.counted)
        return job.future.result()

    @contextmanager
    def _counting(self, counted: bool) -> Iterator[None]:
        before, self._local.counted = getattr(self._local, "counted", False), counted
        self._count_at_work(counted - before)
        try:
            yield
        finally:
            self._local.counted = before
            self._count_at_work(before - counted)

    def _count_at_work(self, change: int) -> None:
        """Counts clips at work. When none is, starts a forward of every model that a clip waits for."""
        with self._lock:
            self._at_work += change
            if self._at_work > 0 or self._closed:
                return
            for model, queue in self._waiting.items():
                if queue and model not in self._served:
                    self._served.add(model)
                    most = MOST_CLIPS if model.joins else 1
                    self._servers.submit(self._serve, model, [queue.popleft() for _ in range(min(len(queue), most))])

    def _serve(self, model: AudioLM, jobs: Sequence[_Job]) -> None:
        found = _forward([job.wanted for job in jobs])
        with self._lock:
            self._served.remove(model)
            # all count as at work before the first one resumes: otherwise another model would serve that one alone
            self._count_at_work(sum(job.counted for job in jobs))
        for job, scores in zip(jobs, found, strict=True):
            if isinstance(scores, torch.Tensor):
                job.future.set_result(scores)
            else:
                job.future.set_exception(as_specdec_error(scores, _log))


def encoders_and_threads(models: Iterable[AudioLM]) -> tuple[int, int]:
    """How many audio encoders should run at a time, and how many threads PyTorch should use for a forward.

    On several cores, small models' clips are encoded faster side by side, one core each, than one after another on all
    cores: an encoder is a few large products, but a decoding step many small ones.
    """
    small = all(model.parameters <= _SMALL and model.device.type == "cpu" for model in models)
    return (torch.get_num_threads(), 1) if small else (1, torch.get_num_threads())


def _shut_down() -> DecodingError:
    return DecodingError("the models are shutting down")


def _forward(wanted: Sequence[_Wanted]) -> list[_Scores]:
    """One forward for all clips. If it fails, each clip is tried alone, so that only the culprit fails.

    Returns for each clip its scores, or the error of its forward.
    """
    if len(wanted) > 1:
        try:
            return forward_together(wanted)
        except Exception as error:
            _log.warning("%d clips could not share a forward, trying them one by one: %s", len(wanted), error)
    found: list[_Scores] = []
    for session, text_ids, positions in wanted:
        try:
            found.append(Session.logits(session, text_ids, positions))
        except BaseException as error:
            found.append(error)
    return found


@torch.inference_mode()
def forward_together(wanted: Sequence[_Wanted]) -> list[_Scores]:
    """One forward for several clips on one model; their prompts must be cached.

    Returns for each clip what `Session.logits` does. The forward's time is divided by the clips' tokens. If anything
    fails, in the forward or after it, the error is raised and every clip is as it was.
    """
    model = wanted[0][0].model
    feeds = [session.align(text_ids, positions) for session, text_ids, positions in wanted]
    caches = [session.cache for session, *_ in wanted if session.cache is not None]
    if len(caches) < len(wanted) or not all(feeds):
        raise DecodingError("a clip's prompt has to be fed again, which no joint forward does")
    starts = [session.length for session, *_ in wanted]
    counts = [min(positions, len(feed)) for feed, (_, _, positions) in zip(feeds, wanted, strict=True)]
    started = time.perf_counter()
    try:
        if model.slots is not None and all(map(model.slots.holds, caches, map(len, feeds))):
            made = model.slots.logits(feeds, caches)
            parts: Sequence[torch.Tensor] = [rows[-count:] for rows, count in zip(made, counts, strict=True)]
        else:
            parts = _forward_end_to_end(model, feeds, starts, caches, counts)
        model.synchronize()
        ms = (time.perf_counter() - started) * 1e3 / sum(map(len, feeds))
        found: list[_Scores] = [
            session.vocabulary_rows(part, positions, len(text_ids))
            for (session, text_ids, positions), part in zip(wanted, parts, strict=True)
        ]
    except BaseException:
        for cache, start in zip(caches, starts, strict=True):
            for layer in cache.layers:  # some may be ahead of others
                if (excess := layer.get_seq_length() - start) > 0:
                    layer.crop(-excess)
        raise
    for (session, *_), feed in zip(wanted, feeds, strict=True):
        session.fed.extend(feed)
        session.account(len(feed), ms * len(feed), 0.0, 0)
    return found


def _forward_end_to_end(
    model: AudioLM, feeds: Sequence[Sequence[int]], starts: Sequence[int], caches: Sequence[Cache], rows: Sequence[int]
) -> Sequence[torch.Tensor]:
    """One forward of all clips' tokens end to end; returns the logits of the last `rows` tokens of each clip.

    Raises DecodingError if they are not finite: masked values are multiplied by 0, so NaN in one clip would be NaN in
    all.
    """
    sizes = [len(feed) for feed in feeds]
    spans = [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    scored = [torch.arange(end - count, end) for end, count in zip(accumulate(sizes), rows, strict=True)]
    # which tokens attend to which, each clip causally to itself: bool [sum of sizes, sum of lengths]
    mask = torch.block_diag(*(torch.ones(end - start, end, dtype=torch.bool).tril(start) for start, end in spans))  # type: ignore[no-untyped-call]
    logits, _, _ = model.forward(
        [token for feed in feeds for token in feed],
        torch.cat([torch.arange(*span) for span in spans]),
        Cache(layers=[_Joined(layers, sizes) for layers in zip(*(cache.layers for cache in caches), strict=True)]),
        torch.cat(scored),
        mask=mask[None, None].to(model.device),
    )
    if not logits.amax(-1).isfinite().all():
        raise DecodingError("scores of a clip are not finite")
    return logits.split_with_sizes(list(rows))


class _Joined(DynamicLayer):  # type: ignore[misc]
    """One layer of several clips' caches: new keys go to their clips, and all clips' keys come back end to end."""

    def __init__(self, layers: Sequence[Any], sizes: Sequence[int]) -> None:
        super().__init__()
        self._layers, self._sizes = layers, list(sizes)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [1, heads, sum of sizes, width] -> those of all clips, cached ones included."""
        keys, values = (states.split_with_sizes(self._sizes, -2) for states in (key_states, value_states))
        new = zip(self._layers, keys, values, strict=True)
        both = [layer.update(own_keys, own_values) for layer, own_keys, own_values in new]
        return torch.cat([keys for keys, _ in both], -2), torch.cat([values for _, values in both], -2)

    def get_seq_length(self) -> int:
        """Positions of all clips."""
        return sum(layer.get_seq_length() for layer in self._layers)
