"""The settings of how a caption is made: scores, blocks, the gate and the rules of acceptance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from specdec_cli.config.fields import PlainText, Section, Texts, Toggle, Tokens, setting
from specdec_cli.types import AcceptanceName, GateName, Mode


class AcceptanceRules(Section):
    """Which drafted tokens the cloud accepts: the parts of `decoding.acceptance`.

    Attributes:
        rule: its name; None: greedy or sampling, as tokens are chosen.
        rank: rule rank accepts a token among this number of the cloud's likeliest.
        prob: rule prob accepts a token of at least this probability at the cloud.
    """

    rule: AcceptanceName | None = None
    rank: int = Field(default=3, ge=1)
    prob: float = Field(default=0.1, ge=0, le=1)

    @classmethod
    def of(cls, text: str | None) -> AcceptanceRules:
        """The rules that a text such as "rank:3" names. Raises ValueError for other texts."""
        if text is None:
            return cls()
        rule, separator, number = text.partition(":")
        try:
            numbers = {rule: {"rank": int, "prob": float}[rule](number)} if separator else {}
            return cls.model_validate({"rule": rule, **numbers})
        except (KeyError, ValueError):
            takes = "greedy, sampling, typical, class, rank:3 (any whole number from 1), or prob:0.1 (from 0 to 1)"
            raise ValueError(f"is {text[:40]!r}, but it takes {takes}") from None

    def in_force(self, *, sampling: bool) -> AcceptanceName:
        """The configured rule, or the lossless one for greedy or for sampled tokens."""
        return self.rule or ("sampling" if sampling else "greedy")

    def written(self, *, sampling: bool) -> str:
        """The rule in force as a text that `of` reads, with its number."""
        rule = self.in_force(sampling=sampling)
        return {"rank": f"rank:{self.rank}", "prob": f"prob:{self.prob:g}"}.get(rule, rule)


def _acceptance(text: str) -> str:
    AcceptanceRules.of(text)
    return text


Acceptance = Annotated[PlainText, AfterValidator(_acceptance)]


class ScoringConfig(Section):
    """How a model's logits become the scores by which tokens are chosen."""

    temperature: float = setting(0.0, "0: greedy; above 0: sample at that temperature", ge=0, le=1000)
    top_p: float | None = setting(None, "sample from the nucleus of this probability; null or 1: off", gt=0, le=1)
    top_k: int | None = setting(None, "sample among this many likeliest tokens; null: off", ge=1)
    seed: int = setting(0, "seed of the random numbers", ge=0, le=2**63 - 1)
    repetition_penalty: float | None = setting(None, "above 1: fewer repeats; null: the checkpoint's", ge=0.01, le=100)
    no_repeat_ngram: int | None = setting(None, "no run of N tokens twice; null: the checkpoint's", ge=0, le=1000)
    min_new_tokens: int | None = setting(None, "least length of a caption, tokens; null: the checkpoint's", ge=0)

    @property
    def sampling(self) -> bool:
        """Whether tokens are sampled."""
        return self.temperature > 0

    def scoring(self) -> ScoringConfig:
        """The settings of scoring only."""
        return ScoringConfig(**{name: getattr(self, name) for name in ScoringConfig.model_fields})


class BlockConfig(Section):
    """Which models write, and how much is drafted at a time."""

    mode: Mode = setting("hybrid", "hybrid: the gate decides; lossless: verify all; edge, cloud: that model alone")
    k: Literal["auto", "whole"] | Tokens = setting(
        5, "tokens drafted per block; auto: as many as pay, at most 16; whole: the caption, verified in one call"
    )
    cost_ratio: float = setting(0.2, "k auto: time of an edge step / a verification", gt=0, le=1000)
    max_new_tokens: int = setting(256, "length limit of a caption, tokens", ge=1)


class DecodingConfig(ScoringConfig, BlockConfig):
    """The decoding loop: what is drafted, how tokens are scored, when a caption ends."""

    sound: Texts | None = setting(
        None, "classes that the measured sound decides, as rate, pitch; null: all that have limits; []: none"
    )
    sentences: int | None = setting(None, "stop after this many sentences; null: off", ge=1)
    stop_strings: Texts = setting((), "stop where one of these texts appears; []: off")
    closing: Toggle = setting(
        "auto", "end before a sentence to the listener, escalate refusals; auto: on, but for the mini pair"
    )
    loop_period: int = setting(8, "up to so many tokens, three times in a row, are a repetition; 0: off", ge=0, le=64)
    cloud_prefill: Literal["lazy", "early", "overlap"] = setting(
        "lazy",
        "the cloud encodes a clip at its first call (lazy), before the edge (early), or beside it (overlap)",
    )
    guess_tokens: int = setting(8, "most tokens to guess from earlier captions; changes no text; 0: none", ge=0, le=64)
    fallback: Toggle = setting(
        "auto", "on: if one model fails, the other one writes the rest; auto: only the edge, and in hybrid mode alone"
    )
    acceptance: Acceptance | None = setting(
        None,
        "which drafted tokens are accepted: greedy, sampling (lossless), rank:3, prob:0.1, typical or class "
        "(docs/gates.md); null: greedy at temperature 0, else sampling",
    )

    @property
    def degrades(self) -> bool:
        """Whether the edge writes on where the cloud fails."""
        return self.mode == "hybrid" if self.fallback == "auto" else self.fallback == "on" and self.mode != "cloud"

    @property
    def rules(self) -> AcceptanceRules:
        """The rule of acceptance."""
        return AcceptanceRules.of(self.acceptance)

    @property
    def adapts(self) -> bool:
        """Whether blocks end where further drafting does not pay; also of `whole` drafts that cannot be deferred."""
        return not isinstance(self.k, int) and self.mode in ("hybrid", "lossless") and not self.defers

    @property
    def defers(self) -> bool:
        """Whether a whole caption is drafted before it is verified: not in lossless mode with sampling."""
        return self.k == "whole" and (self.mode == "hybrid" or (self.mode == "lossless" and not self.sampling))


class GateConfig(Section):
    """The gate, which decides whether a drafted block escalates."""

    name: GateName = setting("class-entropy", "which blocks escalate")
    threshold: float | None = setting(
        None,
        "how unsure the edge must be for a block to escalate, in the gate's unit (docs/gates.md); null: entropy 2.5 "
        "(mini pair: 1.0), class-entropy 0.7, margin 0.3, logprob -1.0, random 0.1",
    )
    wake: float | None = setting(None, "with k whole: threshold for a clip's first call; null: `threshold`")
    stop_drafting: bool = setting(False, "true: a block ends with its first unsure token and goes to the cloud")
