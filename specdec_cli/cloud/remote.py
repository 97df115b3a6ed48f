"""`specdec serve` as the cloud: a client of the protocol in `cloud.protocol`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.cloud import Caller, RemoteCloud, RemoteVerifier
from specdec_cli.cloud.http import ForgottenError, RefusedError, parse
from specdec_cli.config import CloudConfig
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CloudError, ConfigError, TokenizerMismatchError
from specdec_cli.models.processor import Processor
from specdec_cli.types import ModelWork

_MOST_PROBABILITY: Final = 1.001  # of a few tokens together, each rounded


class SessionVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a session of a verify server. See `RemoteVerifier`."""

    cloud: HttpCloud
    _open = False
    _before = ModelWork()  # of sessions that the server has dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        self._path = f"/v1/sessions/{uuid.uuid4().hex}"  # nobody can guess it

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        compares = draft.ids and self.config.acceptance_rule == "sampling"
        rows = wire.pack_rows(draft.probabilities()) if compares else {}
        answer = self._sent(wire.BlockRequest(text=list(text), draft=list(draft.ids), more=run_on), rows)
        if (found := answer.verdict) is None or not self._is_possible(found, len(draft.ids), run_on):
            raise CloudError(f"the cloud at {self.cloud.name} answers nonsense: {found!s:.300}")
        return replace(found, ms=answer.cloud_ms)

    def prefill(self) -> None:
        with self.call():
            if not self._open:
                self._sent(None, {})

    def close(self) -> None:
        """Ends a call under way, and lets the server forget the clip, without waiting for either."""
        super().close()
        if self.bytes_up:
            self.send("DELETE", self._path)

    def _sent(self, block: wire.BlockRequest | None, rows: wire.Tensors) -> wire.Answer:
        """The answer on a block; with it goes the clip, unless the server holds it."""
        if self._open and block is not None:
            with suppress(ForgottenError):
                return self._exchange("POST", f"{self._path}/verify", wire.pack(block, rows))
            self._before = replace(self.done, prompt_tokens=0)
        clip = wire.ClipRequest(
            identity=self.cloud.identity,
            prompt_ids=list(self.prompt.ids),
            samples=len(self.waveform),
            capacity=capacity(self.config.decoding),
            longest=self.config.decoding.max_new_tokens,
            vocab_size=self.vocab_size,
            stop_ids=sorted(self.stop_ids),
            scoring=self.config.decoding.scoring(),
            acceptance=self.config.acceptance,
            lookup_tokens=self.config.decoding.lookup_tokens,
            top_n=min(self.top_n, wire.MOST_LISTED) or None,
            synonyms=dict(self.synonyms) or None,
            block=block,
        )
        answer = self._exchange("PUT", self._path, wire.pack(clip, wire.as_sent(self.prompt.audio) | rows))
        self._open = True
        return answer

    def _exchange(self, method: str, path: str, body: bytes) -> wire.Answer:
        answer = self.fetch(method, path, partial(parse, wire.Answer), body)
        self.done = self._before + answer.work
        return answer

    def _is_possible(self, found: Verdict, drafted: int, run_on: int) -> bool:
        """Whether a verdict can be one on a block of so many drafted tokens."""
        tokens, listed = (found.token, *found.more), found.likeliest or ()
        decided = found.accepted + len(tokens)
        return (
            0 <= found.accepted <= drafted
            and len(found.more) <= run_on
            and len(listed) in (0, decided)
            and 0 <= (found.near_ties or 0) <= decided
            and all(0 <= id_ < self.vocab_size for id_ in tokens)
            and all(0 <= id_ < self.vocab_size and p >= 0 for row in listed for id_, p in row)
            and all(sum(p for _, p in row) < _MOST_PROBABILITY for row in listed)
            and self.cloud.processor.placeholders.isdisjoint(tokens)
            and set(self.stop_ids).isdisjoint(tokens[:-1])
        )


class HttpCloud(RemoteCloud):
    """A verify server. See `RemoteCloud`. Raises TokenizerMismatchError, too, where models do not fit."""

    verifier = SessionVerifier
    content_type, most_bytes = "application/octet-stream", 1 << 16
    identity = ""  # of the server and its model, once it is reached

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        whole = processor.family.payload == "waveform"
        super().__init__(config, processor, "waveform" if whole else "features", own=own)
        self.start()

    def fit(self, caller: Caller) -> None:
        info, mine = caller.fetch("GET", "/v1/info", partial(parse, wire.Info)), self.processor
        prints = mine.fingerprints()
        # of an own processor the vocabulary is cut where the two part, see `Pair.of`
        tokenizer = info.tokenizer if self.role == "edge" else prints["tokenizer"]
        for what, here, there in (
            ("protocols", wire.PROTOCOL, info.protocol),
            ("tokenizers", prints["tokenizer"], tokenizer),
            ("features or prompts", prints["prompts"], info.prompts),
            ("numbers of token ids", mine.vocab_size, min(info.vocab_size, mine.vocab_size)),
            ("ids that end a text", sorted(mine.eos_ids), sorted(set(info.eos_ids))),
        ):
            if here != there:
                raise RefusedError(
                    f"{self.role} {mine.name} and cloud {info.model} at {self.name} (specdec {info.server}) have "
                    f"different {what}: {here!s:.80} and {there!s:.80}",
                    "Install the same versions of specdec and transformers on both sides, and name the checkpoint that "
                    "the server runs in cloud.processor.",
                    kind=TokenizerMismatchError if what == "tokenizers" else ConfigError,
                )
        self.identity = info.identity
        known = info.model_dump(include={"dtype", "device", "weights"}, exclude_none=True)
        self.served = known | {"serves": info.model}
