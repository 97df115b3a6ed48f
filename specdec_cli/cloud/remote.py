"""`specdec serve` as the cloud: a client of the protocol in `cloud.protocol`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import torch

from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.cloud import Payload, RemoteCloud, RemoteVerifier
from specdec_cli.cloud.http import Caller, Http, MalformedError, RefusedError, Reply, Request, parse, plain
from specdec_cli.config import CloudConfig
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CloudError, ConfigError, TokenizerMismatchError
from specdec_cli.models.processor import Processor
from specdec_cli.types import ModelWork

_INFO: Final = Request("GET", "/v1/info")
_MOST_PROBABILITY: Final = 1.001  # of a few tokens together, each rounded
_HINTS: Final[dict[wire.Code, str]] = {
    "unauthorized": "Set the variable that cloud.token_env names to the server's token.",
    "other_model": "Start anew: the server runs another model now.",
    "too_large": "Lower audio.segment or decoding.max_new_tokens, or raise the server's limits.",
}


class SessionVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a session of a verify server. See `RemoteVerifier`."""

    cloud: HttpCloud
    _open = False
    _before = _done = ModelWork()  # of sessions that the server has dropped; and of this one

    def __post_init__(self) -> None:
        super().__post_init__()
        self._path = f"/v1/sessions/{uuid.uuid4().hex}"  # nobody can guess it

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self.caller.bytes_up)

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        counts, rows = None, dict[str, torch.Tensor]()
        if draft.ids and self.config.acceptance_rule == "sampling":
            counts, rows = wire.pack_rows(draft.probabilities())
        block = wire.BlockRequest(text=list(text), draft=list(draft.ids), more=run_on, rows=counts)
        answer = (self._verified(block, rows) if self._open else None) or self._put(block, rows)
        if (found := answer.verdict) is None or not self._is_possible(found, len(draft.ids), run_on):
            raise CloudError(f"the cloud at {self.cloud.name} answers nonsense: {found!s:.300}")
        return replace(found, ms=answer.cloud_ms)

    def prefill(self) -> None:
        with self.cloud.call(self.caller):
            if not self._open:
                self._put(None, {})

    def close(self) -> None:
        """Ends a call under way, and lets the server forget the clip, without waiting for either."""
        super().close()
        if self.caller.bytes_up:
            self.cloud.http.send(Request("DELETE", self._path))

    def _verified(self, block: wire.BlockRequest, rows: dict[str, torch.Tensor]) -> wire.Answer | None:
        """The answer on a block; None where the server has dropped the session."""
        try:
            return self._exchange(Request("POST", f"{self._path}/verify", wire.pack(block, rows)))
        except RefusedError as error:
            if not error.forgotten:
                raise
            self._open, self._before = False, replace(self._done, prompt_tokens=0)
            return None

    def _put(self, block: wire.BlockRequest | None, rows: dict[str, torch.Tensor]) -> wire.Answer:
        """Sends the clip, and the block with it: one round trip instead of two."""
        assert self.cloud.info is not None  # within a call the cloud is connected
        clip = wire.ClipRequest(
            identity=self.cloud.info.identity,
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
        answer = self._exchange(Request("PUT", self._path, wire.pack(clip, wire.as_sent(self.prompt.audio) | rows)))
        self._open = True
        return answer

    def _exchange(self, request: Request) -> wire.Answer:
        answer = self.caller.fetch(request, partial(parse, wire.Answer))
        self._done = self._before + answer.work
        return answer

    def _is_possible(self, found: Verdict, drafted: int, run_on: int) -> bool:
        """Whether a verdict can be one on a block of so many drafted tokens."""
        tokens, likeliest = (found.token, *found.more), found.likeliest
        decided = found.accepted + len(tokens)
        return (
            0 <= found.accepted <= drafted
            and len(found.more) <= run_on
            and all(0 <= id_ < self.vocab_size for id_ in tokens)
            and self.cloud.processor.placeholders.isdisjoint(tokens)
            and set(self.stop_ids).isdisjoint(tokens[:-1])
            and 0 <= (found.near_ties or 0) <= decided
            and (likeliest is None or len(likeliest) == decided)
            and all(0 <= id_ < self.vocab_size and 0 <= p <= 1 for row in likeliest or () for id_, p in row)
            and all(sum(p for _, p in row) < _MOST_PROBABILITY for row in likeliest or ())
        )


class HttpCloud(RemoteCloud):
    """A verify server, for any number of clips at once. See `RemoteCloud`.

    Raises ConfigError or TokenizerMismatchError where token, certificates or models do not fit, or the server would be
    sent recordings without leave.
    """

    verifier = SessionVerifier
    info: wire.Info | None = None

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        http = Http(config, "application/octet-stream", wire.MAX_ANSWER_BYTES, _refused)
        payload: Payload = "waveform" if processor.family.payload == "waveform" else "features"
        super().__init__(processor, http, payload, own=own)
        self.start()

    def fit(self, caller: Caller) -> None:
        info, mine = caller.fetch(_INFO, partial(parse, wire.Info)), self.processor
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
        self.info = info
        known = info.model_dump(include={"dtype", "device", "weights"}, exclude_none=True)
        self.served = known | {"serves": info.model}


def _refused(url: str, _request: Request, reply: Reply) -> Exception:
    """What an answer without success means; see `http.Refused`."""
    try:
        problem = parse(wire.ErrorReply, reply.body)
    except MalformedError:
        return MalformedError(f"it is no verify server's (status {reply.status})")
    reason, code = plain(problem.message), problem.code
    if code in ("busy", "model_failed"):
        return MalformedError(f"{code}: {reason}")
    about = {"forgotten": code == "unknown_session", "about_clip": code in ("malformed", "too_large")}
    return RefusedError(f"the cloud at {url} refuses: {reason}", _HINTS.get(code), **about)
