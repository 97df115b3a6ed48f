"""`specdec serve` as the cloud: a client of the protocol in `cloud.protocol`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.http import ForgottenError, RefusedError, parse
from specdec_cli.cloud.remote import Call, RemoteModel, RemoteVerifier
from specdec_cli.config import Server
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.length import capacity
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import CloudError, ConfigError, TokenizerMismatchError
from specdec_cli.models.processor import Processor
from specdec_cli.types import ModelWork

_MOST_PROBABILITY: Final = 1.001  # of a few tokens together, each rounded


class ServedVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a session of a verify server. See `RemoteVerifier`."""

    def __init__(self, server: VerifyClient, clip: RemoteClip) -> None:
        super().__init__(Call(server))
        self._server, self._clip = server, clip
        self._path = f"/v1/sessions/{uuid.uuid4().hex}"  # nobody can guess it
        self._is_open = False  # whether the server held the clip at the last answer
        self._before = ModelWork()  # in sessions that the server has dropped
        self._done = ModelWork()  # in all sessions, without bytes, which the call counts

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self._call.traffic.bytes_up)

    def close(self) -> None:
        """Ends the running call and has the server drop the clip, without waiting for either."""
        super().close()
        if self._call.traffic.bytes_up:
            self._call.send("DELETE", self._path)

    def _prefill(self) -> None:
        if not self._is_open:
            self._send(None, {})

    def _verdict(self, text_ids: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        compares = draft.ids and self._clip.config.acceptance_rule == "sampling"
        distributions = wire.pack_distributions(draft.probabilities()) if compares else {}
        answer = self._send(wire.BlockRequest(text=list(text_ids), draft=list(draft.ids), run_on=run_on), distributions)
        if (found := answer.verdict) is None or not self._is_possible(found, len(draft.ids), run_on):
            raise CloudError(f"the cloud at {self._server.name} answers nonsense: {found!s:.300}")
        return replace(found, ms=answer.cloud_ms)

    def _send(self, block: wire.BlockRequest | None, distributions: wire.Tensors) -> wire.Answer:
        """The answer on a block; the clip is sent with it, unless the server still holds it."""
        if self._is_open and block is not None:
            with suppress(ForgottenError):
                return self._exchange("POST", f"{self._path}/verify", wire.pack(block, distributions))
            self._before = replace(self._done, prompt_tokens=0)
        clip, decoding, grounding = self._clip, self._clip.config.decoding, self._clip.grounding
        if grounding is not None and (fault := self._server.sound_fault(grounding.lexicon_digest)):
            raise CloudError(f"the sound cannot decide what {self._server.name} writes: {fault}")
        request = wire.ClipRequest(
            identity=self._server.identity,
            prompt_ids=list(clip.prompt().ids),
            samples=len(clip.waveform_for(self._server)),
            capacity=capacity(decoding),
            longest=decoding.max_new_tokens,
            vocab_size=clip.vocab_size,
            stop_ids=sorted(clip.stop_ids),
            scoring=decoding.scoring(),
            acceptance=clip.config.decoding.rules,
            guess_tokens=decoding.guess_tokens,
            top_n=min(clip.top_n, wire.MOST_LISTED) or None,
            synonyms=dict(clip.synonyms) or None,
            sound=None if grounding is None else wire.ClipFigures.of(grounding),
            block=block,
        )
        tensors = wire.as_sent(clip.prompt().audio) | distributions
        answer = self._exchange("PUT", self._path, wire.pack(request, tensors))
        self._is_open = True
        return answer

    def _exchange(self, method: str, path: str, body: bytes) -> wire.Answer:
        answer = self._call.fetch(method, path, partial(parse, wire.Answer), body)
        self._done = self._before + answer.work
        return answer

    def _is_possible(self, found: Verdict, drafted: int, run_on: int) -> bool:
        """Whether a verdict can be one on a block of `drafted` tokens."""
        tokens, listed = (found.token, *found.run_on), found.likeliest or ()
        banned = [id_ for id_ in found.instead if id_ is not None]
        decided = found.accepted + len(tokens)
        return (
            0 <= found.accepted <= drafted
            and len(found.run_on) <= run_on
            and len(listed) in (0, decided)
            and len(found.instead) in (0, decided)
            and all(0 <= id_ < self._clip.vocab_size for id_ in banned)
            and 0 <= (found.near_ties or 0) <= decided
            and all(0 <= id_ < self._clip.vocab_size for id_ in tokens)
            and all(0 <= id_ < self._clip.vocab_size and p >= 0 for row in listed for id_, p in row)
            and all(sum(p for _, p in row) < _MOST_PROBABILITY for row in listed)
            and self._server.processor.placeholders.isdisjoint(tokens)
            and set(self._clip.stop_ids).isdisjoint(tokens[:-1])
        )


class VerifyClient(RemoteModel):
    """The model behind `specdec serve`. See `RemoteModel`. Also raises TokenizerMismatchError."""

    content_type, most_bytes = "application/octet-stream", 1 << 16
    identity, lexicon = "", ""  # of `Info`, once the server was reached

    def __init__(self, config: Server, processor: Processor, *, own: bool) -> None:
        whole = processor.family.payload == "waveform"
        super().__init__(config, processor, "waveform" if whole else "features", own=own)
        self.start()

    def sound_fault(self, lexicon: str) -> str | None:
        if self.lexicon in ("", lexicon):
            return None
        return f"its server reads captions by the lexicon {self.lexicon}, and this run by {lexicon}"

    def verifier(self, clip: RemoteClip) -> ServedVerifier:
        return ServedVerifier(self, clip)

    def require_fit(self, call: Call) -> None:
        info, mine = call.fetch("GET", "/v1/info", partial(parse, wire.Info)), self.processor
        prints = mine.fingerprints()
        # with its own processor, the vocabulary ends where edge and cloud differ, see `Pair.of`
        tokenizer = info.tokenizer if self.processor_name == "edge" else prints["tokenizer"]
        for what, here, there in (
            ("protocols", wire.PROTOCOL, info.protocol),
            ("tokenizers", prints["tokenizer"], tokenizer),
            ("features or prompts", prints["prompts"], info.prompts),
            ("numbers of token ids", mine.vocab_size, min(info.vocab_size, mine.vocab_size)),
            ("ids that end a text", sorted(mine.eos_ids), sorted(set(info.eos_ids))),
        ):
            if here != there:
                raise RefusedError(
                    f"{self.processor_name} {mine.name} and cloud {info.model} at {self.name} (specdec {info.server}) "
                    f"have different {what}: {here!s:.80} and {there!s:.80}",
                    "Install the same versions of specdec and transformers on both sides, and name the checkpoint that "
                    "the server runs in cloud.processor.",
                    kind=TokenizerMismatchError if what == "tokenizers" else ConfigError,
                )
        self.identity, self.lexicon = info.identity, info.lexicon
        known = info.model_dump(include={"dtype", "device", "weights"}, exclude_none=True)
        self.known = known | {"serves": info.model}
