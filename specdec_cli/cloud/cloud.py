"""A cloud that is not loaded in this process, as the rest of specdec sees it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.decoding.verify import Verifier
    from specdec_cli.models.processor import Processor, Prompt

Payload = Literal["features", "waveform"]
"""What of a recording leaves the device: log-mel features, or the recording itself."""


class RemoteCloud(Protocol):
    """A cloud that is elsewhere. It stands where a loaded model would stand in a `Pair`.

    Attributes:
        name: what the user calls it: the address in the configuration.
        payload: what it is sent of a recording.
        processor: makes its prompts: the edge's, or that of `cloud.processor`.
    """

    name: str
    payload: Payload
    processor: Processor

    @property
    def vocab_size(self) -> int:
        """Leading token ids that it may use."""

    @property
    def window_s(self) -> float:
        """Longest recording that it takes, seconds."""

    @property
    def trouble(self) -> str | None:
        """Why it was not reached, in a sentence; None if it was."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.ModelInfo`."""

    def verifier(self, prompt: Prompt, config: Config, vocab_size: int, stop_ids: Collection[int]) -> Verifier:
        """Whoever judges the blocks of one clip. Nothing is sent before the first block, or `prefill`.

        Args:
            prompt: the clip's, made by `processor`.
            config: the run's settings.
            vocab_size: ids from here on are never scored.
            stop_ids: nothing is generated after any of these.

        Raises:
            DecodingError: this cloud cannot judge such a clip, or not by these settings.
        """

    def probe(self) -> str:
        """How well it is reached, in a phrase: versions, round trip. Raises CloudError if it is not."""

    def close(self) -> None:
        """Gives connections and threads back. What is under way fails."""
