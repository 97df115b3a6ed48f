"""One clip at a vLLM server: what is sent when, and what the answers mean."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from specdec_cli.cloud.vllm_http import DeclinedError, TimedTraffic
from specdec_cli.cloud.vllm_rules import Judged, VllmRules
from specdec_cli.cloud.vllm_wire import (
    GENERATE,
    MOST_CANDIDATES,
    Question,
    Recording,
    Reply,
    read_reply,
    with_one_placeholder,
)
from specdec_cli.cloud.waveform import data_url
from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.errors import CloudError, DecodingError
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.session import Steps, Wait
from specdec_cli.types import LinkUse, ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmCloud


class VllmVerifier:
    """Judges the blocks of one clip with a vLLM server. See `Verifier`.

    The recording goes out with the first question, or with `prefill`, under an id that nobody can guess; a server that
    has dropped it is sent it again.

    Args:
        cloud: the connection.
        inputs: the clip's prompt, with the waveform.
        options: the run's settings.
        vocab_size: ids from here on are never said.
        stop_ids: nothing is generated behind any of these.

    Raises:
        DecodingError: there is no waveform.
    """

    def __init__(
        self,
        cloud: VllmCloud,
        inputs: PromptInputs,
        options: DecodingOptions,
        vocab_size: int,
        stop_ids: Collection[int],
    ) -> None:
        if inputs.waveform is None:
            raise DecodingError(f"the cloud at {cloud.name} wants the recording itself, and was not given it")
        self._cloud = cloud
        self._waveform = inputs.waveform
        self._prompt = with_one_placeholder(inputs.ids, cloud.placeholder_ids)
        self._prompt_tokens = len(inputs.ids)
        self._rules = VllmRules(options, cloud.placeholder_ids, vocab_size)
        self._stop_ids = tuple(sorted(stop_ids))
        self._uuid = uuid.uuid4().hex
        self._sent = False
        self._lock = asyncio.Lock()  # two questions at once would both send the recording
        self._traffic = TimedTraffic()
        self._passes = 0
        self._fed = 0
        self._cloud_ms = 0.0

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        """Waits for the server's verdict. Raises CloudError where there is none."""
        future = self.start(text, draft, run_on)
        yield Wait(future)
        return future.result()

    def start(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict]:
        """Sends a block and returns at once."""
        return self._cloud.submit(self._verdict(tuple(text), tuple(draft.ids), run_on))

    def rollback(self, text: Sequence[int]) -> None:
        """Nothing: every question says the whole text."""

    def prefill(self) -> Steps[None]:
        """Sends the recording ahead of need."""
        future = self.start_prefill()
        yield Wait(future)
        future.result()

    def start_prefill(self) -> Future[None]:
        """Begins to send it, and returns at once."""
        return self._cloud.submit(self._introduce())

    @property
    def work(self) -> ModelWork:
        """What the server has been asked for this clip. Each time it reads the prompt again, and says no times."""
        return ModelWork(
            encoder_passes=int(self._sent),
            forwards=self._passes,
            step_ms=self._cloud_ms,
            prompt_tokens=self._prompt_tokens,
            fed_tokens=self._fed,
            bytes_up=self._traffic.bytes_up,
        )

    async def _introduce(self) -> None:
        async with self._lock:
            if not self._sent:
                await self._asked((), 0, 1, 1)

    async def _verdict(self, text: tuple[int, ...], draft: tuple[int, ...], run_on: int) -> Verdict:
        async with self._lock:
            started, before_ms = time.perf_counter(), self._cloud_ms
            up, down = self._traffic.bytes_up, self._traffic.bytes_down
            judged = await self._judged(text, draft, 1 + run_on)
            tokens = self._until_stop(judged.tokens)
            while len(tokens) < 1 + run_on and tokens[-1] not in self._stop_ids:
                written = (*text, *draft[: judged.accepted], *tokens)
                further = await self._judged(written, (), 1 + run_on - len(tokens))
                tokens = self._until_stop((*tokens, *further.tokens))
            cloud_ms = self._cloud_ms - before_ms
            use = LinkUse(
                bytes_up=self._traffic.bytes_up - up,
                bytes_down=self._traffic.bytes_down - down,
                network_ms=max((time.perf_counter() - started) * 1e3 - cloud_ms, 0.0),
                cloud_ms=cloud_ms,
            )
            return Verdict(judged.accepted, tokens[0], tokens[1:], use)

    def _until_stop(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens up to the first one that ends a text."""
        ends = [at for at, token in enumerate(tokens) if token in self._stop_ids]
        return tokens[: ends[0] + 1] if ends else tokens

    async def _judged(self, text: tuple[int, ...], draft: tuple[int, ...], tokens: int) -> Judged:
        """The rule's judgement, and up to `tokens` tokens of the cloud's own.

        Raises:
            CloudError: none of the candidates that a server tells may be said.
        """
        for candidates in (self._rules.candidates, MOST_CANDIDATES):
            reply = await self._asked((*text, *draft), len(draft), tokens, candidates)
            judged = self._rules.judge(draft, reply, at_most=candidates == MOST_CANDIDATES)
            if judged is not None:
                return judged
        raise CloudError(
            f"none of the likeliest {MOST_CANDIDATES} tokens of the cloud at {self._cloud.name} may be said"
        )

    async def _asked(self, ids: tuple[int, ...], drafted: int, tokens: int, candidates: int) -> Reply:
        """One question, with the recording if the server does not have it."""
        await self._cloud.connected(self._traffic)
        question = Question((*self._prompt, *ids), self._prompt_tokens + len(ids), drafted, tokens, candidates)
        if self._sent:
            try:
                return await self._exchanged(question, None)
            except DeclinedError as error:
                if not error.forgotten:
                    raise
        reply = await self._exchanged(question, data_url(self._waveform, self._cloud.sampling_rate))
        self._sent = True
        return reply

    async def _exchanged(self, question: Question, url: str | None) -> Reply:
        http, before_s = self._cloud.http, self._traffic.silent_s
        body = question.body(self._cloud.model, Recording(self._uuid, url), self._stop_ids)
        reply = await http.ask(GENERATE, body, self._traffic, lambda found: read_reply(found, question))
        # The server does not say how long it took: so long as it was silent, beyond the shortest silence there was.
        self._cloud_ms += max(self._traffic.silent_s - before_s - http.round_trip_s, 0.0) * 1e3
        self._passes += len(reply.generated)  # the first comes of reading the question, each other one of a step
        self._fed += question.length - self._prompt_tokens + len(reply.generated) - 1
        return reply
