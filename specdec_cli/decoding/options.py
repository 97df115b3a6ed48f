"""The settings of one decoding run, as the engine wants them: resolved, checked and without text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from specdec_cli.decoding.imitation import Imitation
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import DecodingError
from specdec_cli.types import LOSSY_RULES, AcceptanceName, GateName, Mode

MOST_DRAFTED: Final = 16
"""Tokens drafted per round at most, where the number is not given."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How to turn a prompt into a text.

    Raises:
        DecodingError: a value that no run could use.
    """

    mode: Mode = "hybrid"
    k: int | Literal["auto"] = 5  # tokens drafted per round; auto: as many as pay, see adaptive.py
    cost_ratio: float | None = None  # with auto: an edge step in units of a verification; None: as measured
    max_new_tokens: int = 128  # budget of committed tokens
    min_new_tokens: int = 0  # eos is impossible before
    sentences: int | None = None  # stop after so many sentences
    stop_strings: tuple[str, ...] = ()  # stop behind any of these

    temperature: float = 0.0  # 0: greedy
    top_p: float | None = None  # nucleus, only when sampling
    top_k: int | None = None  # only when sampling
    seed: int = 0  # of the clip's one random generator
    repetition_penalty: float = 1.0  # over prompt and text, 1.0: off
    no_repeat_ngram: int = 0  # 0: off

    gate: GateName = "entropy"
    threshold: float | None = None  # None: the gate's own default
    stop_drafting: bool = False  # a block ends with the first token that escalates it
    classifier: Classifier | None = None  # of the learned gate
    acceptance: AcceptanceName | None = None  # None: greedy, or sampling if temperature > 0
    rank: int = 3  # rank rule: largest rank to accept
    prob: float = 0.1  # prob rule: least probability to accept
    typical_epsilon: float = 0.09  # typical rule, see acceptance.py
    typical_delta: float = 0.3

    loop_period: int = 8  # longest repeating unit that counts as a loop, 0: no detection
    loop_repeats: int = 3  # times that it must stand in a row
    loop_top_k: int = 10  # candidates when the edge breaks out of a loop
    cloud_prefill: Literal["lazy", "early", "overlap"] = "lazy"  # at the first escalation, before, or beside the edge
    draft_ahead: Literal["auto", "on", "off"] = "auto"  # draft on while a block is verified elsewhere
    run_on: int | Literal["auto"] = 0  # tokens that the cloud generates behind its own one, see run_on.py
    require_cloud: bool = False  # a cloud that fails ends the clip; else the edge writes on alone

    imitation: Imitation = field(default_factory=Imitation)  # of a link and of step costs

    def __post_init__(self) -> None:
        if self.most_drafted < 1:
            raise DecodingError(f"k is the number of drafted tokens and must be at least 1, got {self.k}")
        if self.max_new_tokens < 1:
            raise DecodingError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if self.sampling and self.rule == "greedy" and self.mode in ("hybrid", "lossless"):
            raise DecodingError(
                f"greedy acceptance with temperature {self.temperature:g} would follow neither model",
                hint="Use --accept sampling, or --temperature 0.",
            )
        if not self.sampling and self.rule == "sampling" and self.mode in ("hybrid", "lossless"):
            raise DecodingError(
                "sampling acceptance compares two distributions, and temperature 0 draws from none",
                hint="Set --temperature above 0, or use --accept greedy.",
            )
        if self.mode == "lossless" and self.rule in LOSSY_RULES:
            raise DecodingError(
                f"mode 'lossless' promises the cloud's own text, and acceptance {self.rule!r} is lossy",
                hint="Use --accept greedy (or sampling, with a temperature), or --mode hybrid --gate always.",
            )

    @property
    def most_drafted(self) -> int:
        """Tokens drafted per round, at most."""
        return MOST_DRAFTED if self.k == "auto" else self.k

    @property
    def capacity(self) -> int:
        """Most tokens that follow a prompt at any time: the text, a block behind it and the cloud's own token."""
        return self.max_new_tokens + self.most_drafted + 1

    @property
    def sampling(self) -> bool:
        """Whether tokens are drawn rather than the likeliest taken."""
        return self.temperature > 0

    @property
    def rule(self) -> AcceptanceName:
        """The acceptance rule in force."""
        return self.acceptance or ("sampling" if self.sampling else "greedy")
