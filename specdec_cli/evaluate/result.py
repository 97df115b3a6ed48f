"""The result of a comparison: the object that `specdec compare --json` prints.

Every figure is over the clips that all compared modes captioned, so that modes are paired clip by clip. A figure that
was not measured, or means nothing for its mode, is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.evaluate.text_scores import TextQuality
from specdec_cli.stats import Figures
from specdec_cli.transcript.records import Models, Text
from specdec_cli.types import Flag, Interval, Mode

Basis = Literal["references", "cloud"]
"""The reference of a quality figure: texts and classes by people, or the captions of the cloud alone."""

GapMeasure = Literal["heard", "emotion", "measured", "chrf", "captions", "labels"]
"""The measures of quality.

heard: the mean, over the attributes that only a listener can name (voice, emotion ...), of the share of clips whose
caption names the right class; emotion: that share of emotion alone; measured: the same mean over the attributes that an
instrument measures (pitch, range, volume, pauses, rate). What is measured and what is heard is never averaged. The
others are the mean of chrF over clips, 0 to 1; the share of captions that equal the cloud's word for word; and the
share of classes that do.
"""

MEASURES: Final[Mapping[tuple[Basis, GapMeasure], tuple[str, str]]] = {
    ("references", "heard"): ("Heard attributes named right", "heard"),
    ("references", "emotion"): ("Emotion named right", "emotion"),
    ("references", "measured"): ("Agreement with the measured attributes", "measured"),
    ("references", "chrf"): ("chrF with the references", "chrF"),
    ("cloud", "captions"): ("Captions equal to the cloud's", "equal captions"),
    ("cloud", "labels"): ("Classes equal to the cloud's", "equal classes"),
}
"""What each gap is measured in, at the beginning of a sentence and in few words; the first measure leads."""
ONE_SPEAKER: Final = "All clips are of one speaker. Intervals draw speakers, so none is given."


class Figure(Figures):
    """One figure of one mode, and how it compares on the same clips."""

    value: float | None = Field(description="in the unit that the field's name ends in; null: not measured")
    to_edge: Interval | None = Field(
        description="ratio to edge-only, paired by clip; null: it is edge-only, or that is absent or 0"
    )
    to_cloud: Interval | None = Field(
        description="ratio to cloud-only, paired by clip; null: it is cloud-only, or that is absent or 0"
    )


class ModeFigures(Figures):
    """What one mode cost. Sums are over clips."""

    mode: Mode
    total_s: Figure = Field(description="time decoding, s: prefill and audio towers included, reading files left out")
    ttft_ms: Figure = Field(description="median over clips of the time to the first committed token, ms")
    tokens_per_s: Figure = Field(description="committed tokens / time decoding")
    forwards_edge: Figure = Field(description="runs of the edge's language model, prefill included")
    forwards_cloud: Figure = Field(description="runs of the cloud's language model, prefill included")
    escalation_rate: Interval | None = Field(description="blocks verified / drafted; null: one model works alone")
    clips_woken: Interval | None = Field(description="clips that called the cloud / clips; null: one model works alone")
    cloud_time: Interval | None = Field(
        description="time of the cloud's forwards / cloud-only's; null: one model works alone, or not known"
    )
    edge_token_share: Interval | None = Field(
        description="committed tokens that the edge drafted / tokens; null: one model works alone"
    )
    acceptance_rate: Interval | None = Field(description="accepted / drafted tokens of escalated blocks")
    uplink_bytes: int = Field(description="bytes that left the device; 0: both models share the machine")
    network_s: float | None = Field(description="time on the network, s; null: no remote model was used")
    degraded: int = Field(description="clips that the edge finished without the cloud, which had failed")


class Confusion(Figures):
    """How often captions name a class where the reference has another one, or the same."""

    true: str = Field(description="class of the references")
    named: str | None = Field(description="class that the captions name; null: none")
    clips: int


class LabelQuality(Figures):
    """One attribute over the clips whose class is known."""

    clips: int = Field(description="clips whose reference has a class for it")
    accuracy: Interval = Field(description="share of them whose caption names that class; none named counts as wrong")
    uar: Interval = Field(description="unweighted average recall: mean over classes of the share of them named right")
    majority: float = Field(description="accuracy of always naming the commonest class, 0 to 1")
    confusions: list[Confusion] = Field(description="the confusion matrix, without its zeros, the commonest first")


class ModeQuality(Figures):
    """How good one mode's captions are."""

    mode: Mode
    text: TextQuality | None = Field(description="null: no reference texts that describe")
    labels: dict[str, LabelQuality] = Field(description="attribute -> figures; empty without reference labels")
    heard_mean: Interval | None = Field(
        description="mean accuracy over the heard attributes, 0 to 1; null: no such reference labels"
    )
    measured_mean: Interval | None = Field(
        description="mean agreement over the measured attributes, 0 to 1; null: no such reference labels"
    )
    heard_uar: Interval | None = Field(description="mean UAR over the heard attributes; null: no such labels")
    same_captions: float | None = Field(description="share of captions equal to the cloud's; null: itself, or not run")
    same_labels: Interval | None = Field(
        description="share of classes equal to the cloud's, mean over attributes; null: itself, or not run"
    )


class GroupQuality(Figures):
    """How good one mode's captions are on the clips of one group, as a speaker or a corpus."""

    group: Text | None = Field(description="cell of the column `by`; null: none")
    clips: int
    mode: Mode
    heard_mean: Interval | None = Field(description="as of all clips")
    emotion: Interval | None = Field(description="share of the clips whose caption names the right emotion")
    measured_mean: Interval | None = Field(description="as of all clips")


class Gap(GapClosed):
    """How much of the cloud's lead over the edge a mode reaches."""

    mode: Mode
    basis: Basis
    measure: GapMeasure

    @property
    def subject(self) -> str:
        """What the gap is measured in."""
        return MEASURES[self.basis, self.measure][0]

    @property
    def of(self) -> str:
        """The same in few words."""
        return MEASURES[self.basis, self.measure][1]


class ClipComparison(Figures):
    """One clip in all modes."""

    file: Text = Field(description="path as given")
    sha256: str
    duration_s: float | None
    start_s: float | None = Field(description="start of the piece in the recording, s; null: the whole recording")
    end_s: float | None
    channel: int | None = Field(default=None, description="channel that was read, from 1; null: the mean of all")
    captions: dict[Mode, Text]
    flags: dict[Mode, tuple[Flag, ...]] = Field(default={}, description="what makes a caption no description, if it is")
    labels: dict[Mode, dict[str, str | None]] = Field(description="attribute -> class that the caption names")
    total_ms: dict[Mode, float | None] = Field(description="time decoding, ms")
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
    version: Literal[4] = Field(default=4, description="of this layout")
    headline: list[str] = Field(
        description="the result in sentences; no difference is reported whose interval includes 0"
    )
    modes: list[Mode]
    language: Literal["zh", "en"]
    prompt: Text
    models: Models
    settings: dict[str, Any] = Field(description="settings of the mode that uses most of them (hybrid, if compared)")
    clips: list[ClipComparison] = Field(description="those that every mode captioned, in the order given")
    unfinished: int = Field(description="clips that some mode did not get to; not among `clips`")
    audio_s: float = Field(description="length of all clips together, s")
    errors: list[ClipError]
    costs: list[ModeFigures] = Field(description="one for each mode, in the order of `modes`")
    quality: list[ModeQuality] = Field(description="one for each mode, in the order of `modes`")
    gaps: list[Gap]
    by: Text | None = Field(default=None, description="column of the references that groups are from")
    groups: list[GroupQuality] = Field(default=[], description="one for each group and mode, the largest group first")
    attributes: list[str] = Field(description="attributes of the lexicon, in its order")
    measured_attributes: list[str] = Field(description="of these, the ones that an instrument measures")
    reference_columns: dict[str, str] | None = Field(
        description="attribute, or text -> its column; null: no references"
    )
    texts: Literal["descriptions", "said"] | None = Field(
        description="what the references' texts are; said: what was spoken, which no caption is scored with; null: none"
    )
    notes: list[str] = Field(default=[], description="what was left out of the references, and why, in sentences")
    references_found: int | None = Field(description="clips with a reference; null: no references were given")
    level: float = Field(description="nominal coverage of each interval")
    speakers: int | None = Field(
        description="speakers whom the references name, who are drawn for intervals with all their clips; null: none, "
        "clips are drawn one by one"
    )

    def stated_gaps(self) -> list[Gap]:
        """The gaps for the sentences: against references if there are any."""
        return [gap for gap in self.gaps if gap.basis == "references"] or self.gaps

    def same_as_cloud(self, mode: Mode) -> bool:
        """Whether every caption of a mode is the cloud's own."""
        return all(clip.captions.get("cloud") == clip.captions[mode] for clip in self.clips)
