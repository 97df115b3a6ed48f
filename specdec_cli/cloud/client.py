"""A verify server as the cloud: `specdec serve`, asked over HTTP."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Collection, Coroutine
from concurrent.futures import Future
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

from specdec_cli.cloud import fingerprint
from specdec_cli.cloud.background import Background
from specdec_cli.cloud.guard import Guard
from specdec_cli.cloud.link import Payload
from specdec_cli.cloud.protocol import PROTOCOL, Info, parse
from specdec_cli.cloud.token import read_token
from specdec_cli.cloud.transport import RefusedError, Request, Traffic, Transport
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.vocabulary import usable_vocab_size

if TYPE_CHECKING:
    import torch

    from specdec_cli.cloud.remote import RemoteVerifier
    from specdec_cli.decoding.options import DecodingOptions

T = TypeVar("T")

_PROBES: Final = 5


class HttpCloud:
    """The connection to one verify server, for any number of clips at once. See `CloudLink`.

    A server that cannot be reached when this is made is asked again when a clip needs it; until then it is taken to
    have the edge's vocabulary and eos ids.

    Args:
        config: with a `url`.
        edge: the model whose prompts, features and ids are sent.

    Raises:
        ConfigError: the token or the certificates are not there, the server does not take the token, or it does not fit
            the edge.
        TokenizerMismatchError: its token ids mean something else.
    """

    payload: Payload = "features"
    accepts_waveform = False

    def __init__(self, config: CloudConfig, edge: AudioLanguageModel) -> None:
        if config.url is None:
            raise ConfigError("a cloud behind a link needs cloud.url")
        self.name = config.url
        self.timeout_s = config.timeout_s
        self._edge = _Edge(edge)
        self._guard = Guard(config.url, config.timeout_s, config.retry_s)
        self._transport = Transport(config.url, read_token(config.token_env, "cloud.token_env"), config.ca_file)
        self._background = Background("specdec cloud")
        self._end = weakref.finalize(self, _end, self._background, self._transport)
        self._info: Info | None = None
        self._refusal: ConfigError | TokenizerMismatchError | None = None
        try:
            self._background.submit(self._guard.run(self.connected(Traffic()))).result()
        except CloudError as error:
            if isinstance(error, RefusedError) and error.code == "unauthorized":
                self._refusal = ConfigError(f"{self.name}: {error.message}", hint=error.hint)
            if self._refusal is not None:
                self.close()
                raise self._refusal from None

    @property
    def info(self) -> Info | None:
        """What the server says of itself; None as long as it was not reached."""
        return self._info

    @property
    def trouble(self) -> str | None:
        """Why it was not reached, in a sentence; None if it was."""
        return None if self._info is not None else self._guard.trouble

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text of the cloud's."""
        return tuple(self._info.eos_ids) if self._info else self._edge.eos_ids

    @property
    def vocab_size(self) -> int:
        """Leading token ids that it may use."""
        return self._info.vocab_size if self._info else self._edge.vocab_size

    @property
    def window_s(self) -> float:
        """Longest recording that it takes, seconds."""
        return self._info.window_s if self._info else self._edge.window_s

    def describe(self) -> dict[str, str]:
        """The address, and what the server says of its model."""
        if self._info is None:
            return {"name": self.name, "dtype": "unknown", "device": "unknown"}
        told = self._info
        shown = {"name": self.name, "serves": told.model, "dtype": told.dtype, "device": told.device}
        return shown if told.weights is None else {**shown, "weights": told.weights}

    def verifier(
        self,
        inputs: PromptInputs,
        options: DecodingOptions,
        capacity: int,
        vocab_size: int,
        generator: torch.Generator,  # noqa: ARG002 (its seed is among the options, and the server draws by that)
        stop_ids: Collection[int],
    ) -> RemoteVerifier:
        """Judges the blocks of one clip; see `CloudLink.verifier`."""
        from specdec_cli.cloud.remote import RemoteVerifier

        if self._info is not None:
            self._require_room(self._info, len(inputs.ids), capacity)
        return RemoteVerifier(self, inputs, options, capacity, vocab_size, stop_ids)

    def _require_room(self, told: Info, prompt: int, capacity: int) -> None:
        """Raises DecodingError where prompt and text would not fit."""
        if prompt + capacity > told.context or capacity > told.limits.text_tokens:
            raise DecodingError(
                f"the cloud at {self.name} takes {told.context} tokens, {told.limits.text_tokens} of them behind the "
                f"prompt, but the prompt has {prompt} (audio included) and {capacity} may follow",
                hint="Use a shorter --prompt, a smaller --max-new-tokens, or shorter pieces (--segment).",
            )

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins a call; its future raises CloudError at the latest when its time is up."""
        return self._background.submit(self._guard.run(work))

    async def connected(self, traffic: Traffic) -> Info:
        """What the server says of itself, asked once.

        Raises:
            CloudError: not reached, or it does not fit.
        """
        if self._info is None:
            told = await self._told(traffic)
            self._refusal = self._edge.refusal(self.name, told)
            if self._refusal is not None:
                raise CloudError(self._refusal.message, hint=self._refusal.hint)
            self._info = told
        return self._info

    @property
    def transport(self) -> Transport:
        """Its connections."""
        return self._transport

    def forget(self, session: str) -> None:
        """Tells the server that a clip is done, without waiting for it or caring."""

        async def delete() -> None:
            async with asyncio.timeout(self.timeout_s):
                await self._transport.fetch(Request("DELETE", f"/v1/sessions/{session}"), Traffic(), lambda _: None)

        if not self._background.closed:
            self._background.submit(delete())

    def probe(self) -> str:
        """Versions and round trip; see `CloudLink.probe`."""
        times = []
        for _ in range(_PROBES):
            started = time.perf_counter()
            told = self.submit(self._told(Traffic())).result()
            times.append((time.perf_counter() - started) * 1e3)
        self.submit(self.connected(Traffic())).result()
        return (
            f"{self.name}: {told.model}, specdec {told.server}, protocol {told.protocol}, "
            f"{median(times):.1f} ms round trip"
        )

    async def _told(self, traffic: Traffic) -> Info:
        return await self._transport.fetch(Request("GET", "/v1/info"), traffic, lambda body: parse(Info, body))

    def close(self) -> None:
        """Closes the connections and ends the thread, as happens by itself when the link is dropped."""
        self._end()


def _end(background: Background, transport: Transport) -> None:
    background.close(transport.close())


class _Edge:
    """What the server is compared with; fingerprints are computed when they are wanted."""

    def __init__(self, model: AudioLanguageModel) -> None:
        self._model = model
        self.eos_ids = model.eos_ids
        self.vocab_size = usable_vocab_size(model)
        self.window_s = model.window_s

    def refusal(self, name: str, told: Info) -> ConfigError | TokenizerMismatchError | None:
        """Why the server cannot be this edge's cloud."""
        if told.protocol != PROTOCOL:
            return ConfigError(
                f"the server at {name} (specdec {told.server}) speaks protocol {told.protocol}, and this is {PROTOCOL}",
                hint="Install the same version of specdec on both sides.",
            )
        model = self._model
        if told.tokenizer != (ours := fingerprint.of_tokenizer(model)):
            return TokenizerMismatchError(
                f"edge {model.name} and cloud {told.model} at {name} have different tokenizers ({ours} and "
                f"{told.tokenizer})",
                hint="Drafted ids would mean other words to the cloud. Use two models of one family and release.",
            )
        for what, ours, theirs in (
            ("features", fingerprint.of_features(model), told.features),
            ("prompts", fingerprint.of_prompts(model), told.prompt),
        ):
            if ours != theirs:
                return ConfigError(
                    f"edge {model.name} and cloud {told.model} at {name} want different {what} ({ours} and {theirs})",
                    hint="The edge's are what is sent. Use two models of one family, and one release of transformers.",
                )
        return None
