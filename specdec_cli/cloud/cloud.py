"""A cloud that is not loaded in this process, as the rest of specdec sees it, whatever its server speaks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from specdec_cli.cloud.http import Caller, Http, RefusedError
from specdec_cli.config import Config
from specdec_cli.decoding.accept import Synonyms, Verdict
from specdec_cli.decoding.block import Draft
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import ModelWork

if TYPE_CHECKING:
    from specdec_cli.decoding.rows import Rows

Payload = Literal["features", "waveform"]  # what of a recording leaves the device: log-mel features, or all of it


class RemoteCloud(ABC):
    """A server at an address. It stands where a loaded model would stand in a `Pair`.

    Its processor makes the prompts; it was loaded for this cloud (`own`), or is the edge's.
    """

    verifier: type[RemoteVerifier]  # of the blocks of one clip
    served: Mapping[str, str] = {"dtype": "unknown", "device": "unknown"}  # the model, as far as it is known
    reached = False

    def __init__(self, processor: Processor, http: Http, payload: Payload, *, own: bool) -> None:
        if payload == "waveform" and not http.config.allow_audio_upload:
            raise ConfigError(
                f"{http.url} is to be sent recordings, not features of them, and {http.side}.allow_audio_upload is "
                "false",
                hint="Recordings would leave this machine. Allow it, or use a model that takes log-mel features.",
            )
        self.name, self.http, self.payload = http.url, http, payload
        self.processor, self.vocab_size = processor, processor.vocab_size
        self.role = "cloud.processor" if own else "edge"  # what the processor is called in messages

    @abstractmethod
    def fit(self, caller: Caller) -> None:
        """Finds out, within a call, whether the server fits. Raises CloudError where it does not."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.ModelInfo`."""
        return {"name": self.name, **self.served}

    def start(self, timeout_s: float | None = None) -> None:
        """Connects for the first time; a clip tries again. Raises SpecdecError if the configuration is to blame."""
        try:
            with self.call(Caller(self.http), timeout_s):
                pass
        except RefusedError as error:
            self.close()
            raise error.kind(error.message, hint=error.hint) from None
        except CloudError:
            pass  # see `http.failure`

    @contextmanager
    def call(self, caller: Caller, timeout_s: float | None = None) -> Iterator[None]:
        """As `Caller.call`, with a server that fits: the first calls find that out."""
        with caller.call(timeout_s):
            if not self.reached:
                self.fit(caller)
                self.reached = True
            yield

    def probe(self) -> str:
        """What answers and how soon, in a phrase. Raises CloudError if nothing does, or it does not fit."""
        caller = Caller(self.http)
        with caller.call():
            self.fit(caller)
        return f"{self.name}: {self.served['serves']}, answered in {caller.waited_s * 1e3:.1f} ms"

    def close(self) -> None:
        """Closes the connections, as happens by itself when this is dropped."""
        self.http.close()


@dataclass(eq=False)
class RemoteClip(ABC):
    """One clip at a server; one thread at a time calls it. Raises DecodingError if the prompt holds no recording."""

    cloud: RemoteCloud
    prompt: Prompt
    config: Config
    vocab_size: int
    stop_ids: Collection[int]
    top_n: int = 0  # likeliest tokens to list of each decided position
    synonyms: Synonyms = field(default_factory=dict)
    rows: Rows | None = field(default=None, init=False)
    elsewhere = True

    def __post_init__(self) -> None:
        if self.prompt.waveform is None:
            raise DecodingError(f"the cloud at {self.cloud.name} needs the recording, and the prompt does not hold it")
        self.waveform = self.prompt.waveform
        self.caller = Caller(self.cloud.http)

    @property
    @abstractmethod
    def work(self) -> ModelWork: ...

    def close(self) -> None:
        """Ends a call under way."""
        self.caller.close()


class RemoteVerifier(RemoteClip):
    """Verifies the blocks of one clip at a server. See `LocalVerifier`.

    The clip is sent with the first block, or with `prefill`; a server that has dropped it is sent it again. Raises
    DecodingError if the server cannot apply these settings.
    """

    @abstractmethod
    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        """The server's verdict, within a call; its `ms` is the server's time for all of it."""

    @abstractmethod
    def prefill(self) -> None: ...

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        started, before, down = time.perf_counter(), self.work, self.caller.bytes_down
        with self.cloud.call(self.caller):
            found = self.request_verdict(text, draft, run_on)
        done, elapsed_ms = self.work - before, (time.perf_counter() - started) * 1e3
        return replace(
            found,
            ms=max(found.ms - done.reading_ms, 0.0),
            prefilled=done.encoder_passes > 0,
            network_ms=max(elapsed_ms - found.ms, 0.0),
            bytes_up=done.bytes_up,
            bytes_down=self.caller.bytes_down - down,
        )
