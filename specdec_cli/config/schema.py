"""The settings: their types, bounds, defaults and meaning, as frozen pydantic models.

The defaults are those of published pairs; the mini pair's are in configs/mini.yaml.

A single value is checked here; how values contradict each other is in `checks`. Units are in the descriptions:
nats for entropy and log-probability, seconds for audio, tokens for lengths.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, Field

from specdec_cli.config.fields import (
    AT_PAUSES,
    GateFileName,
    Instruction,
    Moment,
    PlainText,
    Section,
    Segmenting,
    as_tuple,
    expected,
)
from specdec_cli.config.locate import gate_path
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig
from specdec_cli.prompts import Language, Style, prompt_for
from specdec_cli.types import DEFAULT_THRESHOLDS, AcceptanceName, GateName, Mode

GATES: Final[tuple[GateName, ...]] = get_args(GateName)


class RuntimeConfig(Section):
    """The process as a whole."""

    threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of a model's forward; null: one per core, which wait without spinning",
    )
    offline: bool = Field(default=False, description="true: never download; models must be local or already cached")
    self_test: bool = Field(
        default=True, description="test a model when it is loaded for the first time; false: trust it"
    )


class ScoringConfig(Section):
    """How a model's logits become the scores that tokens are chosen by."""

    temperature: float = Field(default=0.0, ge=0, le=1000, description="0: greedy; above 0: sample at that temperature")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="sample from the nucleus of this probability; null or 1: off"
    )
    top_k: int | None = Field(default=None, ge=1, description="sample among so many tokens; null: off")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="seed of the one random generator")
    repetition_penalty: float | None = Field(
        default=None,
        ge=0.01,
        le=100,
        description="above 1: repeated tokens less likely; 1: off; null: what each checkpoint suggests",
    )
    no_repeat_ngram: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="no run of so many tokens occurs twice; 0: off; null: what each checkpoint suggests",
    )
    min_new_tokens: int | None = Field(
        default=None,
        ge=0,
        description="tokens before which a caption may not end; 0: off; null: what each checkpoint suggests",
    )

    @property
    def sampling(self) -> bool:
        """Whether tokens are drawn rather than the likeliest taken."""
        return self.temperature > 0

    def scoring(self) -> ScoringConfig:
        """These settings alone."""
        return ScoringConfig(**{name: getattr(self, name) for name in ScoringConfig.model_fields})


class BlockConfig(Section):
    """Who decides, and how much is drafted at a time."""

    mode: Mode = Field(
        default="hybrid",
        description="hybrid: the gate decides; lossless: verify every block; edge, cloud: that model alone",
    )
    k: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=64)],
        expected("auto, or a whole number from 1 to 64", ("auto",)),
    ] = Field(default=5, description="tokens drafted per block; auto: as many as pay, at most 16")
    defer: bool = Field(
        default=False,
        description="true: hybrid and greedy lossless draft all of the caption, up to 64 tokens at a time, so that one "
        "call can verify it; k does not count, and text appears later",
    )
    cost_ratio: float | None = Field(
        default=None,
        gt=0,
        description="with k auto: time of an edge step over that of a verification; null: measured as it goes",
    )
    max_new_tokens: int = Field(default=256, ge=1, description="length limit of a caption, tokens")


class DecodingConfig(ScoringConfig, BlockConfig):
    """The decoding loop: what is drafted, how tokens are scored, when a caption ends."""

    sentences: int | None = Field(default=None, ge=1, description="stop after so many sentences; null: off")
    stop_strings: Annotated[tuple[PlainText, ...], BeforeValidator(as_tuple), expected("a list of non-empty texts")] = (
        Field(default=(), description="stop where one of these texts appears; []: off")
    )
    closing: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="on: end a caption before it addresses the listener, and escalate refusals and other languages; "
        "auto: except with the mini pair",
    )
    loop_period: int = Field(default=8, ge=0, le=64, description="longest repeating run looked for, tokens; 0: off")
    loop_repeats: int = Field(default=3, ge=2, description="times a run repeats at the tail to count as a loop")
    loop_top_k: int = Field(default=10, ge=2, description="tokens to sample among when the edge breaks a loop")
    cloud_prefill: Literal["lazy", "early", "overlap", "auto"] = Field(
        default="lazy",
        description="lazy: the cloud encodes the clip at the first escalation; early: before the edge; overlap: beside "
        "it; auto: beside it, if it is elsewhere and at least half of the latest clips have called it",
    )
    draft_ahead: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="draft on during verifications; auto: of a cloud elsewhere, where two steps of the edge take no "
        "longer; on: also of one loaded here",
    )
    run_on: int = Field(
        default=0, ge=0, le=64, description="tokens that the cloud generates after its own token; 0: none"
    )
    lookup_tokens: int = Field(
        default=8,
        ge=0,
        le=64,
        description="tokens that are guessed from earlier captions and scored with the next one, at most: fewer "
        "forwards, the same text; 0: none",
    )
    edge_failed: Literal["fail", "cloud"] = Field(
        default="fail", description="an edge at `edge.url` that fails: fail the clip, or let the cloud write the rest"
    )
    degrade: bool | None = Field(
        default=None,
        description="true: where the cloud fails, the edge writes the rest of the caption; false: the clip fails; "
        "null: true in hybrid mode, false in lossless mode, which promises the cloud's text",
    )

    @property
    def may_skip_drafts(self) -> bool:
        """Whether the cloud may write a caption without the edge's drafts, where that takes less time."""
        free = self.lookup_tokens > 0 and self.cost_ratio is None and (self.defer or self.k == "auto")
        return self.mode == "lossless" and not self.sampling and free

    @property
    def degrades(self) -> bool:
        """Whether the edge writes on where the cloud fails."""
        return self.mode == "hybrid" if self.degrade is None else self.degrade and self.mode != "cloud"

    @property
    def defers(self) -> bool:
        """Whether all of a caption is drafted before it is judged; in lossless mode where rejected tails are kept."""
        return self.defer and (self.mode == "hybrid" or (self.mode == "lossless" and not self.sampling))


class GateConfig(Section):
    """What decides whether a drafted block goes to the cloud."""

    name: Annotated[GateName, expected(f"a gate file (.json), or one of {', '.join(GATES)}", GATES)] = Field(
        default="class-entropy",
        description=f"what escalates a block: {', '.join(GATES)}; or a gate file (.json), which brings threshold and k",
    )
    threshold: float | None = Field(
        default=None,
        description="entropy, class-entropy: escalate above, nats; margin: below this p(top1)-p(top2); logprob: below, "
        "nats; learned: above this probability that the cloud would change the block; random: this share of the "
        "blocks; null: 2.5 (mini pair: 1.0), 0.7, 0.3, -1.0, the gate file's, 0.1",
    )
    wake: float | None = Field(
        default=None,
        description="with decoding.defer: threshold until the cloud has been called for the clip, in the same unit; "
        "null: the gate file's, or the threshold",
    )
    file: GateFileName | None = Field(
        default=None, description="weights of the gate learned: a file of `specdec tune`, or package:mini/gate.json"
    )
    stop_drafting: bool = Field(
        default=False, description="true: a block ends with its first unsure token and goes to the cloud at once"
    )

    @property
    def effective_threshold(self) -> float | None:
        """The threshold in force; None for gates without one, and for one that comes with the gate's weights."""
        if self.name in ("always", "never"):
            return None
        return DEFAULT_THRESHOLDS.get(self.name) if self.threshold is None else self.threshold

    def effective_wake(self, threshold: float | None, of_file: float | None = None) -> float | None:
        """The wake threshold in force, where `threshold` is; `of_file`: that of the learned gate's file.

        A file's wake threshold belongs to its own threshold: beside another one it does not count.
        """
        if self.wake is not None:
            return self.wake
        return threshold if of_file is None or self.threshold is not None else of_file

    @property
    def weights_path(self) -> Path | None:
        """The file that `file` names."""
        return None if self.file is None else gate_path(self.file)


class AcceptanceConfig(Section):
    """Which drafted tokens the cloud lets pass."""

    rule: AcceptanceName | None = Field(
        default=None,
        description="which drafted tokens pass: greedy, sampling (lossless), rank, prob, typical, cascade, class "
        "(lossy); null: greedy at temperature 0, else sampling",
    )
    rank: int = Field(default=3, ge=1, description="rule rank: within the cloud's so many most likely tokens")
    prob: float = Field(default=0.1, ge=0, le=1, description="rule prob: the cloud's probability is at least this")
    # Medusa (Cai et al. 2024), "typical acceptance": p >= min(epsilon, delta * exp(-entropy)).
    typical_epsilon: float = Field(default=0.09, gt=0, le=1, description="rule typical: hard threshold, a probability")
    typical_delta: float = Field(default=0.3, gt=0, le=1, description="rule typical: factor of exp(-entropy)")
    # Speculative cascades (Narasimhan et al. 2025), rule OPT: max q >= max p - alpha * TV(p, q).
    cascade_alpha: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="rule cascade: how much surer than the edge the cloud must be to replace a token, as a share of "
        "the distance between their distributions",
    )

    def in_force(self, *, sampling: bool) -> AcceptanceName:
        """The rule: the configured one, or the lossless one."""
        return self.rule or ("sampling" if sampling else "greedy")

    def compares(self, *, sampling: bool) -> bool:
        """Whether the rule in force needs the edge's distributions beside the cloud's."""
        return self.in_force(sampling=sampling) in ("sampling", "cascade")


class PromptConfig(Section):
    """The instruction to the models."""

    language: Language = Field(default="en", description="language of the caption; left out: the locale's, or else en")
    style: Style = Field(default="default", description="shipped instruction")
    text: Instruction | None = Field(default=None, description="an instruction of your own, in place of a style")
    force: bool = Field(
        default=False, description="true: give `text` also to the mini pair, which was not trained on it"
    )
    system: Instruction | None = Field(default=None, description="system prompt; null: the chat template's own")


class AudioConfig(Section):
    """How a recording is cut."""

    segment: Segmenting | None = Field(
        default=None,
        description="pauses: caption utterances between pauses; seconds: pieces of this length; or a file or folder "
        "of cuts; null: what fits the models as a whole, what is longer at pauses",
    )
    start_s: Moment | None = Field(default=None, description="caption from here on, seconds or HH:MM:SS; null: 0")
    end_s: Moment | None = Field(default=None, description="caption up to here, seconds or HH:MM:SS; null: to the end")
    refuse_no_speech: bool = Field(
        default=False,
        description="true: a clip without speech is an error; false: its transcript is marked",
    )

    @property
    def length_s(self) -> float | None:
        """Longest of equal pieces, seconds; None where recordings are not cut into such."""
        return float(self.segment) if isinstance(self.segment, int | float) else None

    @property
    def at_pauses(self) -> bool:
        """Whether every recording is cut at its pauses."""
        return self.segment == AT_PAUSES

    @property
    def cuts_path(self) -> Path | None:
        """The file or folder of cuts."""
        return Path(self.segment) if isinstance(self.segment, str) and not self.at_pauses else None

    def recorded(self) -> dict[str, object]:
        """What transcripts record of the cuts, where they are not the default; of a file its content too."""
        segment = self.segment if self.at_pauses else None
        if (path := self.cuts_path) is not None:
            segment = path.name
            if path.is_file():
                segment += f" {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        recorded = {"segment": segment, "start_s": self.start_s, "end_s": self.end_s}
        return {name: value for name, value in recorded.items() if value is not None}


class Config(Section):
    """All settings. `load_config` builds one from its layers and checks the values against each other."""

    edge: EdgeConfig | None = Field(default=None, description="null: no edge model, so only mode cloud works")
    cloud: CloudConfig | None = Field(default=None, description="null: no cloud model, so only mode edge works")
    decoding: DecodingConfig = DecodingConfig()
    gate: GateConfig = GateConfig()
    acceptance: AcceptanceConfig = AcceptanceConfig()
    prompt: PromptConfig = PromptConfig()
    audio: AudioConfig = AudioConfig()
    runtime: RuntimeConfig = RuntimeConfig()

    @property
    def _by_mini(self) -> bool:
        """Whether the captions are the mini pair's, or written with its tokenizer."""
        cloud = self.cloud if self.decoding.mode == "cloud" else None
        writer = self.edge if cloud is None or not (cloud.processor or cloud.model) else cloud
        return writer is not None and writer.of_processor.is_mini

    def instruction(self, language: Language | None = None) -> str:
        """The user turn that goes with the audio; `language`: of the caption, None: the configured one."""
        prompt = self.prompt
        if prompt.text is not None:
            return prompt.text
        return prompt_for(language or prompt.language, prompt.style, mini=self._by_mini)

    @property
    def closes(self) -> bool:
        """Whether a caption ends where it stops describing."""
        return self.decoding.closing == "on" or (self.decoding.closing == "auto" and not self._by_mini)

    @property
    def gate_in_force(self) -> GateName:
        """The configured gate in hybrid mode, else the one that makes the mode what it is."""
        if self.decoding.mode == "hybrid":
            return self.gate.name
        return "always" if self.decoding.mode == "lossless" else "never"

    @property
    def acceptance_rule(self) -> AcceptanceName:
        """The rule in force: the configured one, or the lossless one for the temperature."""
        return self.acceptance.in_force(sampling=self.decoding.sampling)


SECTIONS: Final[dict[str, type[Section]]] = {
    name: next(kind for kind in (info.annotation, *get_args(info.annotation)) if isinstance(kind, type))
    for name, info in Config.model_fields.items()
}
"""Section -> its model, in the order in which settings are listed."""
