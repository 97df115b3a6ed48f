"""What a clip is labelled with: the table of measured values, the class thresholds and the speaker splits."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ATTRIBUTES: Final = ("voice", "rate", "pitch", "range", "volume", "pauses", "timbre", "emotion")
PROSODY: Final = ("voice", "rate", "pitch", "range", "volume", "pauses")
CLASSES: Final[dict[str, tuple[str, ...]]] = {
    "voice": ("male", "female"),
    "rate": ("slow", "moderate", "fast"),
    "pitch": ("low", "medium", "high"),
    "range": ("flat", "lively"),
    "volume": ("soft", "normal", "loud"),
    "pauses": ("few", "many"),
    "timbre": ("mellow", "balanced", "bright"),
    "emotion": ("neutral", "happy", "sad", "angry", "fearful", "disgusted", "surprised"),
}
EMOTION_OF: Final = {
    "neutral": "neutral",
    "calm": "neutral",  # a score counts calm and neutral as one class, so they are trained as one
    "happiness": "happy",
    "sadness": "sad",
    "anger": "angry",
    "fear": "fearful",
    "disgust": "disgusted",
    "surprise": "surprised",
}
TRAINING_CORPORA: Final = ("ravdess", "cremad", "nemo", "emodb")
EVALUATION_ONLY: Final = ("casia", "secap")
DEV_SPEAKERS: Final = frozenset(
    ["ravdess_19", "ravdess_20", "emodb_14", "nemo_TP0"]
    + [f"cremad_{number}" for number in (1006, 1017, 1019, 1056, 1076, 1088)]
)
REPORT_SPEAKERS: Final = frozenset(
    ["ravdess_17", "ravdess_18", "emodb_12", "emodb_13", "nemo_KD0", "nemo_WR0"]
    + [f"cremad_{number}" for number in (1084, 1085, 1087, 1089, 1090, 1091)]
)
"""The last woman and the last man of each corpus, three of each in CREMA-D, that are not in `DEV_SPEAKERS`. Nothing is
trained, fitted or chosen on them: figures are reported on them once, when everything is chosen."""
MEANT_SHARE: Final = 0.65
"""CREMA-D: weight of the emotion that the actor meant in a training target; the rest is what listeners heard."""


@dataclass(frozen=True)
class Measures:
    """Continuous values of one clip; None where unknown. Frequencies in Hz, range in semitones, level in dBFS."""

    gender: str | None = None
    f0_hz: float | None = None
    f0_range_st: float | None = None
    level_dbfs: float | None = None
    rate_syl_s: float | None = None
    pause_ratio: float | None = None
    alpha_ratio_db: float | None = None


@dataclass(frozen=True)
class Row:
    """One clip of the table."""

    file: str
    corpus: str
    speaker: str
    emotion: str
    heard: str
    measures: Measures
    classes: dict[str, str]

    @property
    def agreed(self) -> bool:
        """Whether listeners heard what the actor meant (corpora without listeners count as agreed)."""
        return self.corpus != "cremad" or EMOTION_OF.get(self.heard) == EMOTION_OF.get(self.emotion)


def _number(text: str) -> float | None:
    return float(text) if text else None


def read_rows(data: Path) -> list[Row]:
    """All rows of `labels.tsv` in the folder `data`."""
    with (data / "labels.tsv").open(encoding="utf-8", newline="") as table:
        records = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [_row(record) for record in records]


def _row(record: dict[str, str]) -> Row:
    measures = Measures(
        gender=record["gender"] or None,
        f0_hz=_number(record["f0_hz"]),
        f0_range_st=_number(record["f0_range_st"]),
        level_dbfs=_number(record["level_dbfs"]),
        rate_syl_s=_number(record["rate_syl_s"]),
        pause_ratio=_number(record["pause_ratio"]),
    )
    emotion = EMOTION_OF.get(record["emotion"])
    return Row(
        file=record["file"],
        corpus=record["corpus"],
        speaker=record["speaker"],
        emotion=record["emotion"],
        heard=record["heard"],
        measures=measures,
        classes=classify(measures) | ({"emotion": emotion} if emotion else {}),
    )


def training_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows that may be trained on: never an evaluation-only corpus, never a dev or report speaker."""
    return [row for row in rows if row.corpus in TRAINING_CORPORA and row.speaker not in DEV_SPEAKERS | REPORT_SPEAKERS]


def dev_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of the dev speakers of the training corpora."""
    return [row for row in rows if row.corpus in TRAINING_CORPORA and row.speaker in DEV_SPEAKERS]


def report_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of the report speakers of the training corpora."""
    return [row for row in rows if row.corpus in TRAINING_CORPORA and row.speaker in REPORT_SPEAKERS]


def emotion_target(row: Row) -> dict[str, float]:
    """Soft emotion target, summing to 1; empty when the emotion is outside the vocabulary (boredom).

    CREMA-D mixes what was meant with what most listeners heard, because a caption says how a voice sounds.
    """
    meant = EMOTION_OF.get(row.emotion)
    if meant is None:
        return {}
    heard = EMOTION_OF.get(row.heard) if row.corpus == "cremad" else None
    if heard is None or heard == meant:
        return {meant: 1.0}
    return {meant: MEANT_SHARE, heard: 1.0 - MEANT_SHARE}


def _three(value: float, low: float, high: float, names: tuple[str, ...]) -> str:
    return names[0] if value < low else names[2] if value > high else names[1]


PITCH_LIMITS_HZ: Final = {"m": (115.0, 165.0), "f": (185.0, 250.0)}
RATE_LIMITS: Final = (4.2, 5.5)
VOLUME_LIMITS_DBFS: Final = (-32.0, -20.0)
LIVELY_ABOVE_ST: Final = 7.0
MANY_ABOVE_RATIO: Final = 0.10
TIMBRE_LIMITS_DB: Final = (-12.5, -8.0)
"""Alpha ratio, about the tertiles of the training clips: there is no standard threshold."""


def classify(measures: Measures) -> dict[str, str]:
    """Class of every attribute whose value is known (emotion is not measured)."""
    found: dict[str, str] = {}
    if measures.gender:
        found["voice"] = "male" if measures.gender == "m" else "female"
        if measures.f0_hz is not None:
            found["pitch"] = _three(measures.f0_hz, *PITCH_LIMITS_HZ[measures.gender], CLASSES["pitch"])
    if measures.rate_syl_s is not None:
        found["rate"] = _three(measures.rate_syl_s, *RATE_LIMITS, CLASSES["rate"])
    if measures.f0_range_st is not None:
        found["range"] = "lively" if measures.f0_range_st > LIVELY_ABOVE_ST else "flat"
    if measures.level_dbfs is not None:
        found["volume"] = _three(measures.level_dbfs, *VOLUME_LIMITS_DBFS, CLASSES["volume"])
    if measures.pause_ratio is not None:
        found["pauses"] = "many" if measures.pause_ratio > MANY_ABOVE_RATIO else "few"
    if measures.alpha_ratio_db is not None:
        found["timbre"] = _three(measures.alpha_ratio_db, *TIMBRE_LIMITS_DB, CLASSES["timbre"])
    return found


def balanced(rows: Iterable[Row], clips: int, seed: int) -> list[Row]:
    """About `clips` of `rows`, shuffled, the training corpora in equal parts as far as they go."""
    rng = random.Random(seed)
    chosen: list[Row] = []
    known = list(rows)
    parts = [[row for row in known if row.corpus == corpus] for corpus in TRAINING_CORPORA]
    for left, part in zip(range(len(parts), 0, -1), sorted(parts, key=len), strict=True):
        chosen += rng.sample(part, min(len(part), (clips - len(chosen)) // left))
    rng.shuffle(chosen)
    return chosen
