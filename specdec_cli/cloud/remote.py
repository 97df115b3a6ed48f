"""`specdec serve` as the cloud: a client of the protocol in `cloud.protocol`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Final

from specdec_cli.cloud.answers import HINTS, checked, require_possible
from specdec_cli.cloud.cloud import Payload
from specdec_cli.cloud.connection import Request
from specdec_cli.cloud.http import Caller, Http, RefusedError
from specdec_cli.cloud.numbers import pack_rows, pack_tensors
from specdec_cli.cloud.protocol import (
    MAX_ANSWER_BYTES,
    PROTOCOL,
    Answer,
    Clip,
    Info,
    MalformedError,
    Question,
    digest,
    pack,
    parse,
)
from specdec_cli.cloud.server import Server, misfit
from specdec_cli.config import CloudConfig, Config
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import ModelWork

_INFO: Final = "/v1/info"


class HttpCloud(Server):
    """A verify server, for any number of clips at once. See `RemoteCloud`.

    A clip that exceeds the server's limits is degraded.

    Args:
        config: with a `url`.
        processor: makes the prompts.
        own: whether it was loaded for this cloud; otherwise it is the edge's, whose tokenizer the server must share.

    Raises:
        ConfigError: the token or the certificates are not there or not accepted, the server makes other prompts, or
            it would be sent recordings without leave.
        TokenizerMismatchError: its token ids have other meanings.
    """

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        self.payload: Payload = "waveform" if processor.family.payload == "waveform" else "features"
        if self.payload == "waveform" and not config.allow_audio_upload:
            raise ConfigError(
                f"{processor.name} takes recordings, not features of them, and cloud.allow_audio_upload is false",
                hint="Recordings would leave this machine. Allow it, or use a model that takes log-mel features.",
            )
        http = Http(config, "application/octet-stream", MAX_ANSWER_BYTES, checked)
        super().__init__(processor, http, own=own)
        self.info: Info | None = None
        self.start()

    @property
    def reached(self) -> bool:
        """Whether the server has described itself, and fits."""
        return self.info is not None

    def describe(self) -> dict[str, str]:
        """The address, and how the server describes its model."""
        if self.info is None:
            return {"name": self.name, "dtype": "unknown", "device": "unknown"}
        shown = {"name": self.name, "serves": self.info.model, "dtype": self.info.dtype, "device": self.info.device}
        return shown if self.info.weights is None else {**shown, "weights": self.info.weights}

    def verifier(self, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]) -> RemoteVerifier:
        """Judges the blocks of one clip; see `RemoteCloud.verifier`."""
        return RemoteVerifier(self, prompt, config, vocab_size, stop_ids)

    def probe(self) -> str:
        """Versions and round trip; see `RemoteCloud.probe`."""
        info, trip = self.timed(_INFO, lambda body: parse(Info, body))
        return f"{self.name}: {info.model}, specdec {info.server}, protocol {info.protocol}, {trip}"

    def connect(self, caller: Caller) -> None:
        """See `Server`."""
        self.described(caller)

    def described(self, caller: Caller) -> Info:
        """The server's description of itself; requested once."""
        if self.info is None:
            info = caller.fetch(Request("GET", _INFO), lambda body: parse(Info, body))
            self._require_fit(info)
            self.info = info
        return self.info

    @cached_property
    def _ours(self) -> dict[str, str]:
        return self.processor.fingerprints()

    def _require_fit(self, info: Info) -> None:
        """Raises CloudError if the server cannot be used with this processor."""
        mine, theirs = self.processor, f"cloud {info.model} at {self.name}"
        both = f"{self.role} {mine.name} and {theirs}"
        hint = "Name the checkpoint that the server runs in cloud.processor, and use one release of transformers."
        if info.protocol != PROTOCOL:
            raise misfit(
                f"the server at {self.name} (specdec {info.server}) uses protocol {info.protocol}, and this client "
                f"{PROTOCOL}",
                "Install the same version of specdec on both sides.",
            )
        if self.role == "edge" and info.tokenizer != self._ours["tokenizer"]:
            raise misfit(
                f"{both} have different tokenizers ({self._ours['tokenizer']} and {info.tokenizer})",
                f"Drafted ids would mean other words to the cloud. {hint}",
                TokenizerMismatchError,
            )
        if info.prompts != self._ours["prompts"]:
            made = f"{self._ours['prompts']} and {info.prompts}"
            raise misfit(f"{both} make different features or prompts ({made})", hint)
        if info.vocab_size < mine.vocab_size or 2 * len(set(info.eos_ids)) > info.vocab_size:
            raise CloudError(
                f"the cloud at {self.name} answers nonsense: {info.vocab_size} token ids, {len(info.eos_ids)} of which "
                f"end a text, where {mine.name} has {mine.vocab_size}"
            )
        if set(info.eos_ids) != set(mine.eos_ids):
            ends = f"{list(mine.eos_ids[:8])} and {info.eos_ids[:8]}"
            raise misfit(f"{both} end a text with different ids ({ends})", hint)


class RemoteVerifier:
    """Judges the blocks of one clip with a session of a verify server. See `Verifier`; one thread at a time calls it.

    The clip goes out with the first question, or with `prefill`; a server that has forgotten it is sent it again.

    Args:
        cloud: the server.
        prompt, config, vocab_size, stop_ids: see `RemoteCloud.verifier`.

    Raises:
        DecodingError: the prompt holds no recording.
    """

    elsewhere = True

    def __init__(
        self, cloud: HttpCloud, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]
    ) -> None:
        if prompt.waveform is None:
            raise DecodingError(f"the cloud at {cloud.name} needs the length of the recording, and was not given it")
        self._cloud = cloud
        self._prompt = prompt
        self._samples = len(prompt.waveform)
        self._scoring = config.decoding.scoring()
        self._acceptance = config.acceptance
        self._capacity = capacity(config.decoding)
        self._vocab_size = vocab_size
        self._stop_ids = sorted(stop_ids)
        self._never = cloud.processor.family.placeholders(cloud.processor.config)
        self._caller = Caller(cloud.http)
        self._path = f"/v1/sessions/{uuid.uuid4().hex}"
        self._open = False
        self._before = ModelWork()  # of sessions that the server has forgotten
        self._work = ModelWork()

    @property
    def work(self) -> ModelWork:
        """What the server's model has done for this clip, by its own account, and the bytes that were sent."""
        return replace(_sum(self._before, self._work), bytes_up=self._caller.traffic.bytes_up)

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The server's verdict. Raises CloudError where there is none."""
        started, before, down = time.perf_counter(), self.work, self._caller.traffic.bytes_down
        with self._caller.call():
            limits = self._cloud.described(self._caller).limits
            question, rows = self._question(text, draft, min(run_on, limits.more_tokens))
            answer = self._answer(question, rows)
            found = require_possible(
                answer.judgement, question, self._vocab_size, self._stop_ids, self._never, self._cloud.name
            )
        after, elapsed_ms = self.work, (time.perf_counter() - started) * 1e3
        reading_ms = after.encoder_ms + after.prefill_ms - before.encoder_ms - before.prefill_ms
        return Verdict(
            found.accepted,
            found.token,
            tuple(found.more),
            found.near_ties,
            max(answer.cloud_ms - reading_ms, 0.0),
            after.encoder_passes > before.encoder_passes,
            max(elapsed_ms - answer.cloud_ms, 0.0),
            after.bytes_up - before.bytes_up,
            self._caller.traffic.bytes_down - down,
        )

    def prefill(self) -> None:
        """Sends the clip ahead of need; raises as `verify` does."""
        with self._caller.call():
            if not self._open:
                self._put(None, b"")

    def close(self) -> None:
        """Ends a call under way, and lets the server forget the clip, without waiting for either."""
        self._caller.close()
        if self._caller.traffic.bytes_up:
            self._cloud.http.send(Request("DELETE", self._path))

    def _question(self, text: Sequence[int], draft: Draft, more: int) -> tuple[Question, bytes]:
        counts, rows = None, b""
        if draft.ids and self._acceptance.in_force(sampling=self._scoring.sampling) == "sampling":
            counts, rows = pack_rows(draft.probabilities())
        return Question(text=list(text), draft=list(draft.ids), more=more, rows=counts), rows

    def _answer(self, question: Question, rows: bytes) -> Answer:
        if self._open:
            try:
                return self._exchange(Request("POST", f"{self._path}/verify", pack(question, rows)))
            except RefusedError as error:
                if error.code != "unknown_session":
                    raise
                self._open = False
                self._before, self._work = _sum(self._before, self._work), ModelWork()
        return self._put(question, rows)

    def _put(self, question: Question | None, rows: bytes) -> Answer:
        """Sends the clip, and the question with it: one round trip instead of two."""
        info = self._cloud.described(self._caller)
        tensors, numbers = pack_tensors(self._prompt.audio)
        clip = Clip(
            identity=info.identity,
            prompt_ids=list(self._prompt.ids),
            samples=self._samples,
            tensors=tensors,
            capacity=self._capacity,
            vocab_size=self._vocab_size,
            stop_ids=self._stop_ids,
            scoring=self._scoring,
            acceptance=self._acceptance,
            question=question,
        )
        body = pack(clip, numbers, rows)
        self._require_room(info, len(body))
        answer = self._exchange(Request("PUT", self._path, body))
        self._open = True
        return answer

    def _exchange(self, request: Request) -> Answer:
        def read(body: bytes) -> Answer:
            answer = parse(Answer, body)
            if answer.request != digest(request.body):
                raise MalformedError("the answer is to another question")
            return answer

        answer = self._caller.fetch(request, read)
        self._work = ModelWork(**answer.work.model_dump())
        return answer

    def _require_room(self, info: Info, body_bytes: int) -> None:
        """Raises CloudError where the clip exceeds what the server takes."""
        seconds = self._samples / self._cloud.processor.sampling_rate
        for what, has, most in (
            ("positions", len(self._prompt.ids) + self._capacity, info.context),
            ("tokens after a prompt", self._capacity, info.limits.text_tokens),
            ("bytes", body_bytes, info.limits.body_bytes),
            ("seconds", seconds, info.window_s),
        ):
            if has > most:
                raise RefusedError(
                    f"the cloud at {self._cloud.name} takes {most:g} {what}, and the clip needs {has:g}",
                    hint=HINTS["too_large"],
                    about_clip=True,
                )


def _sum(one: ModelWork, other: ModelWork) -> ModelWork:
    """Both together; the prompt is the same."""
    both = {field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(ModelWork)}
    return ModelWork(**both | {"prompt_tokens": max(one.prompt_tokens, other.prompt_tokens)})
