"""One clip at a verify server: what is sent when, and what the answers mean."""

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from specdec_cli.cloud.protocol import (
    Answer,
    Clip,
    Info,
    Judgement,
    MalformedError,
    Question,
    Rules,
    Work,
    digest,
    pack,
    pack_features,
    pack_rows,
    parse,
)
from specdec_cli.cloud.transport import RefusedError, Request, Traffic
from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.errors import CloudError
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.session import Steps, Wait
from specdec_cli.types import LinkUse, ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.client import HttpCloud


class RemoteVerifier:
    """Judges the blocks of one clip with a session of a verify server. See `Verifier`.

    The clip goes out with the first question, or with `prefill`; a server that has forgotten it is sent it again.

    Args:
        cloud: the connection.
        inputs, options, capacity, vocab_size, stop_ids: see `CloudLink.verifier`.
    """

    def __init__(
        self,
        cloud: HttpCloud,
        inputs: PromptInputs,
        options: DecodingOptions,
        capacity: int,
        vocab_size: int,
        stop_ids: Collection[int],
    ) -> None:
        self._cloud = cloud
        self._inputs = inputs
        self._options = options
        self._capacity = capacity
        self._vocab_size = vocab_size
        self._stop_ids = sorted(stop_ids)
        self._eos_ids = cloud.eos_ids
        self._session = uuid.uuid4().hex
        self._open = False
        self._lock = asyncio.Lock()  # a server session answers one question at a time, and so it is asked
        self._traffic = Traffic()
        self._before = ModelWork()  # of sessions that the server has forgotten
        self._work = ModelWork()
        weakref.finalize(self, _forget, weakref.ref(cloud), self._session, self._traffic)

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        """Waits for the server's verdict. Raises CloudError where there is none."""
        future = self.start(text, draft, run_on)
        yield Wait(future)
        return future.result()

    def start(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict]:
        """Sends a block and returns at once."""
        return self._cloud.submit(self._ask(tuple(text), draft, run_on))

    def rollback(self, text: Sequence[int]) -> None:
        """Nothing: every question says the whole text, and the server goes by that."""

    def prefill(self) -> Steps[None]:
        """Sends the clip ahead of need. A failure is left to the first question, which will meet it too."""
        future = self.start_prefill()
        yield Wait(future)
        future.exception()

    def start_prefill(self) -> Future[None]:
        """Sends the clip and returns at once."""
        return self._cloud.submit(self._introduce())

    @property
    def work(self) -> ModelWork:
        """What the server says its model has done for this clip, and the bytes that were sent."""
        return replace(_sum(self._before, self._work), bytes_up=self._traffic.bytes_up)

    async def _introduce(self) -> None:
        async with self._lock:
            if not self._open:
                await self._put(None, b"")

    async def _ask(self, text: tuple[int, ...], draft: Draft, run_on: int) -> Verdict:
        """One question and its answer, whatever it takes."""
        async with self._lock:
            started = time.perf_counter()
            up, down = self._traffic.bytes_up, self._traffic.bytes_down
            question, rows = self._question(text, draft, run_on)
            answer = await self._answer(question, rows)
            found = self._judged(answer.judgement, question)
            elapsed_ms = (time.perf_counter() - started) * 1e3
            use = LinkUse(
                bytes_up=self._traffic.bytes_up - up,
                bytes_down=self._traffic.bytes_down - down,
                network_ms=max(elapsed_ms - answer.cloud_ms, 0.0),
                cloud_ms=answer.cloud_ms,
            )
            return Verdict(found.accepted, found.token, tuple(found.more), use)

    async def _answer(self, question: Question, rows: bytes) -> Answer:
        if self._open:
            try:
                body = pack(question, rows)
                return await self._exchange(Request("POST", f"/v1/sessions/{self._session}/verify", body))
            except RefusedError as error:
                if error.code != "unknown_session":
                    raise
                self._open = False
                self._before, self._work = _sum(self._before, self._work), ModelWork()
        return await self._put(question, rows)

    async def _put(self, question: Question | None, rows: bytes) -> Answer:
        """Sends the clip, and the question with it: one round trip instead of two."""
        info = await self._cloud.connected(self._traffic)
        self._require_same(info)
        values = self._inputs.features.values.detach().to("cpu", torch.float32).numpy()
        clip = Clip(
            identity=info.identity,
            prompt_ids=list(self._inputs.ids),
            bins=values.shape[0],
            frames=values.shape[1],
            capacity=self._capacity,
            vocab_size=self._vocab_size,
            stop_ids=self._stop_ids,
            rules=rules_of(self._options),
            question=question,
        )
        body = pack(clip, pack_features(values), rows)
        answer = await self._exchange(Request("PUT", f"/v1/sessions/{self._session}", body))
        self._open = True
        return answer

    async def _exchange(self, request: Request) -> Answer:
        def read(body: bytes) -> Answer:
            answer = parse(Answer, body)
            if answer.request != digest(request.body):
                raise MalformedError("the answer is to another question")
            return answer

        answer = await self._cloud.transport.fetch(request, self._traffic, read)
        self._work = _model_work(answer.work)
        return answer

    def _question(self, text: tuple[int, ...], draft: Draft, run_on: int) -> tuple[Question, bytes]:
        counts, rows = None, b""
        if self._options.rule == "sampling" and draft.ids:
            counts, rows = pack_rows(draft.probabilities().to("cpu", torch.float32).numpy())
        return Question(text=list(text), draft=list(draft.ids), more=run_on, rows=counts), rows

    def _judged(self, judgement: Judgement | None, question: Question) -> Judgement:
        """The judgement, if it can be one of that question. Raises CloudError if not."""
        if judgement is None:
            raise CloudError(f"the cloud at {self._cloud.name} answers nonsense: no judgement")
        tokens = (judgement.token, *judgement.more)
        if judgement.accepted > len(question.draft) or len(judgement.more) > question.more:
            raise CloudError(
                f"the cloud at {self._cloud.name} answers nonsense: {judgement.accepted} of {len(question.draft)} "
                f"drafted tokens accepted, and {len(judgement.more)} more where {question.more} were asked for"
            )
        if max(tokens) >= self._vocab_size:
            raise CloudError(
                f"the cloud at {self._cloud.name} answers nonsense: token {max(tokens)} of {self._vocab_size}"
            )
        return judgement

    def _require_same(self, info: Info) -> None:
        """Raises CloudError if the server, met late, is not what this clip was begun with."""
        if info.vocab_size < self._vocab_size or tuple(info.eos_ids) != self._eos_ids:
            raise CloudError(f"the cloud at {self._cloud.name} came back with other tokens than this clip began with")


def rules_of(options: DecodingOptions) -> Rules:
    """What the server needs to know of a run's settings."""
    return Rules(
        rule=options.rule,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        seed=options.seed,
        repetition_penalty=options.repetition_penalty,
        no_repeat_ngram=options.no_repeat_ngram,
        min_new_tokens=options.min_new_tokens,
        rank=options.rank,
        prob=options.prob,
        typical_epsilon=options.typical_epsilon,
        typical_delta=options.typical_delta,
    )


def _model_work(told: Work) -> ModelWork:
    return ModelWork(**told.model_dump())


def _sum(one: ModelWork, other: ModelWork) -> ModelWork:
    """Both together; the prompt is the same."""
    return ModelWork(
        encoder_passes=one.encoder_passes + other.encoder_passes,
        forwards=one.forwards + other.forwards,
        encoder_ms=one.encoder_ms + other.encoder_ms,
        prefill_ms=one.prefill_ms + other.prefill_ms,
        step_ms=one.step_ms + other.step_ms,
        prompt_tokens=max(one.prompt_tokens, other.prompt_tokens),
        fed_tokens=one.fed_tokens + other.fed_tokens,
    )


def _forget(cloud: weakref.ref[HttpCloud], session: str, traffic: Traffic) -> None:
    """The clip is done with, finished or not: what the server holds of it can go."""
    if (there := cloud()) is not None and traffic.bytes_up:
        there.forget(session)
