"""Verifies blocks of the clips that remote edges have sent. Calls are blocking, and made from many threads.

Each clip is held as a session of the model with its cache.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from starlette.exceptions import HTTPException

from specdec_cli import __version__
from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.http import FORGOTTEN, MalformedError
from specdec_cli.decoding.accept import NO_SYNONYMS
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.guesses import Guesses, GuessTable, key_of
from specdec_cli.decoding.next_scores import Bans, NextScores
from specdec_cli.decoding.rows import read
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt, test_sound
from specdec_cli.models.session import Session
from specdec_cli.serve.bodies import in_thread
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.held_clips import HeldClip, HeldClips
from specdec_cli.serve.limits import ClipBounds, ServeLimits
from specdec_cli.serve.metrics import Metrics


class Service:
    """Verification by a loaded model: the clips that are held, and the threads that answer.

    `engine` makes the forwards; None: the service has its own.
    """

    def __init__(self, model: AudioLM, limits: ServeLimits, engine: ServeEngine | None = None) -> None:
        self.limits, self.clips = limits, HeldClips(limits)
        self.metrics = Metrics(lambda: len(self.clips), lambda: self.clips.bytes)
        self._model, self._position_bytes = model, _position_bytes(model)
        self._guess_table = GuessTable()
        self._longest_s = min(model.processor.window_s, limits.clip_s or model.processor.window_s)
        self._bounds = ClipBounds(model.processor, self._longest_s)
        self._engine = engine or ServeEngine([model], min(limits.sessions, limits.threads))
        threads = torch.get_num_threads()
        # PyTorch's number of threads holds only in the thread that sets it
        self.pool = ThreadPoolExecutor(limits.threads, "specdec clip", torch.set_num_threads, (threads,))
        self.info = _info(model)

    def open(self, id_: str, body: bytes, started: float, left: threading.Event) -> wire.Answer:
        """Holds a clip, in place of one with the same id, and verifies its block.

        Args:
            started: when the body had arrived, by `perf_counter`.
            left: an event that is set when the client no longer waits; then no further forward is made.

        Raises:
            ClientDisconnect: `left` is set.
            MalformedError: the body is inconsistent.
            HTTPException: the clip is another model's, or exceeds a limit.
            SpecdecError: the model fails.
        """
        clip, tensors = wire.unpack(wire.ClipRequest, body)
        self._require_clip(clip)
        distributions: wire.Tensors = {name: tensors.pop(name) for name in wire.DISTRIBUTIONS if name in tensors}
        self._bounds.require(clip.prompt_ids, tensors)
        draft = self._draft(clip, clip.block or wire.BlockRequest(text=[], draft=[]), distributions)
        held = self._held(id_, clip, wire.widened(tensors))
        self.clips.add(held)
        return self._answer(held, clip.block, draft, started, left)

    def verify(self, id_: str, body: bytes, started: float, left: threading.Event) -> wire.Answer:
        """Verifies a block of a clip that is held, as `open` does."""
        held = self.clips.find(id_)
        if held is None:
            raise HTTPException(404, f"{FORGOTTEN}: no such clip is held, or no longer")
        block, distributions = wire.unpack(wire.BlockRequest, body)
        return self._answer(held, block, self._draft(held.request, block, distributions), started, left)

    async def in_thread(self, act: Callable[..., wire.Answer], id_: str, body: bytes) -> wire.Answer:
        """What `open` or `verify` answers, in a thread of its own."""
        left = threading.Event()
        return await in_thread(self.pool, partial(act, id_, body, time.perf_counter(), left), left.set)

    def close(self) -> None:
        """Waits for running forwards, and ends the threads."""
        self._engine.close()
        self.pool.shutdown(cancel_futures=True)

    def _require_clip(self, clip: wire.ClipRequest) -> None:
        """Refuses a clip that is another model's, too long, or has ids outside of the model's vocabulary."""
        limits, known = self.limits, self.info.vocab_size
        if clip.identity != self.info.identity:
            raise HTTPException(409, f"the clip was made for another model than {self.info.model}")
        seconds = clip.samples / self._model.processor.sampling_rate
        if seconds > self._longest_s or clip.capacity > limits.capacity:
            found = f"the clip is {seconds:.1f} s long, and {clip.capacity} tokens follow the prompt"
            most = f"at most {self._longest_s:g} s and {limits.capacity} tokens may"
            raise HTTPException(413, f"{found}; {most}")
        if max(*clip.prompt_ids, clip.vocab_size - 1, *clip.stop_ids) >= known:
            raise MalformedError(f"an id is none of the model's, which has {known}")

    def _draft(self, clip: wire.ClipRequest, block: wire.BlockRequest, distributions: wire.Tensors) -> Draft:
        """The draft of a block. Refuses one that exceeds what the clip was opened for, or is inconsistent."""
        limits, tokens = self.limits, (*block.text, *block.draft)
        compares = bool(block.draft) and clip.acceptance.in_force(sampling=clip.scoring.sampling) == "sampling"
        if (
            len(block.draft) > limits.draft_tokens
            or block.run_on > limits.run_on_tokens
            or len(tokens) + block.run_on > clip.capacity
            or max(tokens, default=0) >= clip.vocab_size
            or not self._model.processor.placeholders.isdisjoint(tokens)
            or distributions.keys() != (set(wire.DISTRIBUTIONS) if compares else set())
        ):
            most = f"{limits.draft_tokens} drafted tokens, {limits.run_on_tokens} more, and {clip.capacity} in all"
            raise MalformedError(f"a block may have {most}, ids below {clip.vocab_size}, and what its rule needs")
        logits = wire.unpack_distributions(distributions, block.draft, clip.vocab_size).log() if compares else None
        return Draft(tuple(block.draft), None if logits is None else (logits,))

    def _held(self, id_: str, clip: wire.ClipRequest, tensors: wire.Tensors) -> HeldClip:
        prompt, model = Prompt(tuple(clip.prompt_ids), tensors), self._model
        session = self._engine.session(model, prompt, clip.capacity, clip.vocab_size)
        name, most = model.weights or model.name, clip.guess_tokens
        key = key_of(name, "cloud", prompt.ids)
        guesses = Guesses(self._guess_table, key, most, clip.longest)
        scores = NextScores(session, clip.scoring, clip.stop_ids, guesses, self._bans(clip.sound))
        synonyms = clip.synonyms or NO_SYNONYMS
        verifier = LocalVerifier(lambda: scores, clip.acceptance, clip.longest, clip.top_n or 0, synonyms)
        # scores are kept after the prompt, and of guesses that may be accepted
        scores_bytes = 4 * clip.vocab_size * (1 + clip.guess_tokens)
        taken = self._position_bytes * (len(prompt.ids) + clip.capacity) + scores_bytes
        return HeldClip(id_, clip, verifier, taken + sum(tensor.nbytes for tensor in tensors.values()))

    def _bans(self, sound: wire.ClipFigures | None) -> Bans | None:
        """What the sound of a clip bans, by the shipped lexicon. Refuses attributes without limits."""
        if sound is None:
            return None
        lexicon = Lexicon.shipped()
        try:
            words = class_words(lexicon, lexicon.limited(sound.attributes), self._model.processor)
        except ConfigError as error:
            raise MalformedError(error.message) from error
        return Grounding(lexicon, sound.language, sound.measured, words).banned

    def _answer(
        self, held: HeldClip, block: wire.BlockRequest | None, draft: Draft, started: float, left: threading.Event
    ) -> wire.Answer:
        verdict, verifier = None, held.verifier
        with held.lock, self._engine.request(left):
            try:
                if block is None:
                    verifier.prefill()
                else:
                    verdict = verifier.verify(block.text, draft, block.run_on)
                    self.metrics.drafted.inc(len(draft.ids))
                    self.metrics.accepted.inc(verdict.accepted)
                    held.write(block, verdict)
            except (ValueError, IndexError, RuntimeError) as error:
                # all else is the server's failure: memory, a device, scores that are not finite
                prompt = verifier.session.prompt
                if self._bounds.fit(prompt.ids, prompt.audio, held.request.samples):
                    raise
                what = "the model cannot read the clip: ids and tensors do not fit each other"
                raise MalformedError(what) from error
            work = verifier.work
        return wire.Answer(verdict=verdict, work=work, cloud_ms=(time.perf_counter() - started) * 1e3)


def _info(model: AudioLM) -> wire.Info:
    processor, shown = model.processor, model.describe()
    name, dtype, prints = shown["name"], shown["dtype"], processor.fingerprints()
    facts = repr((name, dtype, model.weights, prints, processor.vocab_size, processor.eos_ids))
    return wire.Info(
        protocol=wire.PROTOCOL,
        server=__version__,
        model=name,
        dtype=dtype,
        device=shown["device"],
        weights=model.weights,
        **prints,
        identity=f"sha256:{hashlib.sha256(facts.encode()).hexdigest()[:32]}",
        vocab_size=processor.vocab_size,
        eos_ids=list(processor.eos_ids),
        lexicon=Lexicon.shipped().digest,
    )


def _position_bytes(model: AudioLM) -> int:
    """Bytes of a position in the cache, measured on a second of sound. Raises ScoresError if the model fails on it."""
    processor = model.processor
    session = Session(model, processor.prompt(test_sound(1.0, processor.sampling_rate), "How?"), 1)
    read(session.logits(()))[0].require_finite(model.name)  # scores that are not finite would fail every clip
    assert session.cache is not None
    layers = session.cache.layers
    taken: float = sum((layer.keys.nbytes + layer.values.nbytes) / layer.keys.shape[-2] for layer in layers)
    return math.ceil(taken)
