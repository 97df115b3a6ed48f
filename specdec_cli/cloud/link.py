"""What the rest of specdec needs to know of a cloud that is not loaded in this process."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from specdec_cli.decoding.options import DecodingOptions
    from specdec_cli.decoding.verify import Verifier
    from specdec_cli.models.family import PromptInputs

Payload = Literal["features", "waveform"]
"""What of a recording leaves the device: log-mel features, or the recording itself."""


class CloudLink(Protocol):
    """A cloud behind a link. It stands where a loaded model would stand in a `Pair`.

    The clip's prompt and features come from the edge: a link is made only where the two clouds would agree on them.
    """

    @property
    def name(self) -> str:
        """What the user calls it: the address in the configuration."""

    @property
    def payload(self) -> Payload:
        """What it is sent of a recording."""

    @property
    def accepts_waveform(self) -> bool:
        """Whether it wants `PromptInputs.waveform`; where it does not, the waveform is not even handed to it."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text of its."""

    @property
    def vocab_size(self) -> int:
        """Leading token ids that it may use."""

    @property
    def window_s(self) -> float:
        """Longest recording that it takes, seconds."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.schema.ModelInfo`."""

    def verifier(
        self,
        inputs: PromptInputs,
        options: DecodingOptions,
        capacity: int,
        vocab_size: int,
        generator: torch.Generator,
        stop_ids: Collection[int],
    ) -> Verifier:
        """Whoever judges the blocks of one clip. Nothing is sent before the first block, or `prefill`.

        Args:
            inputs: the clip's prompt.
            options: the run's settings.
            capacity: most tokens that will follow the prompt at any time, drafts included.
            vocab_size: ids from here on are never scored.
            generator: the clip's random generator.
            stop_ids: nothing is generated behind any of these.

        Raises:
            DecodingError: this cloud cannot judge such a clip, or not by these settings.
        """

    def probe(self) -> str:
        """How well it is reached, in a phrase: versions, round trip. Raises CloudError if it is not."""

    def close(self) -> None:
        """Gives its threads and connections back. What is under way fails."""
