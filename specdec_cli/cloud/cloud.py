"""A cloud that is not loaded in this process, as the rest of specdec sees it, whatever its server speaks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from specdec_cli.cloud.http import Caller, Http, RefusedError
from specdec_cli.config import Config
from specdec_cli.decoding.accept import Synonyms, Verdict
from specdec_cli.decoding.block import Draft
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import Candidates, ModelWork

if TYPE_CHECKING:
    from specdec_cli.decoding.rows import Rows

_MOST_PROBABILITY: Final = 1.001  # of a few tokens together, each rounded

Payload = Literal["features", "waveform"]  # what of a recording leaves the device: log-mel features, or all of it


class RemoteCloud(ABC):
    """A server at an address. It stands where a loaded model would stand in a `Pair`.

    Its processor makes the prompts; it was loaded for this cloud (`own`), or is the edge's.
    """

    verifier: type[RemoteVerifier]  # of the blocks of one clip
    served: Mapping[str, str] = {"dtype": "unknown", "device": "unknown"}  # the model, as far as it is known

    def __init__(self, processor: Processor, http: Http, payload: Payload, *, own: bool) -> None:
        if payload == "waveform" and not http.config.allow_audio_upload:
            raise ConfigError(
                f"{http.url} is to be sent recordings, not features of them, and {http.side}.allow_audio_upload is "
                "false",
                hint="Recordings would leave this machine. Allow it, or use a model that takes log-mel features.",
            )
        self.name, self.http = http.url, http
        self.payload, self.processor = payload, processor
        self.vocab_size = processor.vocab_size
        self.role = "cloud.processor" if own else "edge"  # what the processor is called in messages
        self.reached = False

    @abstractmethod
    def fit(self, caller: Caller) -> None:
        """Finds out, within a call, whether the server fits. Raises CloudError where it does not."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.ModelInfo`."""
        return {"name": self.name, **self.served}

    def start(self, timeout_s: float | None = None) -> None:
        """Connects for the first time; a clip tries again. Raises SpecdecError if the configuration is to blame."""
        caller = Caller(self.http)
        try:
            with caller.call(timeout_s):
                self.connect(caller)
        except RefusedError as error:
            self.close()
            raise error.kind(error.message, hint=error.hint) from None
        except CloudError:
            pass  # see `http.failure`

    def connect(self, caller: Caller) -> None:
        """Makes sure, within a call, that the server fits; once."""
        if not self.reached:
            self.fit(caller)
            self.reached = True

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
class RemoteVerifier(ABC):
    """Verifies the blocks of one clip at a server. See `LocalVerifier`; one thread at a time calls it.

    The clip is sent with the first block, or with `prefill`; a server that has dropped it is sent it again. Raises
    DecodingError if the prompt holds no recording, or the server cannot apply these settings.
    """

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
        self.waveform, processor = self.prompt.waveform, self.cloud.processor
        self.caller = Caller(self.cloud.http)
        self._never = frozenset(processor.placeholders)

    @property
    @abstractmethod
    def work(self) -> ModelWork: ...

    @abstractmethod
    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        """The server's verdict, within a call; its `ms` is the server's time for all of it."""

    @abstractmethod
    def upload(self) -> None:
        """Sends the clip within a call, unless the server has it."""

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        started, before, down = time.perf_counter(), self.work, self.caller.bytes_down
        with self.caller.call():
            self.cloud.connect(self.caller)
            found = self.request_verdict(text, draft, run_on)
            self._require_possible(found, draft, run_on)
        done, elapsed_ms = self.work - before, (time.perf_counter() - started) * 1e3
        return replace(
            found,
            ms=max(found.ms - done.reading_ms, 0.0),
            prefilled=done.encoder_passes > 0,
            network_ms=max(elapsed_ms - found.ms, 0.0),
            bytes_up=done.bytes_up,
            bytes_down=self.caller.bytes_down - down,
        )

    def prefill(self) -> None:
        with self.caller.call():
            self.cloud.connect(self.caller)
            self.upload()

    def close(self) -> None:
        self.caller.close()

    def _require_possible(self, found: Verdict, draft: Draft, run_on: int) -> None:
        """Raises CloudError for a verdict that cannot be one on that block."""
        tokens = (found.token, *found.more)
        decided = found.accepted + len(tokens)
        if not (
            found.accepted <= len(draft.ids)
            and len(found.more) <= run_on
            and max(tokens) < self.vocab_size
            and self._never.isdisjoint(tokens)
            and set(self.stop_ids).isdisjoint(tokens[:-1])
            and (found.near_ties or 0) <= decided
            and (found.likeliest is None or len(found.likeliest) == decided)
            and all(_is_distribution(row, self.vocab_size) for row in found.likeliest or ())
        ):
            raise CloudError(
                f"the cloud at {self.cloud.name} answers nonsense: {found.accepted} of {len(draft.ids)} drafted tokens "
                f"accepted, then the tokens {tokens}, where {1 + run_on} may follow; {found.near_ties} near ties; "
                f"likeliest tokens: {found.likeliest!s:.200}"
            )


def _is_distribution(row: Candidates, vocab_size: int) -> bool:
    """Whether tokens and probabilities are the likeliest ones of a distribution over `vocab_size` ids."""
    ids, probabilities = [id_ for id_, _ in row], [p for _, p in row]
    return (
        len(set(ids)) == len(ids)
        and max(ids, default=0) < vocab_size
        and sum(probabilities) < _MOST_PROBABILITY
        and probabilities == sorted(probabilities, reverse=True)
    )
