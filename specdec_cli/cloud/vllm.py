"""A vLLM server as the cloud: an engine for those who outgrow one verify server.

It keeps no clip's keys and values between verifications, but recordings by id, and it takes the waveform itself: the
log-mel features are computed there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

from specdec_cli.cloud.background import Background
from specdec_cli.cloud.guard import Guard
from specdec_cli.cloud.link import Payload
from specdec_cli.cloud.token import read_token
from specdec_cli.cloud.vllm_http import DeclinedError, TimedTraffic, VllmHttp
from specdec_cli.cloud.vllm_rules import unserved
from specdec_cli.cloud.vllm_verifier import VllmVerifier
from specdec_cli.cloud.vllm_wire import (
    GENERATE,
    MODELS,
    MOST_CANDIDATES,
    TOKENIZE,
    VERSION,
    NonsenseError,
    Question,
    read_reply,
)
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.vocabulary import usable_vocab_size

if TYPE_CHECKING:
    import torch

    from specdec_cli.decoding.options import DecodingOptions

T = TypeVar("T")

_START_S: Final = 120.0
"""Seconds that the first questions may take: a server that was just started may still be compiling."""

_PROBES: Final = 5

_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"


class VllmCloud:
    """The connection to one vLLM server, for any number of clips at once. See `CloudLink`.

    The model behind it is taken to have the edge's prompt format, eos ids and padding: it has to be of the edge's
    family, which the server cannot be asked. Its tokenizer and vocabulary are compared by trying them. A server that
    cannot be reached when this is made is asked again when a clip needs it.

    Args:
        config: with a `url`, the `model` as the server names it, and leave to send it recordings.
        edge: the model whose prompts and ids are sent.

    Raises:
        ConfigError: the token or the certificates are not there, or the server does not offer what is needed.
        TokenizerMismatchError: its token ids mean something else.
    """

    payload: Payload = "waveform"
    accepts_waveform = True

    def __init__(self, config: CloudConfig, edge: AudioLanguageModel) -> None:
        if config.url is None or config.model is None or not config.allow_audio_upload:
            raise ConfigError("a vLLM cloud needs cloud.url, cloud.model, and cloud.allow_audio_upload: true")
        self.name = config.url
        self.model = config.model
        self.eos_ids = edge.eos_ids
        self.vocab_size = usable_vocab_size(edge)
        self.window_s = edge.window_s
        self.placeholder_ids = edge.placeholder_ids
        self.sampling_rate = edge.sampling_rate
        self._edge = edge
        self._guard = Guard(config.url, config.timeout_s, config.retry_s)
        self._http = VllmHttp(config.url, read_token(config.token_env, "cloud.token_env"), config.ca_file)
        self._background = Background("specdec vllm")
        self._context: int | None = None
        self._refusal: ConfigError | TokenizerMismatchError | None = None
        try:
            first = self._guard.run(self.connected(TimedTraffic()), max(config.timeout_s, _START_S))
            self._background.submit(first).result()
        except CloudError:
            if self._refusal is not None:
                self.close()
                raise self._refusal from None

    @property
    def trouble(self) -> str | None:
        """Why it was not reached, in a sentence; None if it was."""
        return None if self._context is not None else self._guard.trouble

    def describe(self) -> dict[str, str]:
        """The address, and the name of the model behind it; vLLM does not say more."""
        return {"name": self.name, "serves": self.model, "dtype": "unknown", "device": "unknown"}

    def verifier(
        self,
        inputs: PromptInputs,
        options: DecodingOptions,
        capacity: int,
        vocab_size: int,
        generator: torch.Generator,  # noqa: ARG002 (nothing is drawn)
        stop_ids: Collection[int],
    ) -> VllmVerifier:
        """Judges the blocks of one clip; see `CloudLink.verifier`."""
        if (why := unserved(options)) is not None:
            raise DecodingError(
                f"a vLLM cloud tells the likeliest tokens only, and {why}",
                hint="Use greedy acceptance at temperature 0 without penalties, or a cloud of specdec serve.",
            )
        if self._context is not None and len(inputs.ids) + capacity > self._context:
            raise DecodingError(
                f"the cloud at {self.name} takes {self._context} tokens, but the prompt has {len(inputs.ids)} (audio "
                f"included) and {capacity} may follow",
                hint="Use a shorter --prompt, a smaller --max-new-tokens, or shorter pieces (--segment).",
            )
        return VllmVerifier(self, inputs, options, vocab_size, stop_ids)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins a call; its future raises CloudError at the latest when its time is up."""
        return self._background.submit(self._guard.run(work))

    @property
    def http(self) -> VllmHttp:
        """Its connections."""
        return self._http

    def probe(self) -> str:
        """Version and round trip; see `CloudLink.probe`."""

        def read(body: bytes) -> str:
            try:
                return str(json.loads(body)["version"])[:40]
            except (ValueError, KeyError, TypeError) as error:
                raise NonsenseError("no version") from error

        times = []
        for _ in range(_PROBES):
            started = time.perf_counter()
            version = self.submit(self._http.ask(VERSION, None, TimedTraffic(), read)).result()
            times.append((time.perf_counter() - started) * 1e3)
        self.submit(self.connected(TimedTraffic())).result()
        return f"{self.name}: {self.model}, vLLM {version}, {median(times):.1f} ms round trip"

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        if not self._background.closed:
            self._background.close(self._http.close())

    async def connected(self, traffic: TimedTraffic) -> None:
        """Finds out, once, whether the server serves the model, offers the endpoints, and has the edge's ids.

        Raises:
            CloudError: it cannot be reached, or it does not fit.
        """
        if self._context is not None:
            return
        try:
            context = await self._served(traffic)
            await self._compare_tokens(traffic)
            await self._try_out(traffic)
        except (ConfigError, TokenizerMismatchError) as error:
            self._refusal = error
            raise CloudError(error.message, hint=error.hint) from None
        self._context = context

    async def _served(self, traffic: TimedTraffic) -> int:
        """The context of the model, which the server has."""

        def read(body: bytes) -> dict[str, int]:
            try:
                return {str(each["id"]): int(each["max_model_len"]) for each in json.loads(body)["data"]}
            except (ValueError, KeyError, TypeError) as error:
                raise NonsenseError("no list of models") from error

        found = await self._asked(MODELS, None, traffic, read)
        if self.model not in found:
            raise ConfigError(
                f"the vLLM server at {self.name} serves {', '.join(sorted(found)) or 'nothing'}, not {self.model}",
                hint="Set cloud.model to the name under which it serves the model (vllm's --served-model-name).",
            )
        return found[self.model]

    async def _compare_tokens(self, traffic: TimedTraffic) -> None:
        tokenizer = self._edge.tokenizer
        text = _PROBE + "".join(tokenizer.convert_ids_to_tokens(sorted({*self.eos_ids, *self.placeholder_ids})))
        request = {"model": self.model, "prompt": text, "add_special_tokens": False}

        def read(body: bytes) -> list[int]:
            try:
                return [int(token) for token in json.loads(body)["tokens"]]
            except (ValueError, KeyError, TypeError) as error:
                raise NonsenseError("no list of tokens") from error

        theirs = await self._asked(TOKENIZE, json.dumps(request).encode(), traffic, read)
        ours = tokenizer(text, add_special_tokens=False).input_ids
        if theirs != ours:
            raise TokenizerMismatchError(
                f"edge {self._edge.name} and cloud {self.model} at {self.name} have different tokenizers (the same "
                f"text is {len(ours)} tokens for one and {len(theirs)} for the other, or others)",
                hint="Drafted ids would mean other words to the cloud. Use two models of one family and release.",
            )

    async def _try_out(self, traffic: TimedTraffic) -> None:
        """A question like those that will come, about no recording: it shows whether the last id is known, too."""
        ids = (*self._edge.tokenizer(_PROBE, add_special_tokens=False).input_ids, self.vocab_size - 1)
        question = Question(ids, len(ids), 1, 1, MOST_CANDIDATES)
        body = question.body(self.model, None, self.eos_ids)
        await self._asked(GENERATE, body, traffic, lambda found: read_reply(found, question))

    async def _asked(self, path: str, body: bytes | None, traffic: TimedTraffic, read: Callable[[bytes], T]) -> T:
        """As `VllmHttp.ask`, but what the server declines at the start is a mistake of set-up.

        Raises:
            ConfigError: it does.
        """
        try:
            return await self._http.ask(path, body, traffic, read)
        except DeclinedError as error:
            hint = "Start vLLM with --enable-scale-out." if error.status == 404 else error.hint
            raise ConfigError(error.message, hint=hint) from error
