"""What a server does with a clip and with questions about it, whatever brings them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from specdec_cli import __version__
from specdec_cli.cloud import fingerprint
from specdec_cli.cloud.protocol import (
    PROTOCOL,
    Clip,
    Info,
    Limits,
    MalformedError,
    Question,
    Rules,
    Work,
    pack,
    rows_bytes,
    unpack_features,
    unpack_rows,
)
from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.errors import DecodingError
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel, PromptInputs
from specdec_cli.models.session import Session, Steps
from specdec_cli.models.vocabulary import usable_vocab_size
from specdec_cli.serve.feeder import Feeder
from specdec_cli.serve.limits import Refusal, ServeLimits
from specdec_cli.serve.logs import event
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.sessions import Held, Sessions, Why

_TEST_SOUND_S = 1.0


class SentDraft(Draft):
    """A draft whose `scores` are the probabilities themselves: they came over the wire."""

    def probabilities(self) -> torch.Tensor:
        """[m, vocab]."""
        return self.scores


class Service:
    """A loaded model, the clips that it holds, and the thread that uses it.

    Args:
        model: the cloud.
        limits: bounds.
        together: most clips in one forward.
    """

    def __init__(self, model: AudioLanguageModel, limits: ServeLimits, *, together: int = 16) -> None:
        self.metrics = Metrics()
        self.limits = limits
        self._model = model
        self._sound = model.features(np.zeros((round(_TEST_SOUND_S * model.sampling_rate),), dtype=np.float32))
        self._position_bytes = self._rehearse()
        self.sessions = Sessions(limits.sessions, limits.memory_bytes, limits.idle_s, self._forgot)
        self._feeder = Feeder(together, self.metrics)
        self.info = self._describe()

    def hear(self, id_: str, clip: Clip, numbers: memoryview) -> Held:
        """Holds a clip, new or as it is if it came again.

        Raises:
            MalformedError: it contradicts itself.
            Refusal: it is made for another model, or goes beyond a limit.
        """
        if clip.identity != self.info.identity:
            raise Refusal(409, "other_model", f"the clip was made for another model than {self.info.model}")
        size = 2 * clip.bins * clip.frames
        named = hashlib.sha256(pack(clip.model_copy(update={"question": None}), bytes(numbers[:size]))).hexdigest()
        known = self.sessions.find(id_)
        if known is not None and known.clip == named:
            return known
        self._require_bounds(clip)
        values = unpack_features(numbers[:size], clip.bins, clip.frames)
        inputs = PromptInputs(tuple(clip.prompt_ids), AudioFeatures(torch.from_numpy(values), clip.frames))
        self._require_prompt(inputs)
        options = _options(clip.rules)
        try:
            session = Session(self._model, inputs, clip.capacity, clip.vocab_size)
        except DecodingError as error:
            raise Refusal(413, "too_large", error.message) from None
        processors = ScoreProcessors(options, inputs.ids, self._model.eos_ids, self._model.device)
        generator = torch.Generator().manual_seed(options.seed)
        verifier = SessionVerifier(session, processors, options, generator, clip.stop_ids)
        taken = self._position_bytes * (len(inputs.ids) + clip.capacity) + values.nbytes
        held = Held(id_, named, verifier, options, clip.capacity, clip.vocab_size, taken)
        self.sessions.add(held)
        return held

    def read(self, held: Held) -> Future[None]:
        """Lets the model read a clip ahead of need."""
        return self._submit(held, held.verifier.prefill)

    def judge(self, held: Held, question: Question, numbers: memoryview) -> Future[Verdict]:
        """Judges a draft.

        Raises:
            MalformedError: the question goes beyond what the clip was opened for, or contradicts itself.
        """
        draft = self._draft(held, question, numbers)
        text = tuple(question.text)

        def begin() -> Steps[Verdict]:
            held.verifier.rollback(text)
            return held.verifier.verify(text, draft, question.more)

        return self._submit(held, begin)

    def work(self, held: Held) -> Work:
        """What the model has done for a clip."""
        done = asdict(held.verifier.work)
        del done["bytes_up"]
        return Work(**done)

    @property
    def waiting(self) -> int:
        """Requests that wait for the model."""
        return self._feeder.waiting

    def close(self) -> None:
        """Finishes what is being computed, and forgets all clips."""
        self._feeder.close()
        self.sessions.clear()

    def _submit(self, held: Held, begin: Callable[[], Steps[Any]]) -> Future[Any]:
        if self._feeder.waiting >= self.limits.waiting:
            raise Refusal(503, "busy", f"{self.limits.waiting} requests wait already")
        held.busy += 1
        return self._feeder.submit(held, begin)

    def _rehearse(self) -> int:
        """Runs the model once over silence: does it work, and how many bytes does a position take?"""
        inputs = self._model.build_prompt("", self._sound)
        session = Session(self._model, inputs, 1)
        session.advance((), 1)
        return -(-session.cache_bytes // (len(inputs.ids) + 1))

    def _describe(self) -> Info:
        model, limits = self._model, self.limits
        told = model.describe()
        tokenizer, features = fingerprint.of_tokenizer(model), fingerprint.of_features(model)
        prompt = fingerprint.of_prompts(model)
        vocab_size = usable_vocab_size(model)
        return Info(
            protocol=PROTOCOL,
            server=__version__,
            model=told["name"],
            dtype=told["dtype"],
            device=told["device"],
            weights=model.weights,
            tokenizer=tokenizer,
            features=features,
            prompt=prompt,
            identity=fingerprint.combined(
                told["name"], told["dtype"], model.weights, tokenizer, features, prompt, vocab_size, model.eos_ids
            ),
            vocab_size=vocab_size,
            eos_ids=list(model.eos_ids),
            context=model.context,
            window_s=min(model.window_s, limits.clip_s or model.window_s),
            limits=Limits(
                body_bytes=limits.body_bytes,
                text_tokens=limits.text_tokens,
                draft_tokens=limits.draft_tokens,
                more_tokens=limits.more_tokens,
            ),
        )

    def _require_bounds(self, clip: Clip) -> None:
        """Refuses a clip that is too long, or for another extractor."""
        bins, per_s = len(self._sound.values), self._sound.frames / _TEST_SOUND_S
        if clip.bins != bins:
            raise MalformedError(f"the features have {clip.bins} mel bins, and the model hears {bins}")
        if clip.frames > self.info.window_s * per_s:
            seconds = clip.frames / per_s
            raise Refusal(413, "too_large", f"the clip is {seconds:.1f} s long, and may be {self.info.window_s:g} s")
        if clip.capacity > self.limits.text_tokens:
            raise Refusal(
                413, "too_large", f"{clip.capacity} tokens would follow the prompt, and {self.limits.text_tokens} may"
            )
        if clip.vocab_size > self.info.vocab_size:
            raise MalformedError(f"the vocabulary has {self.info.vocab_size} ids, not {clip.vocab_size}")

    def _require_prompt(self, inputs: PromptInputs) -> None:
        """Refuses ids that the model does not have, and another number of placeholders than the clip has audio."""
        placeholders = set(self._model.placeholder_ids)
        expected = [id_ for id_ in self._model.build_prompt("", inputs.features).ids if id_ in placeholders]
        if [id_ for id_ in inputs.ids if id_ in placeholders] != expected:
            raise MalformedError(f"the prompt does not hold {len(expected)} placeholders for the clip's audio")
        if max(inputs.ids) >= self.info.vocab_size:
            raise MalformedError("the prompt holds ids that the model does not have")

    def _draft(self, held: Held, question: Question, numbers: memoryview) -> Draft:
        tokens = (*question.text, *question.draft)
        if len(question.draft) > self.limits.draft_tokens or len(tokens) + 1 + question.more > held.capacity + 1:
            raise MalformedError(f"{len(tokens)} tokens and {question.more} more do not fit into {held.capacity}")
        if question.more > self.limits.more_tokens:
            raise MalformedError(f"a verification may run on by {self.limits.more_tokens} tokens")
        banned = set(self._model.placeholder_ids)
        if any(id_ >= held.vocab_size or id_ in banned for id_ in tokens):
            raise MalformedError("an id is out of range, or stands for audio")
        wanted = len(question.draft) if held.options.rule == "sampling" else 0
        counts = question.rows or []
        if len(counts) != wanted or len(numbers) != rows_bytes(counts):
            raise MalformedError(f"{wanted} distributions were expected with this rule and draft")
        if not wanted:
            return Draft(tuple(question.draft), torch.empty(len(question.draft), 0))
        return SentDraft(tuple(question.draft), torch.from_numpy(unpack_rows(numbers, counts, held.vocab_size)))

    def _forgot(self, why: Why) -> None:
        self.metrics.forgot(why)
        event("forgotten", logging.DEBUG, why=why)


def _options(rules: Rules) -> DecodingOptions:
    """The settings as the decoding code takes them.

    Raises:
        MalformedError: they contradict each other.
    """
    try:
        given = rules.model_dump(exclude={"rule"})
        return DecodingOptions(**given, acceptance=rules.rule, mode="hybrid")
    except DecodingError as error:
        raise MalformedError(error.message) from None
