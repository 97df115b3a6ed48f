"""A vLLM server as the cloud or the edge: how it is reached, whether it fits, and its prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from specdec_cli.cloud.cloud import RemoteCloud
from specdec_cli.cloud.http import Caller, Http, RefusedError, Request, parse
from specdec_cli.cloud.vllm_clip import VllmVerifier
from specdec_cli.cloud.vllm_protocol import (
    GENERATE,
    MODELS,
    MOST_BYTES,
    TOKENIZE,
    Allowed,
    GenerateRequest,
    ServedModels,
    Tokens,
    data_url,
    read_answer,
    refused,
)
from specdec_cli.config import Config, LinkedConfig
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.errors import DecodingError, EdgeError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, Prompt, effective
from specdec_cli.types import Decider

_START_S: Final = 120.0  # for the first requests: a server that was just started may still be compiling
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"


class VllmCloud(RemoteCloud):
    """A vLLM server, for any number of clips at once; as the edge, see `VllmEdge`. See `RemoteCloud`.

    The model behind it is taken to have the processor's prompt format and eos ids; that cannot be requested. Its
    tokenizer and vocabulary are compared by trying them. Raises ConfigError or TokenizerMismatchError where the server
    lacks what is needed.
    """

    verifier = VllmVerifier
    side: Decider = "cloud"

    def __init__(self, config: LinkedConfig, processor: Processor, *, own: bool) -> None:
        assert config.model is not None  # a configuration without is refused
        http = Http(config, "application/json", MOST_BYTES, partial(refused, self.side), self.side)
        super().__init__(processor, http, "waveform", own=own)
        self.model, self.served = config.model, {"serves": config.model, **self.served}
        self._prompts: dict[tuple[str, str | None], tuple[int, ...]] = {}
        self.start(max(config.timeout_s, _START_S))

    def require_served(self, config: Config) -> None:
        """Raises DecodingError where settings take more than a server's likeliest tokens."""
        for name, hint in beyond_likeliest(effective(config.decoding, self.processor), config.acceptance):
            needs = f"{name}, as it is set or as its checkpoint suggests, needs more"
            raise DecodingError(f"a vLLM {self.side} returns the likeliest tokens only, and {needs}", hint=hint)

    def prompt_ids(self, prompt: Prompt, caller: Caller) -> tuple[int, ...]:
        """A prompt as the server takes it: one placeholder in place of each run of them.

        Where it has none yet, the server makes one, of a second of silence: prompts differ in the number of
        placeholders alone.
        """
        if prompt.unformatted is None:
            return self._single(prompt.ids)
        if prompt.unformatted not in self._prompts:
            instruction, system = prompt.unformatted
            rate = self.processor.sampling_rate
            content: list[Any] = [
                {"type": "audio_url", "audio_url": {"url": data_url(np.zeros(rate, np.float32), rate)}}
            ]
            content += [{"type": "text", "text": instruction}] if instruction else []
            turns: list[Any] = [] if system is None else [{"role": "system", "content": system}]
            ids = self._single(self._tokens(caller, messages=[*turns, {"role": "user", "content": content}]))
            if (places := ids.count(self.processor.placeholder_id)) != 1:
                raise RefusedError(
                    f"the vLLM server at {self.name} puts {places} recordings into a prompt, not 1",
                    hint="Serve the checkpoint with its own chat template.",
                )
            self._prompts[prompt.unformatted] = ids
        return self._prompts[prompt.unformatted]

    def _single(self, ids: Sequence[int]) -> tuple[int, ...]:
        placeholder = self.processor.placeholder_id
        return tuple(id_ for before, id_ in zip((None, *ids), ids, strict=False) if not id_ == before == placeholder)

    def fit(self, caller: Caller) -> None:
        """By requests like those that will come: what the server refuses of them is a mistake of set-up."""
        models = caller.fetch(Request("GET", MODELS), partial(parse, ServedModels)).data
        if self.model not in {each.id for each in models}:
            names = ", ".join(sorted(each.id[:100] for each in models)) or "nothing"
            raise RefusedError(
                f"the vLLM server at {self.name} serves {names}, not {self.model}",
                hint=f"Set {self.side}.model to the name under which it serves the model (its --served-model-name).",
            )
        processor = self.processor
        text = _PROBE + "".join(map(processor.piece, sorted({*processor.eos_ids, processor.placeholder_id})))
        if self._tokens(caller, prompt=text, add_special_tokens=False) != processor.encode(text):
            raise RefusedError(
                f"{self.role} {processor.name} and {self.side} {self.model} at {self.name} have different tokenizers",
                hint=f"Drafted ids would mean other words to it. Name its checkpoint in {self.side}.processor.",
                kind=TokenizerMismatchError,
            )
        # about no recording; it shows whether the last id exists there, too
        ids = (*processor.encode(_PROBE), self.vocab_size - 1)
        request = GenerateRequest(ids, len(ids), 1, 1, Allowed(self.vocab_size))
        body = request.body(self.model, processor.eos_ids)
        caller.fetch(Request("POST", GENERATE, body), partial(read_answer, request=request))

    def _tokens(self, caller: Caller, **what: object) -> list[int]:
        """The server's token ids of a `prompt` or of `messages`."""
        body = json.dumps({"model": self.model, **what}).encode()
        return caller.fetch(Request("POST", TOKENIZE, body), partial(parse, Tokens)).tokens


class VllmEdge(VllmCloud):
    """The edge behind a vLLM server. Raises EdgeError if it cannot be reached at the start: nothing goes without it."""

    side: Decider = "edge"

    def start(self, timeout_s: float | None = None) -> None:
        super().start(timeout_s)
        if self.http.failure is not None:
            raise EdgeError(self.http.failure, hint="Start the server, or check edge.url.")
