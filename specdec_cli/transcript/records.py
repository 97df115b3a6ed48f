"""Transcript schema 1: the fields of a line. Every figure names its unit; a figure that was not measured is null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from specdec_cli.errors import WrongFileError
from specdec_cli.text import is_file_name, readable
from specdec_cli.times import MOST_S
from specdec_cli.transcript.earlier import settings_of, totals_fields
from specdec_cli.transcript.round import Figure, Record, Round
from specdec_cli.types import Decider, FinishReason, Flag, Measured, Mode

if TYPE_CHECKING:
    from specdec_cli.inputs.recording import InputFile


def _of_a_file(name: str) -> str:
    if not is_file_name(name):
        raise ValueError("Input should be the name of a file")
    return name


Text = Annotated[str, BeforeValidator(lambda text: readable(text) if isinstance(text, str) else text)]
"""Text from outside: a message, what a model wrote."""

FileName = Annotated[str, AfterValidator(_of_a_file)]
"""A path as `os.fsdecode` gives it: a byte that is no UTF-8 is U+DC80 to U+DCFF, so that `os.fsencode` restores it."""

Seconds = Annotated[float, Field(ge=0, le=MOST_S)]
"""A time in a recording, or its length."""

Rounded = Annotated[Seconds, AfterValidator(lambda time_s: round(time_s, 3))]
"""A time to the millisecond, so that a table that was written again means the same part."""


def maybe(description: str, **bounds: Any) -> Any:
    """A field that a line may lack; it is null then."""
    return Field(default=None, description=description, **bounds)


class ModelInfo(Record):
    """A model that took part."""

    name: Text = Field(description="as configured: a folder, a hub id, or the address of a server")
    serves: Text | None = maybe("the model that the server says it runs; null: no server")
    dtype: str = Field(description="number format of the weights; int4/bfloat16: quantised, with the rest in bfloat16")
    device: str = Field(description="where it ran")
    weights: Text | None = maybe("fingerprint of their files; null: unknown")
    graphs: Text | None = maybe(
        "cuda: short forwards ran as CUDA graphs; compiled: of compiled steps; eager: as such, on a CPU; null: none"
    )

    @property
    def line(self) -> str:
        """Name, number format, device and graphs, for people."""
        name = Path(self.name).name if Path(self.name).is_dir() else self.name.removeprefix("package:")
        name = name if self.serves is None else f"{self.serves.removeprefix('package:')} at {name}"
        graphs = () if self.graphs is None else (f"graphs {self.graphs}",)
        return " · ".join((name, self.dtype, self.device, *graphs))


class Models(Record):
    """The models that took part; null for one that the mode does not use."""

    edge: ModelInfo | None
    cloud: ModelInfo | None

    @classmethod
    def of(cls, described: Mapping[Decider, Mapping[str, str]]) -> Models:
        """The models by role, each with the fields of its `ModelInfo`."""
        known = {role: ModelInfo(**fields) for role, fields in described.items()}
        return cls(edge=known.get("edge"), cloud=known.get("cloud"))

    @property
    def weights(self) -> dict[str, str | None]:
        """Role -> fingerprint of the weights, for each model that took part."""
        return {role: info.weights for role, info in self if info is not None}

    @property
    def names(self) -> dict[str, str]:
        """`edge.model`, `cloud.model` -> name of each model that took part."""
        return {f"{role}.model": info.name for role, info in self if info is not None}


class EncoderPasses(Record):
    """Runs of each model's audio tower for this clip."""

    edge: int | None
    cloud: int | None


class Totals(Record):
    """Sums over the rounds. A ratio is null if its denominator is 0."""

    _earlier = model_validator(mode="before")(totals_fields)

    tokens: int = Field(description="committed tokens, eos included")
    rounds: int
    escalations: int = Field(description="rounds that the cloud got for a reason")
    drafted: int = Field(description="drafted tokens of escalated blocks")
    accepted: int = Field(description="of these, accepted by the cloud")
    corrected: int = Field(description="rounds whose cloud token replaced a drafted one")
    bonus: int = Field(description="rounds whose block was accepted whole and followed by a token of the cloud's")
    acceptance_rate: float | None = Field(description="accepted / drafted")
    escalation_rate: float | None = Field(description="escalations / rounds; null if no cloud takes part")
    edge_token_share: float | None = Field(description="committed tokens that the edge drafted / tokens")
    network_ms: Figure | None = maybe("time on the network, ms; null for a loaded cloud")
    near_ties: int | None = maybe("sum over the rounds; null if nothing was verified")
    guessed: int | None = maybe("tokens guessed from earlier captions and scored with the next one")
    guesses_kept: int | None = maybe("of these, correct ones, each of which saved a forward")
    forwards_edge: int | None = Field(description="runs of the edge's language model, prefill included")
    forwards_cloud: int | None = Field(description="runs of the cloud's language model, prefill included")
    encoder_passes: EncoderPasses
    sound: int | None = maybe("committed tokens in whose place the sound banned the likeliest; null: it bans nothing")


class Timing(Record):
    """Where the time went. A forward made for several clips counts for each by its share of the tokens."""

    load_s: Figure | None = Field(description="loading the models, s, once per process")
    audio_s: Figure | None = Field(description="decoding, resampling and log-mel features, s")
    prefill_edge_ms: Figure | None = Field(description="the edge reading clip and prompt, audio tower included, ms")
    prefill_cloud_ms: Figure | None = Field(
        description="the same for the cloud; null if it was not called, or if that is unknown"
    )
    forwards_edge_ms: Figure | None = Field(description="sum of all of the edge's forwards, audio tower included, ms")
    forwards_cloud_ms: Figure | None = Field(description="sum of all of the cloud's forwards, ms")
    ttft_ms: Figure | None = Field(description="from the start of decoding to the first committed token, ms")
    total_ms: Figure | None = Field(description="from the start of decoding to its end, ms, display left out")
    tokens_per_s: Figure | None = Field(description="committed tokens / total")
    input_tokens_per_s: Figure | None = Field(description="prompt tokens read / prefill time, both models together")


class Resources(Record):
    """What the process used."""

    cpu_percent: float | None = Field(
        description="CPU time / wall time while decoding, 100: one core; null in a batch, or outside the main thread"
    )
    peak_rss_mb: float | None = Field(description="largest resident memory of the process so far, MiB")
    gpu_mb: float | None = maybe("largest GPU memory allocated so far, MiB; null without")


class Uplink(Record):
    """What left the device."""

    payload: Literal["none", "features", "waveform"] = Field(description="none: nothing was sent")
    bytes: int = Field(ge=0, description="bodies of all requests for this clip, ids and settings included")


class ErrorInfo(Record):
    """Why there is no caption."""

    type: str = Field(description="class of the error")
    message: Text = Field(description="what is wrong, in a sentence")


class RowPart(Record):
    """The part of a recording that a row of a manifest means, of which a line is a piece."""

    start_s: Rounded | None = maybe("start, s; null: all of the recording")
    end_s: Rounded | None = maybe("end, s; null: that of the recording")
    channel: int | None = maybe("channel of the recording, from 1; null: the row names none", ge=1)

    @classmethod
    def of(cls, item: InputFile) -> Self | None:
        """The part that an input means; None: all of its recording, as the settings say."""
        channel = None if item.channel is None else item.channel + 1
        part = cls(start_s=item.start_s, end_s=item.end_s, channel=channel)
        return None if part == cls() else part


class Whole(Record):
    """What the pieces of a recording are together; those without speech are left out unless they were asked for."""

    pieces: int = Field(ge=1, description="pieces that are described")
    seconds: Figure = Field(description="length of all of them, s")
    speakers: dict[Text, Figure] = Field(description="speaker -> share of this time, 0 to 1; the rest is of no speaker")
    classes: dict[str, dict[str, Figure]] = Field(
        description="attribute -> class -> share of this time, 0 to 1; the rest names none. Empty without labels"
    )


class ClassScores(Record):
    """The probability of each class of an attribute, by the model that decided which class is named."""

    by: Decider = Field(description="the model that decided")
    classes: dict[str, Figure] = Field(description="class -> probability; with `other` they add up to 1")
    other: Figure = Field(description="probability of words that name no class, or an unknown one")
    temperature: Figure | None = maybe("T of the calibration, p^(1/T) scaled to the same sum; null: not calibrated")
    edge: str | None = maybe("class that the edge drafted, if it differs; null: none, or it was not verified")


def _malformed(place: str, reason: str) -> WrongFileError:
    hint = "Name a file of transcripts (.jsonl). If it is one, delete that line and caption the recording again."
    return WrongFileError(f"{place} is not a transcript of schema 1: {reason}.", hint=hint)


class TranscriptHead(Record):
    """The fields of a line before its rounds: the clip, how it was captioned, and the caption."""

    schema_: Literal[1] = Field(default=1, alias="schema", description="version of this layout")
    file: FileName = Field(
        description="path as given; a byte that is no UTF-8 is \\udc80 to \\udcff, as by os.fsdecode"
    )
    id: Text | None = maybe("of the clip in the manifest that named it")
    sha256: str | None = Field(description="of the file's bytes, hexadecimal; null if it could not be read")
    duration_s: Seconds | None = Field(description="of the recording or piece, s")
    start_s: Seconds | None = maybe("start of the piece in the recording, s")
    end_s: Seconds | None = maybe("end of the piece in the recording, s")
    piece: int | None = maybe("0-based, of the piece, if there are several", ge=0)
    pieces: int | None = maybe("how many pieces the recording was cut into", ge=1)
    row: RowPart | None = maybe("the part that the manifest's row means, if it has several pieces or names no start")
    cuts: str | None = maybe("of the file that a folder of cuts has for the recording: the first digits of its SHA-256")
    recording_s: Seconds | None = maybe("length of the recording that the piece is of, s; null: unknown, or whole")
    channel: int | None = maybe("channel of the recording that was read, from 1; left out: the mean of all", ge=1)
    speaker: Text | None = maybe("who speaks, as the cuts or the manifest say")
    text: Text | None = maybe("what is said, as the cuts or the manifest say")
    language: Literal["zh", "en"]
    prompt: Text = Field(description="the instruction given to the models")
    mode: Mode
    caption: Text | None = Field(description="null if there is an error")
    flags: tuple[Flag, ...] = Field(
        default=(),
        description="what makes the caption no description: refusal; language: not the one asked for; no_description: "
        "empty, or nothing but words to the listener; no_speech: none found, so it may be invented; contradicts: a "
        "class that the sound contradicts; left out if none",
    )
    labels: dict[str, str | None] | None = maybe(
        "attribute -> class that is named, null: none; left out if not asked, and without speech"
    )
    whole: Whole | None = maybe("the recording as a whole, in the line that completed its pieces")
    emotions: tuple[Text, ...] | None = maybe("emotion words that are said, in their normal form; left out alike")
    scores: dict[str, ClassScores] | None = maybe("attribute -> probabilities of its classes, if they are known")
    needs_review: bool | None = maybe("whether the models disagree, or a class is unlikely; left out if not asked")
    measured: Measured | None = maybe("figures of the sound; left out if not asked")
    agrees: dict[str, bool | None] | None = maybe("attribute -> whether class and figure fit; null: one is missing")
    finish_reason: FinishReason | None
    degraded: Text | None = maybe("why the edge wrote on without the cloud; left out if it did not have to")
    error: ErrorInfo | None = None
    warnings: tuple[Text, ...] = Field(
        default=(), description="what to know of settings and recording; left out if nothing"
    )
    models: Models
    settings: Annotated[dict[str, Any], AfterValidator(settings_of)] = Field(
        description="decoding, gate and acceptance settings in force"
    )

    @property
    def good(self) -> bool:
        """Whether there is a caption."""
        return self.caption is not None and self.error is None

    @property
    def has_speech(self) -> bool:
        """Whether speech was found, or `audio.no_speech` is keep, which takes it for granted."""
        return "no_speech" not in self.flags or self.settings.get("keep_no_speech") is True

    @classmethod
    def from_json(cls, line: str | bytes, place: str = "The line") -> Self:
        """The record in a line of JSON, whoever wrote it; `place` names the line in messages.

        Raises TranscriptError, which names the field, if the line is not a transcript of schema 1.
        """
        try:
            values = json.loads(line, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise _malformed(place, f"line: Invalid JSON: {error}") from error
        return cls.of(values, place)

    @classmethod
    def of(cls, values: object, place: str = "The line") -> Self:
        """The record of a parsed line; errors as in `from_json`."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise _malformed(place, f"{'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}") from error


class Started(TranscriptHead):
    """A clip is about to be captioned: the first event of its run, with the fields of its transcript that are known."""

    sha256: str
    duration_s: Seconds
    caption: None = None
    finish_reason: None = None


class Transcript(TranscriptHead):
    """One recording, or one piece of it."""

    rounds: tuple[Round, ...]
    totals: Totals | None
    timing: Timing
    resources: Resources
    uplink: Uplink

    model_config = ConfigDict(title="specdec transcript, schema 1", validate_by_name=True, serialize_by_alias=True)

    @property
    def woken(self) -> bool:
        """Whether the cloud worked on the clip: a block escalated, or the cloud encoded the clip before any."""
        return self.totals is not None and (self.totals.forwards_cloud or self.totals.escalations or 0) > 0

    @property
    def probabilities(self) -> dict[str, float]:
        """Attribute -> probability of the class that the caption names, if it is known."""
        said, scores = self.labels or {}, self.scores or {}
        return {
            name: each.classes[class_] for name, each in scores.items() if (class_ := said.get(name)) in each.classes
        }

    def values(self, without: AbstractSet[str] = frozenset()) -> dict[str, Any]:
        """The fields as `to_json` writes them, but those `without`."""
        fields = type(self).model_fields.items()
        absent = {name for name, field in fields if not field.is_required() and getattr(self, name) in (None, ())}
        return self.model_dump(mode="json", exclude=absent | without)

    def to_json(self) -> str:
        """One line of JSON, with Chinese as it is; its own optional fields are left out if None or empty."""
        line = json.dumps(self.values(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return readable(line)  # inside JSON, a surrogate written out is the escape that stands for it


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


def json_schema() -> dict[str, Any]:
    """The schema of a line as a JSON Schema (2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Transcript.model_json_schema()}
