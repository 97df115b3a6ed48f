"""What a comparison found: the object that `specdec compare --json` prints.

Every figure is over the clips that all compared modes captioned, so that modes are paired clip by clip. Units are in
the descriptions; a figure that was not measured, or means nothing for its mode, is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from specdec_cli.evaluate.accuracy import EmotionWords as EmotionWords
from specdec_cli.evaluate.accuracy import LabelQuality as LabelQuality
from specdec_cli.evaluate.bootstrap import Figures, Interval
from specdec_cli.evaluate.frontier import AtCost, OracleCurve
from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.evaluate.text_scores import TextQuality as TextQuality
from specdec_cli.transcript.records import Models, Text
from specdec_cli.types import Flag, Mode

Basis = Literal["references", "cloud"]
"""What a quality figure is measured against: what people wrote, or the captions of the cloud alone."""

GapMeasure = Literal["labels", "emotion", "chrf", "captions"]
"""What of two captions is compared.

labels: share of attributes that name the right class, the mean over attributes of the share of clips; emotion: the
same of emotion alone; chrf: mean over clips of their chrF, 0 to 1; captions: share of captions that equal the cloud's
character by character (basis cloud only).
"""

SUBJECTS: Final[Mapping[tuple[Basis, GapMeasure], str]] = {
    ("references", "labels"): "Classes named right",
    ("references", "emotion"): "Emotion named right",
    ("references", "chrf"): "chrF with the references",
    ("cloud", "captions"): "Captions equal to the cloud's",
    ("cloud", "labels"): "Classes equal to the cloud's",
    ("cloud", "chrf"): "chrF with the cloud's captions",
}
"""What each gap is measured in, that which decides the verdict first."""


class Figure(Figures):
    """One figure of one mode, and how it compares on the same clips."""

    value: float | None = Field(description="in the unit that the field's name ends in; null: not measured")
    to_edge: Interval | None = Field(
        default=None, description="ratio to edge-only, paired by clip; null: edge-only itself, absent, or 0 there"
    )
    to_cloud: Interval | None = Field(default=None, description="ratio to cloud-only, paired by clip; null alike")


class ModeFigures(Figures):
    """What one mode cost. Sums are over clips; of repeats of one clip the median counts."""

    mode: Mode
    total_s: Figure = Field(description="time decoding, s: prefill and audio towers included, reading files left out")
    ttft_ms: Figure = Field(description="median over clips of the time to the first committed token, ms")
    tokens_per_s: Figure = Field(description="committed tokens / time decoding")
    tokens: Figure = Field(description="committed tokens, eos included")
    forwards_edge: Figure = Field(description="runs of the edge's language model, prefill included")
    forwards_cloud: Figure = Field(description="runs of the cloud's language model, prefill included")
    cloud_calls: int | None = Field(description="verifications: rounds that the cloud verified; null: cloud-only")
    rounds: int = Field(description="blocks drafted")
    escalation_rate: Interval | None = Field(description="cloud_calls / rounds; null where one model works alone")
    clips_woken: Interval | None = Field(
        default=None, description="clips on which the cloud worked / clips; null where one model works alone"
    )
    cloud_time: Interval | None = Field(
        default=None,
        description="the cloud's audio encoder, prefill and forwards / those of cloud-only, sums over clips; null "
        "where one model works alone, cloud-only is not compared, or the cloud reports no times",
    )
    edge_token_share: Interval | None = Field(description="committed tokens that the edge drafted / tokens")
    acceptance_rate: Interval | None = Field(description="accepted / drafted tokens of escalated blocks")
    uplink_bytes: int = Field(description="bytes that left the device; 0: both models share the machine")
    network_s: float | None = Field(default=None, description="time on the link, s; null: no link was used")
    degraded: int = Field(default=0, description="clips that the edge finished without the cloud, which had failed")
    near_ties: int | None = Field(
        default=None,
        description="verified positions whose two best scores the cloud's number format cannot tell apart; "
        "null: nothing was verified",
    )
    cpu_s: Figure = Field(description="CPU time while decoding, s")


class Process(Figures):
    """What the process as a whole held: both models at once, so it is no figure of any one mode."""

    peak_rss_mb: float | None = Field(description="largest resident memory, MiB")
    gpu_mb: float | None = Field(description="largest GPU memory allocated, MiB; null: no GPU")
    load_s: float | None = Field(description="loading both models, s")


class CloudAgreement(Figures):
    """How near a mode's captions are to those of the cloud alone."""

    exact: float = Field(description="share of captions equal character by character")
    chrf: float = Field(description="corpus chrF with the cloud's captions as references, 0 to 100")
    labels: dict[str, float | None] = Field(
        description="attribute -> share of the clips whose cloud caption names a class where this one names the same"
    )
    label_mean: Interval | None = Field(description="mean of `labels` over attributes")
    emotions: EmotionWords | None = Field(description="emotion words by the cloud's; null: its captions name none")


class ModeQuality(Figures):
    """How good one mode's captions are."""

    mode: Mode
    agreement: CloudAgreement | None = Field(description="null: cloud-only itself, or cloud-only was not run")
    text: TextQuality | None = Field(description="null: no reference texts")
    labels: dict[str, LabelQuality] = Field(description="attribute -> figures; empty without reference labels")
    label_mean: Interval | None = Field(description="mean accuracy over attributes, 0 to 1; null: no reference labels")
    emotions: EmotionWords | None = Field(description="emotion words by those of reference texts; null: they name none")


class Gap(GapClosed):
    """How much of what the cloud is better by than the edge a mode gains."""

    mode: Mode
    basis: Basis
    measure: GapMeasure
    at_costs: list[AtCost] = Field(default=[], description="what the mode spends, and what that closes otherwise")
    oracle: list[OracleCurve] = Field(
        default=[],
        description="what escalating exactly where the cloud's class is right and the edge's is not would close, for "
        "each cost that was measured; empty: not of classes",
    )

    @property
    def subject(self) -> str:
        """What it is measured in."""
        return SUBJECTS[self.basis, self.measure]


class ClipComparison(Figures):
    """One clip in all modes."""

    file: Text = Field(description="path as given")
    sha256: str
    duration_s: float | None
    start_s: float | None = Field(description="start of the segment in the recording, s; null: the whole recording")
    end_s: float | None
    captions: dict[Mode, Text]
    flags: dict[Mode, tuple[Flag, ...]] = Field(default={}, description="what makes a caption no description, if it is")
    labels: dict[Mode, dict[str, str | None]] = Field(description="attribute -> class that the caption names")
    emotions: dict[Mode, list[str]] = Field(description="emotion words of the caption, in their normal form")
    total_ms: dict[Mode, float] = Field(description="time decoding, ms, median over repeats")
    escalation_rate: dict[Mode, float | None]
    reference: str | None = Field(description="key of the clip's reference; null: none was found")
    reference_texts: list[Text]
    reference_labels: dict[str, str]


class ClipError(Figures):
    """A recording that is left out."""

    file: Text
    start_s: float | None
    modes: list[Mode] = Field(description="modes that failed; all of them if the recording itself is broken")
    type: str = Field(description="class of the error")
    message: Text


class Comparison(Figures):
    """Modes side by side on the same clips, prompts and settings."""

    kind: Literal["specdec comparison"] = "specdec comparison"
    version: Literal[1] = Field(default=1, description="of this layout")
    headline: list[str] = Field(description="what it comes to, in sentences; none claims what its interval denies")
    modes: list[Mode]
    language: Literal["zh", "en"]
    prompt: Text
    models: Models
    settings: dict[str, Any] = Field(description="settings of the mode that uses most of them (hybrid, if compared)")
    clips: list[ClipComparison] = Field(description="those that every mode captioned, in the order given")
    planned: int | None = Field(description="recordings that were to be compared; null: not known")
    unfinished: int = Field(description="clips that some mode did not get to; not among `clips`")
    audio_s: float = Field(description="length of all clips together, s")
    repeats: int = Field(description="most times that any clip was captioned by one mode")
    unstable: list[Text] = Field(description="clips whose greedy caption differs between repeats: a fault")
    errors: list[ClipError]
    costs: list[ModeFigures] = Field(description="one for each mode, in the order of `modes`")
    process: Process
    quality: list[ModeQuality] = Field(description="one for each mode, in the order of `modes`")
    gaps: list[Gap]
    attributes: list[str] = Field(description="attributes of the lexicon, in its order")
    reference_columns: dict[str, str] | None = Field(
        default=None, description="attribute, or text -> column of the references that it was read from; null: none"
    )
    references_found: int | None = Field(description="clips with a reference; null: no references were given")
    resamples: int = Field(description="bootstrap resamples behind every interval")
    level: float = Field(description="share of the bootstrap draws within each interval; clips are drawn one by one")
    seed: int = Field(description="of the bootstrap")

    def stated_gaps(self) -> list[Gap]:
        """The gaps that sentences and pictures go by: against references if there are any."""
        return [gap for gap in self.gaps if gap.basis == "references"] or self.gaps
