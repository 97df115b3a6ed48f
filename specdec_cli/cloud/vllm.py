"""A vLLM server as the cloud or the edge: whether it fits, its prompts, and the clips that it drafts or verifies."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from specdec_cli.cloud import vllm_protocol as wire
from specdec_cli.cloud.http import ForgottenError, RefusedError, parse
from specdec_cli.cloud.remote import Call, RemoteModel, RemoteVerifier
from specdec_cli.cloud.vllm_protocol import GenerateRequest, Likely, Scored
from specdec_cli.config import Server
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.decoding.accept import NO_SYNONYMS, says_same
from specdec_cli.decoding.block import Draft, Enough, Verdict
from specdec_cli.decoding.gate import GateState
from specdec_cli.decoding.remote import ClipGrounding, RemoteClip
from specdec_cli.errors import CloudError, DecodingError, EdgeError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, Prompt, effective
from specdec_cli.types import Candidates, Decider, ModelWork

_START_S: Final = 120.0  # for the first requests: a server that was just started may still be compiling
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"
_SURE: Final = 0.95  # probability of a drafted token from which on it is expected to be accepted


class VllmClip:
    """Requests about one clip to one server. The first one sends the clip, as does one after the server dropped it.

    Raises DecodingError if the settings need more than the most likely tokens.
    """

    def __init__(self, server: Vllm, clip: RemoteClip) -> None:
        self.server, self.clip, self.call = server, clip, Call(server)
        decoding = clip.config.decoding
        for name, hint in beyond_likeliest(effective(decoding, server.processor), decoding.rules):
            needs = f"{name}, as it is set or as its checkpoint suggests, needs more"
            raise DecodingError(f"a vLLM {server.role} returns the most likely tokens only, and {needs}", hint=hint)
        self._uuid = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self._done = ModelWork()

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self.call.traffic.bytes_up)

    def scored(
        self, ids: tuple[int, ...], drafted: int, tokens: int, listed: int, drawing: tuple[int, int] | None = None
    ) -> Scored:
        """The answer about a text whose last `drafted` ids are a draft; at most `tokens` tokens are generated.

        Call it within the call's deadline. At each position `listed` most likely tokens are listed. `drawing`: see
        `GenerateRequest`.
        """
        server, known = self.server, self._done.prompt_tokens or len(self.clip.prompt().ids)
        whole = (*server.prompt_ids(self.clip.prompt(), self.call), *ids)
        length, banned = known + len(ids) if known else None, server.processor.banned_ids
        request = GenerateRequest(whole, length, drafted, tokens, self.clip.vocab_size, banned, listed, drawing)
        if self._done.encoder_passes:
            with suppress(ForgottenError):
                return self._fetch(request, len(ids), None)
        url = wire.data_url(self.clip.waveform_for(server), server.processor.sampling_rate)
        return self._fetch(request, len(ids), url)

    def _fetch(self, request: GenerateRequest, text_tokens: int, url: str | None) -> Scored:
        recording, waited_s = {"type": "audio_url", "url": url, "uuid": self._uuid}, self.call.traffic.waited_s
        body = request.body(self.server.model, self.clip.stop_ids, content_parts=[recording])
        read = partial(wire.read_answer, request=request)
        scored = self.call.fetch("POST", wire.GENERATE, read, body, request.most_bytes)
        self._done = replace(self._done, prompt_tokens=scored.length - text_tokens) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with the forward that reads the request, each other one with a step
            forwards=scored.forwards,
            fed_tokens=text_tokens + scored.forwards - 1,
            step_ms=(self.call.traffic.waited_s - waited_s) * 1e3,  # with the round trip: the server reports no times
        )
        return scored


def heard(grounding: ClipGrounding | None, text_ids: Sequence[int], row: Likely) -> Likely:
    """A position after `text_ids` without the tokens that the sound bans. It judges those that are listed."""
    banned = () if grounding is None else grounding.banned(text_ids, tuple(row.probabilities.items()))
    return row.without(banned) if banned else row


class VllmDrafter:
    """Drafts with a vLLM server; see `Drafter`. The gate reads `MOST_CANDIDATES` likely tokens of each position."""

    is_remote: ClassVar[bool] = True

    def __init__(self, requests: VllmClip) -> None:
        self.requests = requests

    @property
    def work(self) -> ModelWork:
        return self.requests.work

    def propose(
        self, text_ids: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """The next best token replaces a banned one, and what the server wrote after that is dropped."""
        started, ids, likeliest, ended = time.perf_counter(), list[int](), list[Candidates](), False
        instead = list[int | None]()
        requests, clip = self.requests, self.requests.clip
        drawing = None if top_k is None else (top_k, clip.config.decoding.seed)
        try:
            with requests.call.within_deadline():
                while len(ids) < k and not ended:
                    scored = requests.scored((*text_ids, *ids), 0, k - len(ids), wire.MOST_CANDIDATES, drawing)
                    for written, row in zip(scored.generated, scored.likely, strict=True):
                        left = heard(clip.grounding, (*text_ids, *ids), row)
                        token = written if written in left.probabilities else left.best
                        ids.append(token)
                        likeliest.append(left.top(clip.top_n))
                        instead.append(None if row.best in left.probabilities else row.best)
                        unsure = state.add(left.evidence(token, clip.synonyms))
                        ended = token in clip.stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended or token != written:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        ms, named = (time.perf_counter() - started) * 1e3, tuple(likeliest) if clip.top_n else ()
        return Draft(tuple(ids), None, state, state.reason, ms, named, tuple(instead))

    def close(self) -> None:
        self.requests.call.close()


class VllmVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`.

    A block is scored as a whole. When a deferred draft is verified a second time, the cloud generates from the first
    uncertain token on, and that answer also decides later blocks. `top_n` is ignored: vLLM would list so many tokens at
    every position of the prompt, that of the recording included. So the sound, too, judges a position of a draft only
    if it contradicts the likeliest token there: that position is asked for once more.
    """

    def __init__(self, requests: VllmClip) -> None:
        super().__init__(requests.call)
        self._requests = requests
        self._listed: dict[tuple[int, ...], Likely] = {}  # text -> the likeliest tokens after it
        self._all_listed = set[tuple[int, ...]]()  # texts after which as many are listed as the server may list
        self._next: dict[tuple[int, ...], int] = {}  # text -> the token that the cloud continues it with
        self._banned: dict[tuple[int, ...], int] = {}  # text -> the likeliest token after it, which the sound banned
        self._writes_on = False

    @property
    def work(self) -> ModelWork:
        return self._requests.work

    def _prefill(self) -> None:
        self._continued((), (), 1)

    def _verdict(self, text_ids: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        clip, before_ms, m = self._requests.clip, self.work.step_ms, len(draft.ids)
        decoding, rule = clip.config.decoding, clip.config.decoding.rules.rule
        room, path, accepted = decoding.max_new_tokens - len(text_ids), tuple(text_ids), 0
        groups = clip.synonyms if rule == "class" else NO_SYNONYMS
        unsure = (at for at, each in enumerate(draft.evidence) if each.probability < _SURE)
        cut = next(unsure, m) if self._writes_on else m
        after = max(min(1 + run_on, room - m), 1)
        for id_ in draft.ids:
            own = self._continued(path, draft.ids[accepted:cut], m - max(cut, accepted) + after)
            if not says_same(id_, own, groups):
                break
            path, accepted = (*path, id_), accepted + 1
        # nothing is generated after an accepted end of the text
        written, most = [path[-1]] if accepted and path[-1] in clip.stop_ids else [], min(1 + run_on, room - accepted)
        while not written or (len(written) < most and written[-1] not in clip.stop_ids):
            written.append(self._continued((*path, *written), (), max(most - len(written), 1)))
        self._writes_on = m > 0 and decoding.defers and rule != "class"
        decided, start = (*path, *written), len(text_ids)
        instead = tuple(self._banned.get(decided[:at]) for at in range(start, len(decided)))
        return Verdict(accepted, written[0], tuple(written[1:]), ms=self.work.step_ms - before_ms, instead=instead)

    def _continued(self, text_ids: tuple[int, ...], draft: tuple[int, ...], tokens: int) -> int:
        """The cloud's next token after `text_ids`; if unknown, a request scores `draft` and generates `tokens`."""
        if text_ids not in self._next:
            grounding = self._requests.clip.grounding
            if text_ids not in self._listed:
                self._ask(text_ids, draft, tokens, all_listed=grounding is not None and not draft)
            row = self._listed.get(text_ids)
            # bans of other tokens than the likeliest change nothing
            if row is None or (
                grounding is not None and text_ids not in self._all_listed and grounding.contradicts(text_ids, row.best)
            ):
                self._ask(text_ids, (), 1, all_listed=True)
                row = self._listed[text_ids]
            left = heard(grounding, text_ids, row)
            if row.best not in left.probabilities:
                self._banned[text_ids] = row.best
            self._next[text_ids] = left.best
        return self._next[text_ids]

    def _ask(self, text_ids: tuple[int, ...], draft: tuple[int, ...], tokens: int, *, all_listed: bool) -> None:
        """Asks for the likeliest tokens at each token of `draft`, and at `tokens` more that are generated."""
        requests, server = self._requests, self._requests.server
        # tokens that may not be generated can be the likeliest ones: as many more are listed as are known of
        banned = len(server.processor.banned_ids) + server.vocab_size - requests.clip.vocab_size
        listed = wire.MOST_CANDIDATES if all_listed else min(2 + banned, wire.MOST_CANDIDATES)
        scored = requests.scored((*text_ids, *draft), len(draft), tokens, listed)
        path = (*draft, *scored.generated)
        found = {(*text_ids, *path[:at]): row for at, row in enumerate(scored.likely) if row.probabilities}
        self._listed |= found
        if listed == wire.MOST_CANDIDATES:
            self._all_listed |= found.keys()


class Vllm(RemoteModel):
    """The model of a vLLM server, as the cloud or as the edge, for any number of clips at once. See `RemoteModel`.

    The server's model must have the processor's prompt format and eos ids; no request can check that. Its tokenizer and
    vocabulary are compared by test requests. Also raises TokenizerMismatchError if they differ, and EdgeError if an
    edge cannot be reached, without which no clip can be captioned.
    """

    content_type, most_bytes = "application/json", wire.MOST_BYTES

    def __init__(self, config: Server, processor: Processor, *, own: bool, role: Decider = "cloud") -> None:
        super().__init__(config, processor, "waveform", own=own, role=role)
        assert config.served_model is not None  # a configuration without is refused
        self.model, self.known = config.served_model, {"serves": config.served_model, **self.known}
        self._prompts: dict[tuple[str, str | None], list[int]] = {}
        self.start(max(config.timeout_s, _START_S))

    def sound_fault(self, lexicon: str) -> str | None:
        """None: what the server lists is judged here."""

    def verifier(self, clip: RemoteClip) -> VllmVerifier:
        return VllmVerifier(VllmClip(self, clip))

    def drafter(self, clip: RemoteClip) -> VllmDrafter:
        """The drafter of a clip. Raises DecodingError if the server cannot apply the clip's settings."""
        return VllmDrafter(VllmClip(self, clip))

    def prompt_ids(self, prompt: Prompt, call: Call) -> tuple[int, ...]:
        """The ids of a prompt as the server takes them: one placeholder for each run of placeholders.

        A prompt without ids is made by the server, once for each instruction, about a second of silence: prompts differ
        only in the number of placeholders.
        """
        ids: Sequence[int] = prompt.ids
        if (asked := prompt.unformatted) is not None:
            if asked not in self._prompts:
                self._prompts[asked] = self._tokens(call, messages=wire.messages(*asked, self.processor.sampling_rate))
            ids = self._prompts[asked]
        placeholder = self.processor.placeholder_id
        return tuple(id_ for before, id_ in zip((None, *ids), ids, strict=False) if not id_ == before == placeholder)

    def require_fit(self, call: Call) -> None:
        """Makes requests like the later ones: if the server refuses one, the set-up is wrong."""
        served = call.fetch("GET", wire.MODELS, partial(parse, wire.ServedModels)).data
        models = {each.id for each in served}
        if self.model not in models:
            names = ", ".join(sorted(name[:100] for name in models)) or "nothing"
            hint = f"Set {self.role}.model to the name under which it serves the model (its --served-model-name)."
            raise RefusedError(f"the vLLM server at {self.name} serves {names}, not {self.model}", hint)
        processor = self.processor
        text = _PROBE + "".join(map(processor.token_text, sorted({*processor.eos_ids, processor.placeholder_id})))
        if self._tokens(call, prompt=text, add_special_tokens=False) != processor.encode(text):
            raise RefusedError(
                f"{self.processor_name} {processor.name} and {self.role} {self.model} at {self.name} have different "
                "tokenizers",
                hint=f"Drafted ids would mean other words to it. Name its checkpoint in {self.role}.processor.",
                kind=TokenizerMismatchError,
            )
        # without a recording; also shows whether the last id exists there
        ids = (*processor.encode(_PROBE), self.vocab_size - 1)
        request = GenerateRequest(ids, len(ids), 1, 1, self.vocab_size)
        body = request.body(self.model, processor.eos_ids)
        call.fetch("POST", wire.GENERATE, partial(wire.read_answer, request=request), body, request.most_bytes)

    def _tokens(self, call: Call, **what: object) -> list[int]:
        """The server's token ids for a `prompt` or for `messages`."""
        body = json.dumps({"model": self.model, **what}).encode()
        return call.fetch("POST", wire.TOKENIZE, partial(parse, wire.Tokens), body).tokens
