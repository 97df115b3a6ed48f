"""`specdec serve` as the cloud: a client of the protocol in `cloud.protocol`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Final

from specdec_cli.cloud.cloud import Payload
from specdec_cli.cloud.connection import Request
from specdec_cli.cloud.http import Caller, MisconfiguredError, RefusedError
from specdec_cli.cloud.numbers import pack_rows, pack_tensors
from specdec_cli.cloud.protocol import Answer, Clip, Info, Judgement, MalformedError, Question, digest, pack, parse
from specdec_cli.cloud.server import HINTS, VerifyServer
from specdec_cli.config import CloudConfig, Config
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import ModelWork

_PROBES: Final = 5


class HttpCloud:
    """A verify server, for any number of clips at once. See `RemoteCloud`.

    A server that is not reached when this is made is tried again when a clip needs it. A clip that exceeds its limits
    is degraded.

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
        if config.url is None:
            raise ConfigError("a cloud elsewhere needs cloud.url")
        self.name = config.url
        self.processor = processor
        self.payload: Payload = "waveform" if processor.family.payload == "waveform" else "features"
        if self.payload == "waveform" and not config.allow_audio_upload:
            raise ConfigError(
                f"{processor.name} takes recordings, not features of them, and cloud.allow_audio_upload is false",
                hint="Recordings would leave this machine. Allow it, or use a model that takes log-mel features.",
            )
        self.vocab_size = processor.vocab_size
        self.window_s = processor.window_s
        self._server = VerifyServer(config, processor, own=own)
        caller = Caller(self._server.http)
        try:
            with caller.call():
                self._server.connected(caller)
        except MisconfiguredError as error:
            self.close()
            raise error.refusal from None
        except CloudError:
            pass  # `trouble` tells

    @property
    def trouble(self) -> str | None:
        """Why it was not reached, in a sentence; None if it was."""
        return None if self._server.info is not None else self._server.http.breaker.reason

    def describe(self) -> dict[str, str]:
        """The address, and what the server tells of its model."""
        info = self._server.info
        if info is None:
            return {"name": self.name, "dtype": "unknown", "device": "unknown"}
        shown = {"name": self.name, "serves": info.model, "dtype": info.dtype, "device": info.device}
        return shown if info.weights is None else {**shown, "weights": info.weights}

    def verifier(self, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]) -> RemoteVerifier:
        """Judges the blocks of one clip; see `RemoteCloud.verifier`."""
        return RemoteVerifier(self._server, prompt, config, vocab_size, stop_ids)

    def probe(self) -> str:
        """Versions and round trip; see `RemoteCloud.probe`."""
        caller, times = Caller(self._server.http), []
        for _ in range(_PROBES):
            started = time.perf_counter()
            with caller.call():
                info = self._server.told(caller)
            times.append((time.perf_counter() - started) * 1e3)
        with caller.call():
            self._server.connected(caller)
        return (
            f"{self.name}: {info.model}, specdec {info.server}, protocol {info.protocol}, "
            f"{median(times):.1f} ms round trip"
        )

    def close(self) -> None:
        """Closes the connections, as happens by itself when this is dropped."""
        self._server.http.close()


class RemoteVerifier:
    """Judges the blocks of one clip with a session of a verify server. See `Verifier`; one thread at a time calls it.

    The clip goes out with the first question, or with `prefill`; a server that has forgotten it is sent it again.

    Args:
        server: what answers.
        prompt, config, vocab_size, stop_ids: see `RemoteCloud.verifier`.

    Raises:
        DecodingError: the prompt holds no recording.
    """

    elsewhere = True

    def __init__(
        self, server: VerifyServer, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]
    ) -> None:
        if prompt.waveform is None:
            raise DecodingError(f"the cloud at {server.name} needs the length of the recording, and was not given it")
        self._server = server
        self._prompt = prompt
        self._samples = len(prompt.waveform)
        self._scoring = config.decoding.scoring()
        self._acceptance = config.acceptance
        self._capacity = capacity(config.decoding)
        self._vocab_size = vocab_size
        self._stop_ids = sorted(stop_ids)
        self._never = server.processor.family.placeholders(server.processor.config)
        self._caller = Caller(server.http)
        self._path = f"/v1/sessions/{uuid.uuid4().hex}"
        self._open = False
        self._before = ModelWork()  # of sessions that the server has forgotten
        self._work = ModelWork()

    @property
    def work(self) -> ModelWork:
        """What the server's model has done for this clip, as it tells, and the bytes that were sent."""
        return replace(_sum(self._before, self._work), bytes_up=self._caller.traffic.bytes_up)

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The server's verdict. Raises CloudError where there is none."""
        started, before, down = time.perf_counter(), self.work, self._caller.traffic.bytes_down
        with self._caller.call():
            limits = self._server.connected(self._caller).limits
            question, rows = self._question(text, draft, min(run_on, limits.more_tokens))
            answer = self._answer(question, rows)
            found = self._judged(answer.judgement, question)
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
            self._server.http.send(Request("DELETE", self._path))

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
        info = self._server.connected(self._caller)
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
        seconds = self._samples / self._server.processor.sampling_rate
        for what, has, most in (
            ("positions", len(self._prompt.ids) + self._capacity, info.context),
            ("tokens after a prompt", self._capacity, info.limits.text_tokens),
            ("bytes", body_bytes, info.limits.body_bytes),
            ("seconds", seconds, info.window_s),
        ):
            if has > most:
                raise RefusedError(
                    f"the cloud at {self._server.name} takes {most:g} {what}, and the clip needs {has:g}",
                    hint=HINTS["too_large"],
                    about_clip=True,
                )

    def _judged(self, judgement: Judgement | None, question: Question) -> Judgement:
        """The judgement, if it can be one of that question. Raises CloudError if not."""
        if judgement is None:
            raise CloudError(f"the cloud at {self._server.name} answers nonsense: no judgement")
        tokens, wrong = (judgement.token, *judgement.more), None
        if judgement.accepted > len(question.draft) or len(judgement.more) > question.more:
            wrong = (
                f"{judgement.accepted} of {len(question.draft)} drafted tokens accepted, and "
                f"{len(judgement.more)} more where at most {question.more} were requested"
            )
        elif max(tokens) >= self._vocab_size:
            wrong = f"token {max(tokens)} of {self._vocab_size}"
        elif placeholders := self._never.intersection(tokens):
            wrong = f"token {min(placeholders)}, which stands for audio"
        elif set(self._stop_ids).intersection(tokens[:-1]):
            wrong = "tokens after the end of the text"
        elif (judgement.near_ties or 0) > judgement.accepted + 1:
            wrong = f"{judgement.near_ties} near ties in {judgement.accepted + 1} positions"
        if wrong:
            raise CloudError(f"the cloud at {self._server.name} answers nonsense: {wrong}")
        return judgement


def _sum(one: ModelWork, other: ModelWork) -> ModelWork:
    """Both together; the prompt is the same."""
    both = {field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(ModelWork)}
    return ModelWork(**both | {"prompt_tokens": max(one.prompt_tokens, other.prompt_tokens)})
