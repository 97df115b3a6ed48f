"""What a model behind a server offers to a pair, and what it is given of a clip."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from specdec_cli.config import Config
from specdec_cli.decoding.accept import Synonyms
from specdec_cli.decoding.block import Drafter, Verifier
from specdec_cli.errors import DecodingError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.prompts import Language
from specdec_cli.types import Candidates, Decider, Measured, Payload


class ClipGrounding(Protocol):
    """The figures of a clip, and the tokens that they ban: a `labels.grounding.Grounding`."""

    @property
    def measured(self) -> Measured: ...

    @property
    def language(self) -> Language: ...

    @property
    def attributes(self) -> Collection[str]:
        """Those whose classes they decide."""

    @property
    def lexicon_digest(self) -> str:
        """Of the lexicon that says which words name which classes."""

    def banned(self, text_ids: Sequence[int], likeliest: Candidates) -> Collection[int]:
        """Which of the likeliest tokens after `text_ids` are banned."""

    def contradicts(self, text_ids: Sequence[int], token: int) -> bool:
        """Whether a token after `text_ids` is banned where there is an answer; only then are others to be looked at."""


@dataclass(frozen=True, slots=True)
class RemoteClip:
    """One clip, as a remote model needs it."""

    prompt: Callable[[], Prompt]  # made when it is first called
    config: Config
    vocab_size: int  # ids from `vocab_size` on are never written
    stop_ids: Collection[int]
    top_n: int = 0  # most likely tokens to list at each decided position
    synonyms: Synonyms = field(default_factory=dict)
    grounding: ClipGrounding | None = None  # bans tokens; None: nothing does

    def waveform_for(self, model: Remote) -> npt.NDArray[np.float32]:
        """The samples, mono [n]. Raises DecodingError if the prompt does not hold them."""
        if (samples := self.prompt().waveform) is None:
            message = f"the {model.role} at {model.name} needs the recording, and the prompt does not hold it"
            raise DecodingError(message)
        return samples


class Remote(Protocol):
    """A model behind a server, in the place of a loaded one. Any number of threads may call it."""

    is_remote: Literal[True]
    role: Decider
    name: str  # in messages and transcripts
    processor: Processor  # makes the prompts
    payload: Payload
    failure: str | None  # why the last call failed; None: it did not

    def describe(self) -> Mapping[str, str]:
        """The fields of `transcript.ModelInfo`."""

    def sound_fault(self, lexicon: str) -> str | None:
        """Why the sound cannot ban tokens of this model by the lexicon of that digest; None: nothing is known."""

    def verifier(self, clip: RemoteClip) -> Verifier:
        """The verifier of a clip. Raises DecodingError if the server cannot apply the clip's settings."""

    def probe(self) -> str:
        """Which model answers and how soon, in a phrase. Raises CloudError if none answers, or it does not fit."""

    def end_calls(self) -> None:
        """Ends running calls; later ones are made."""

    def close(self) -> None:
        """Ends running calls, and returns when every connection is closed."""


class RemoteEdge(Remote, Protocol):
    """A remote model that may draft, too."""

    def drafter(self, clip: RemoteClip) -> Drafter:
        """The drafter of a clip. Raises DecodingError if the server cannot apply the clip's settings."""
