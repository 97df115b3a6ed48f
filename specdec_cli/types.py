"""Plain values that cross module borders: the vocabulary of settings and the events of a decoding run.

Nothing here imports torch, so that the command line, the live view and the transcript can use it cheaply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Mode = Literal["hybrid", "lossless", "edge", "cloud"]
"""hybrid: the gate decides; lossless: every block is verified; edge, cloud: one model alone, in the same loop."""

GateName = Literal["entropy", "margin", "logprob", "learned", "random", "always", "never"]
AcceptanceName = Literal["greedy", "sampling", "rank", "prob", "typical"]

DEFAULT_THRESHOLDS: Final[dict[GateName, float]] = {"entropy": 1.0, "margin": 0.3, "logprob": -1.0, "random": 0.1}
"""Threshold of each gate that has one by itself: nats; a difference of probabilities; nats; a share of the blocks.

The learned gate's comes with its weights.
"""

TOKEN_GATES: Final[frozenset[GateName]] = frozenset({"entropy", "margin", "logprob", "learned"})
"""Gates that judge token by token, so that drafting can stop at the first one they are unsure of."""

LOSSY_RULES: Final[frozenset[AcceptanceName]] = frozenset({"rank", "prob", "typical"})
"""Acceptance rules under which the text may differ from the cloud's own."""

Reason = Literal["entropy", "margin", "logprob", "learned", "random", "loop", "always"]
"""Why a block was escalated."""

Source = Literal["edge", "accepted", "corrected", "bonus", "cloud"]
"""Where a committed token came from.

edge: drafted and kept without asking; accepted: drafted and confirmed by the cloud; corrected: the cloud's token
in place of a rejected one; bonus: the cloud's token after a block that it accepted whole; cloud: generated in
cloud mode.
"""

Candidates = tuple[tuple[int, float], ...]
"""The likeliest tokens at one position, best first: (token id, probability)."""

FinishReason = Literal["eos", "max_tokens", "sentences", "stop_string", "loop"]


@dataclass(frozen=True, slots=True)
class Prefill:
    """A model has read the recording and the prompt.

    Attributes:
        model: which of the two.
        tokens: prompt length in tokens, audio included.
        encoder_ms: time in the audio tower, milliseconds.
        prefill_ms: time in the language model for the prompt, milliseconds, without the audio tower.
    """

    model: Literal["edge", "cloud"]
    tokens: int
    encoder_ms: float
    prefill_ms: float


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What one exchange with a cloud behind a link cost.

    Attributes:
        bytes_up, bytes_down: bodies of requests and answers as sent, repeats included; 0 on a link that is imitated
            without messages.
        network_ms: from the first byte out to the last byte in, less `cloud_ms`, milliseconds.
        cloud_ms: the cloud's own time, as it says, milliseconds; its prefill is in it.
        simulated: whether link or step costs are imitated.
    """

    bytes_up: int
    bytes_down: int
    network_ms: float
    cloud_ms: float
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One block: drafted, then kept or escalated, then committed.

    Attributes:
        index: 0-based number of the round.
        draft_ids: drafted token ids, 1..k of them (a block ends early at eos or at the token budget).
        entropy: of the drafting model at each drafted token, nats, after the logits processors.
        score: the gate's own figure per drafted token, in its own unit (equal to `entropy` for the entropy gate).
        margin: probability of the likeliest token minus that of the second, at each drafted token.
        logprob: natural logarithm of the drafted token's probability.
        candidates: the likeliest three tokens at each drafted token, best first, each with its probability.
        escalated: whether the cloud was asked.
        reason: why it was, or None.
        accepted: leading drafted tokens that were kept, before stop rules cut the text.
        committed_ids: what this round added to the text (stop rules applied), correction or bonus included.
        source: origin of each committed token, same length as `committed_ids`.
        draft_ms: time spent drafting, milliseconds, without prefill.
        verify_ms: time of the cloud's pass and the acceptance rule, milliseconds, without prefill; None if not asked.
        network_ms: time on the link, milliseconds; None where there is no link.
    """

    index: int
    draft_ids: tuple[int, ...]
    entropy: tuple[float, ...]
    score: tuple[float, ...]
    escalated: bool
    reason: Reason | None
    accepted: int
    committed_ids: tuple[int, ...]
    source: tuple[Source, ...]
    draft_ms: float
    verify_ms: float | None
    network_ms: float | None = None
    margin: tuple[float, ...] = ()
    logprob: tuple[float, ...] = ()
    candidates: tuple[Candidates, ...] = ()

    @property
    def max_entropy(self) -> float:
        """Largest entropy among the drafted tokens, nats."""
        return max(self.entropy)

    @property
    def corrected(self) -> bool:
        """Whether a token of the cloud's replaced a drafted one."""
        return "corrected" in self.source


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What one model did for one clip.

    Attributes:
        encoder_passes: runs of the audio tower.
        forwards: runs of the language model, prefill included.
        encoder_ms, prefill_ms, step_ms: milliseconds in the audio tower, in the prefill, and in all other forwards.
        prompt_tokens: tokens of the prompt, audio included.
        fed_tokens: tokens fed after the prompt; a rolled-back token that is fed again counts again.
        bytes_up: bodies of requests that were sent to a model behind a link, repeats included; 0 for one of this process.
    """

    encoder_passes: int = 0
    forwards: int = 0
    encoder_ms: float = 0.0
    prefill_ms: float = 0.0
    step_ms: float = 0.0
    prompt_tokens: int = 0
    fed_tokens: int = 0
    bytes_up: int = 0

    @property
    def total_ms(self) -> float:
        """Milliseconds in the model's own forwards, audio tower included."""
        return self.encoder_ms + self.prefill_ms + self.step_ms


@dataclass(frozen=True, slots=True)
class Finished:
    """The clip is done.

    Attributes:
        token_ids: the committed text, eos included if it was reached.
        finish_reason: the rule that ended it.
        edge, cloud: each model's work; None for a model that the mode does not use.
        ttft_ms: from the start of decoding (audio already decoded) to the first committed token, milliseconds.
        total_ms: from the start of decoding to the end, milliseconds.
    """

    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    edge: ModelWork | None
    cloud: ModelWork | None
    ttft_ms: float
    total_ms: float


Event = Prefill | Round | Finished


@dataclass(frozen=True, slots=True)
class Started:
    """A clip is about to be decoded: what a display needs for its heading.

    Attributes:
        file: the path as the user gave it.
        duration_s: length of the recording (or of the segment), seconds.
        start_s, end_s: place in the recording, seconds, when it is one segment of several.
        language: language of the caption.
        prompt: the instruction given to the models.
        mode: how the two models work together.
        edge, cloud: "name · dtype · device" of each model in use, None for one that is not.
        settings: flat name -> value of the decoding settings in force.
    """

    file: str
    duration_s: float
    language: str
    prompt: str
    mode: Mode
    edge: str | None
    cloud: str | None
    settings: dict[str, object] = field(default_factory=dict)
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class EventText:
    """An event's token ids as text: the engine knows ids only, and a display no tokenizer.

    Attributes:
        draft_pieces: text of each drafted token; bytes that are not yet a character come as "\ufffd".
        committed_pieces: text of each committed token, parallel to `Round.source`.
        caption: the caption so far, without special tokens.
        labels: attribute -> class that the finished caption says, None where it says nothing; None: not asked for.
    """

    draft_pieces: tuple[str, ...] = ()
    committed_pieces: tuple[str, ...] = ()
    caption: str = ""
    labels: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """One step of a run, with its text."""

    event: Started | Event
    text: EventText
