"""A vLLM server as the cloud: an engine for those who outgrow one verify server.

It keeps no clip's keys and values between verifications, but recordings by id, and it takes the waveform itself: the
log-mel features are computed there.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

from specdec_cli.cloud.cloud import Payload
from specdec_cli.cloud.connection import Request
from specdec_cli.cloud.http import Caller, Http, RefusedError
from specdec_cli.cloud.protocol import parse
from specdec_cli.cloud.server import Server, misfit
from specdec_cli.cloud.vllm_rules import Judged, VllmRules, unserved
from specdec_cli.cloud.vllm_wire import (
    GENERATE,
    MODELS,
    MOST_CANDIDATES,
    TOKENIZE,
    VERSION,
    Models,
    Question,
    Recording,
    Scored,
    Tokens,
    Version,
    checked,
    data_url,
    read_answer,
    with_one_placeholder,
)
from specdec_cli.config import CloudConfig, Config
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import ModelWork

T = TypeVar("T")

_START_S: Final = 120.0
"""Seconds that the first requests may take: a server that was just started may still be compiling."""

_MOST_BYTES: Final = 1 << 26  # of an answer; 20 candidates for each of 30,000 positions take about this
_PROBES: Final = 5
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"


class VllmCloud(Server):
    """A vLLM server, for any number of clips at once. See `RemoteCloud`.

    The model behind it is taken to have the processor's prompt format and eos ids; that cannot be requested. Its
    tokenizer and vocabulary are compared by trying them. A server that is not reached when this is made is tried again
    when a clip needs it.

    Args:
        config: with a `url`, the `model` as the server names it, and leave to send it recordings.
        processor: makes the prompts.
        own: whether it was loaded for this cloud; otherwise it is the edge's.

    Raises:
        ConfigError: the token or the certificates are not there, or the server lacks what is needed.
        TokenizerMismatchError: its token ids have other meanings.
    """

    payload: Payload = "waveform"

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        if config.url is None or config.model is None or not config.allow_audio_upload:
            raise ConfigError("a vLLM cloud needs cloud.url, cloud.model, and cloud.allow_audio_upload: true")
        super().__init__(processor, Http(config, "application/json", _MOST_BYTES, checked), own=own)
        self.model = config.model
        self.context: int | None = None
        self.start(max(config.timeout_s, _START_S))

    @property
    def reached(self) -> bool:
        """Whether the server has answered, and fits."""
        return self.context is not None

    def describe(self) -> dict[str, str]:
        """The address, and the name of the model behind it; vLLM gives no more."""
        return {"name": self.name, "serves": self.model, "dtype": "unknown", "device": "unknown"}

    def verifier(self, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]) -> VllmVerifier:
        """Judges the blocks of one clip; see `RemoteCloud.verifier`."""
        if (why := unserved(config, self.processor)) is not None:
            raise DecodingError(
                f"a vLLM cloud gives the likeliest tokens only, and {why}",
                hint="Use greedy acceptance at temperature 0 without penalties, or a cloud of specdec serve.",
            )
        return VllmVerifier(self, prompt, config, vocab_size, stop_ids)

    def probe(self) -> str:
        """Version and round trip; see `RemoteCloud.probe`."""
        found, trip = self.timed(VERSION, lambda body: parse(Version, body))
        return f"{self.name}: {self.model}, vLLM {found.version}, {trip}"

    def connect(self, caller: Caller) -> None:
        """See `Server`."""
        self.connected(caller)

    def connected(self, caller: Caller) -> int:
        """Positions that the model takes; the first time, finds out whether the server fits.

        Raises:
            CloudError: it cannot be reached, or it does not fit.
        """
        if self.context is None:
            context = self._served(caller)
            self._compare_tokens(caller)
            # A question like those that will come, about no recording: it shows whether the last id exists there, too.
            ids = (*self.processor.tokenizer(_PROBE, add_special_tokens=False).input_ids, self.vocab_size - 1)
            question = Question(ids, len(ids), 1, 1, MOST_CANDIDATES)
            body = question.body(self.model, None, self.processor.eos_ids)
            _set_up(caller, Request("POST", GENERATE, body), lambda found: read_answer(found, question))
            self.context = context
        return self.context

    def _served(self, caller: Caller) -> int:
        """The context of the model, which the server has."""
        models = _set_up(caller, Request("GET", MODELS), lambda body: parse(Models, body)).data
        context = next((each.max_model_len for each in models if each.id == self.model), None)
        if context is None:
            names = ", ".join(sorted(each.id[:100] for each in models)) or "nothing"
            raise misfit(
                f"the vLLM server at {self.name} serves {names}, not {self.model}",
                "Set cloud.model to the name under which it serves the model (vllm's --served-model-name).",
            )
        return context

    def _compare_tokens(self, caller: Caller) -> None:
        tokenizer = self.processor.tokenizer
        specials = sorted({*self.processor.eos_ids, self.processor.placeholder_id})
        text = _PROBE + "".join(tokenizer.convert_ids_to_tokens(specials))
        request = {"model": self.model, "prompt": text, "add_special_tokens": False}
        body = json.dumps(request).encode()
        theirs = _set_up(caller, Request("POST", TOKENIZE, body), lambda found: parse(Tokens, found)).tokens
        ours = tokenizer(text, add_special_tokens=False).input_ids
        if theirs != ours:
            raise misfit(
                f"{self.role} {self.processor.name} and cloud {self.model} at {self.name} have different tokenizers "
                f"(the same text is {len(ours)} tokens for one and {len(theirs)} for the other, or others)",
                "Drafted ids would mean other words to the cloud. Name its checkpoint in cloud.processor.",
                TokenizerMismatchError,
            )


class VllmVerifier:
    """Judges the blocks of one clip with a vLLM server. See `Verifier`; one thread at a time calls it.

    The recording goes out with the first question, or with `prefill`, under an id that nobody can guess; a server that
    has dropped it is sent it again.

    Args:
        cloud: the server.
        prompt, config, vocab_size, stop_ids: see `RemoteCloud.verifier`.

    Raises:
        DecodingError: the prompt holds no recording.
    """

    elsewhere = True

    def __init__(
        self, cloud: VllmCloud, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]
    ) -> None:
        if prompt.waveform is None:
            raise DecodingError(f"the cloud at {cloud.name} takes the recording itself, and was not given it")
        processor = cloud.processor
        self._cloud = cloud
        self._waveform = prompt.waveform
        self._prompt = with_one_placeholder(prompt.ids, processor.placeholder_id)
        self._prompt_tokens = len(prompt.ids)
        self._capacity = capacity(config.decoding)
        self._rules = VllmRules(config.acceptance, frozenset(processor.banned_ids), vocab_size)
        self._stop_ids = tuple(sorted(stop_ids))
        self._caller = Caller(cloud.http)
        self._uuid = uuid.uuid4().hex
        self._recordings = self._passes = self._fed = 0
        self._cloud_ms = 0.0

    @property
    def work(self) -> ModelWork:
        """What the server did for this clip. It computes the prompt anew each time, and gives no times."""
        return ModelWork(
            encoder_passes=self._recordings,
            forwards=self._passes,
            step_ms=self._cloud_ms,
            prompt_tokens=self._prompt_tokens,
            fed_tokens=self._fed,
            bytes_up=self._caller.traffic.bytes_up,
        )

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The server's verdict. Raises CloudError where there is none."""
        started, before, down = time.perf_counter(), self.work, self._caller.traffic.bytes_down
        with self._caller.call():
            judged = self._judged(text, draft.ids, 1 + run_on)
            tokens = self._until_stop(judged.tokens)
            while len(tokens) < 1 + run_on and tokens[-1] not in self._stop_ids:
                written = (*text, *draft.ids[: judged.accepted], *tokens)
                further = self._judged(written, (), 1 + run_on - len(tokens))
                tokens = self._until_stop((*tokens, *further.tokens))
        after, elapsed_ms = self.work, (time.perf_counter() - started) * 1e3
        cloud_ms = after.step_ms - before.step_ms
        return Verdict(
            judged.accepted,
            tokens[0],
            tokens[1:],
            judged.near_ties,
            cloud_ms,
            after.encoder_passes > before.encoder_passes,
            max(elapsed_ms - cloud_ms, 0.0),
            after.bytes_up - before.bytes_up,
            self._caller.traffic.bytes_down - down,
        )

    def prefill(self) -> None:
        """Sends the recording ahead of need; raises as `verify` does."""
        with self._caller.call():
            if not self._recordings:
                self._scored((), 0, 1, 1)

    def close(self) -> None:
        """Ends a call under way; the server drops recordings by itself."""
        self._caller.close()

    def _until_stop(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens up to the first one that ends a text."""
        ends = [at for at, token in enumerate(tokens) if token in self._stop_ids]
        return tokens[: ends[0] + 1] if ends else tokens

    def _judged(self, text: Sequence[int], draft: tuple[int, ...], tokens: int) -> Judged:
        """The rule's judgement, and up to `tokens` tokens of the cloud's own.

        Raises:
            CloudError: all of the candidates that a server gives are banned.
        """
        for candidates in (self._rules.candidates, MOST_CANDIDATES):
            scored = self._scored((*text, *draft), len(draft), tokens, candidates)
            judged = self._rules.judge(draft, scored, at_most=candidates == MOST_CANDIDATES)
            if judged is not None:
                return judged
        raise CloudError(f"the likeliest {MOST_CANDIDATES} tokens of the cloud at {self._cloud.name} are all banned")

    def _scored(self, ids: tuple[int, ...], drafted: int, tokens: int, candidates: int) -> Scored:
        """The answer to one question, with the recording if the server does not have it."""
        context = self._cloud.connected(self._caller)
        if self._prompt_tokens + self._capacity > context:
            raise RefusedError(
                f"the cloud at {self._cloud.name} takes {context} tokens, but the prompt has {self._prompt_tokens} "
                f"(audio included) and {self._capacity} may follow",
                hint="Use a shorter prompt, a smaller decoding.max_new_tokens, or shorter pieces with audio.segment_s.",
                about_clip=True,
            )
        question = Question((*self._prompt, *ids), self._prompt_tokens + len(ids), drafted, tokens, candidates)
        if self._recordings:
            try:
                return self._exchanged(question, None)
            except RefusedError as error:
                if error.code != "400" or "cache miss" not in error.message.lower():
                    raise
        scored = self._exchanged(question, data_url(self._waveform, self._cloud.processor.sampling_rate))
        self._recordings += 1
        return scored

    def _exchanged(self, question: Question, url: str | None) -> Scored:
        traffic = self._caller.traffic
        before_s = traffic.silent_s
        body = question.body(self._cloud.model, Recording(self._uuid, url), self._stop_ids)
        scored = self._caller.fetch(Request("POST", GENERATE, body), lambda found: read_answer(found, question))
        # The server gives no times: its silence, less the shortest silence so far, stands for them.
        self._cloud_ms += max(traffic.silent_s - before_s - self._cloud.http.shortest_s, 0.0) * 1e3
        self._passes += len(scored.generated)  # the first comes with reading the question, each other one with a step
        self._fed += question.length - self._prompt_tokens + len(scored.generated) - 1
        return scored


def _set_up(caller: Caller, request: Request, read: Callable[[bytes], T]) -> T:
    """As `Caller.fetch`, but what the server refuses at the start is a mistake of set-up."""
    try:
        return caller.fetch(request, read)
    except RefusedError as error:
        hint = "Start vLLM with --enable-scale-out." if error.code == "404" else error.hint
        raise misfit(error.message, hint) from error
