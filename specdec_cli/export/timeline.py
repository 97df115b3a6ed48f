"""A picture of a recording over its time: mel spectrogram, F0, level, and its pieces with their classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specdec_cli.audio.prosody import SAMPLE_RATE
from specdec_cli.export.annotation import layers
from specdec_cli.export.recordings import CaptionedPiece, CaptionedRecording
from specdec_cli.export.spectra import SOFTEST_DBFS, SoundRow, rows_of
from specdec_cli.labels import Lexicon
from specdec_cli.labels.words import shown
from specdec_cli.picture import ALERT, COLOURS, GROUND, INK, MUTED, is_light, mixed, picture
from specdec_cli.prompts import Language
from specdec_cli.text import one_line
from specdec_cli.types import PictureFormat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LENGTHS_S: Final = (60, 120, 300, 600, 1800, 3600, 7200, 14400)
"""Lengths of a row, s: the first with which a picture has at most `_MOST_ROWS`."""
_MOST_ROWS: Final = 12
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 13.5, 1.05, 0.75, 0.55, 0.75  # of a picture and its margins, inches
_MEL, _CURVES, _BOX, _BETWEEN, _GAP = 0.95, 0.75, 0.14, 0.06, 0.3  # heights within a row, and below it, inches
_SIZES: Final = (7.0, 6.0, 5.0)  # of letters in a lane, points: the first that fits
_LETTER: Final = 0.0092  # width of a letter a point, inches; a Chinese one has two
_RANGE_DB: Final = 70.0  # of the spectrogram, below its loudest
_SPEAKER: Final = "speaker"
_ORDERED: Final = frozenset({"rate", "pitch", "range", "volume", "pauses"})
"""Attributes whose classes are steps of one scale, which are shades of one colour."""
_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        _SPEAKER: "speaker",
        "minutes": "time, min:s",
        "seconds": "time, s",
        "contradicts": "underlined red: the measured sound says otherwise",
        "no_speech": "hatched: no speech was found",
    },
    "zh": {
        _SPEAKER: "说话人",
        "minutes": "时间（分:秒）",
        "seconds": "时间（秒）",
        "contradicts": "红色下划线：与测得的声音不符",
        "no_speech": "斜线：没有检测到说话声",
    },
}


@dataclass(frozen=True, slots=True)
class _Lane:
    """One attribute of all pieces, or who speaks."""

    name: str  # of the attribute, or `_SPEAKER`
    colours: Mapping[str, str]  # class -> colour

    def value(self, piece: CaptionedPiece) -> str | None:
        """The class of a piece."""
        found = piece.speaker if self.name == _SPEAKER else piece.details.get(f"label_{self.name}")
        return one_line(found) if found else None

    def contradicted(self, piece: CaptionedPiece) -> bool:
        """Whether the measured sound contradicts the class."""
        return piece.details.get(f"agrees_{self.name}") is False

    def shown(self, name: str, language: Language) -> str:
        """The name of the lane, or of a class in it."""
        if self.name == _SPEAKER:
            return _TEXTS[language][_SPEAKER] if name == _SPEAKER else name
        return shown(name, language)


@dataclass(frozen=True, slots=True)
class _Row:
    """A part of the recording, from the left to the right of the picture."""

    start_s: float
    end_s: float
    inches: float  # its width
    sound: Sequence[SoundRow]
    pieces: Sequence[CaptionedPiece]

    def room(self, start_s: float, end_s: float) -> float:
        """How much of the row a time takes, inches."""
        return (min(end_s, self.end_s) - max(start_s, self.start_s)) * self.inches / (self.end_s - self.start_s)


def timeline(recording: CaptionedRecording, kind: PictureFormat) -> bytes:
    """The picture of a recording. A row has a minute; of recordings above twelve minutes it has more.

    Raises:
        AudioError: the recording is gone, cannot be read, or is not the one that was captioned.
    """
    head = recording.pieces[0].line.head
    channels = {piece.line.head.channel for piece in recording.pieces}
    channel, track = channels.pop() if len(channels) == 1 else None, head.settings.get("track")
    edges = list(_edges(recording.duration_s))
    sound = list(rows_of(recording.path, head.sha256 or "", edges, channel, track))
    longest = max(end - start for start, end in edges)
    rows = [
        _Row(
            start,
            end,
            (_WIDTH - _LEFT - _RIGHT) * (end - start) / longest,
            [part for part in sound if start - 0.5 <= part.start_s < end],
            [piece for piece in recording.pieces if piece.start_ms < 1000 * end and piece.end_ms > 1000 * start],
        )
        for start, end in edges
    ]
    title = f"{one_line(recording.name)[-90:]} · {_minutes(round(recording.duration_s))}"
    lanes = list(_lanes(recording.pieces))
    return picture(lambda figure: _draw(figure, rows, lanes, title, head.language), kind, title)


def _edges(duration_s: float) -> Iterator[tuple[float, float]]:
    """Start and end of each row, s; a last row of less than a second belongs to the row before."""
    length = next((each for each in _LENGTHS_S if duration_s <= each * _MOST_ROWS), _LENGTHS_S[-1])
    count = max(1, math.ceil((duration_s - 1.0) / length))
    for row in range(count):
        yield float(row * length), duration_s if row == count - 1 else float((row + 1) * length)


def _lanes(pieces: Sequence[CaptionedPiece]) -> Iterator[_Lane]:
    """Who speaks, if that is known, and the attributes of which a caption names a class."""
    if speakers := list(dict.fromkeys(one_line(piece.speaker) for piece in pieces if piece.speaker)):
        yield _Lane(_SPEAKER, {name: mixed(COLOURS[n % len(COLOURS)], 0.4) for n, name in enumerate(speakers)})
    known = Lexicon.shipped().attributes
    names = (name.removeprefix("label_") for piece in pieces for name in piece.details if name.startswith("label_"))
    for name in dict.fromkeys(names):
        lane = _Lane(name, {})
        if seen := dict.fromkeys(value for piece in pieces if (value := lane.value(piece))):
            classes = list(dict.fromkeys((*known.get(name, ()), *seen)))
            yield _Lane(name, dict(zip(classes, _shades(name, len(classes)), strict=True)))


def _shades(attribute: str, count: int) -> list[str]:
    """Colours of the classes of an attribute."""
    if attribute in _ORDERED:
        return [mixed(COLOURS[0], 0.2 + 0.7 * step / max(count - 1, 1)) for step in range(count)]
    colours = (MUTED, *COLOURS[1:]) if count > 3 else COLOURS  # grey for the first of many: neutral
    return [mixed(colours[step % len(colours)], 0.55) for step in range(count)]


def _draw(figure: Figure, rows: Sequence[_Row], lanes: Sequence[_Lane], title: str, language: Language) -> None:
    deepest = max(len(_layers(row)) for row in rows)
    heights = (_MEL, _CURVES, (0.03 + _BOX * max(deepest, 1)) * max(len(lanes), 1))
    height = _TOP + len(rows) * (sum(heights) + len(heights) * _BETWEEN + _GAP) + _BOTTOM - _GAP
    figure.set_layout_engine("none")
    figure.set_size_inches(_WIDTH, height)
    figure.text(_LEFT / _WIDTH, 1 - 0.22 / height, title, fontsize=12, fontweight="bold", va="center")
    figure.text(_LEFT / _WIDTH, 0.16 / height, _legend(rows, lanes, language), fontsize=7.5, color=MUTED, va="center")
    loudest = max((float(part.mel_db.max()) for row in rows for part in row.sound), default=0.0)
    top = height - _TOP
    for row in rows:
        panels = []
        for tall in heights:
            top -= tall
            panels.append(figure.add_axes((_LEFT / _WIDTH, top / height, row.inches / _WIDTH, tall / height)))
            top -= _BETWEEN
        _spectrogram(panels[0], row, loudest)
        _curves(panels[1], row)
        _classes(panels[2], row, lanes, language)
        _time_axis(panels, row, language, in_minutes=rows[-1].end_s > 60, last=row is rows[-1])
        top -= _GAP


def _layers(row: _Row) -> list[list[CaptionedPiece]]:
    return layers(row.pieces, lambda piece: piece.start_ms, lambda piece: piece.end_ms)


def _legend(rows: Sequence[_Row], lanes: Sequence[_Lane], language: Language) -> str:
    pieces = [piece for row in rows for piece in row.pieces]
    found = {
        "contradicts": any(lane.contradicted(piece) for lane in lanes for piece in pieces),
        "no_speech": any("no_speech" in piece.line.head.flags for piece in pieces),
    }
    return " · ".join(_TEXTS[language][name] for name, is_there in found.items() if is_there)


def _spectrogram(panel: Axes, row: _Row, loudest: float) -> None:
    from librosa.display import specshow

    look: dict[str, Any] = {"cmap": "magma", "vmin": loudest - _RANGE_DB, "vmax": loudest, "rasterized": True}
    for part in row.sound:
        at = part.start_s + part.step_s * np.arange(part.mel_db.shape[1])
        specshow(part.mel_db, sr=SAMPLE_RATE, x_coords=at, y_axis="mel", ax=panel, **look)
    panel.set_facecolor("black")
    panel.set_yticks([500, 1000, 2000, 4000], ["0.5", "1", "2", "4"], fontsize=7)
    panel.set_ylabel("kHz", fontsize=8)
    _boundaries(panel, row, GROUND)


def _curves(panel: Axes, row: _Row) -> None:
    """F0 on a logarithmic scale on the left, level on the right."""
    other = panel.twinx()
    for part in row.sound:
        at = part.start_s + part.step_s * np.arange(len(part.level_dbfs))
        other.fill_between(at, part.level_dbfs, SOFTEST_DBFS, color=MUTED, alpha=0.25, linewidth=0)
        panel.plot(at, part.f0_hz, color=COLOURS[0], linewidth=1.3, solid_capstyle="round")
    panel.set_yscale("log")
    panel.set_ylim(65, 600)
    panel.set_yticks([75, 100, 150, 200, 300, 400, 600], ["75", "", "150", "", "300", "", "600"], fontsize=7)
    panel.minorticks_off()
    panel.set_ylabel("F0, Hz", fontsize=8, color=COLOURS[0])
    panel.grid(axis="y")
    panel.set_zorder(other.get_zorder() + 1)
    panel.patch.set_visible(False)
    other.set_ylim(SOFTEST_DBFS, 0)
    other.set_yticks([-60, -40, -20, 0], ["-60", "-40", "-20", "0"], fontsize=7)
    other.set_ylabel("dBFS", fontsize=8, color=MUTED)
    other.spines["right"].set_visible(True)
    _boundaries(panel, row, INK)


def _boundaries(panel: Axes, row: _Row, colour: str) -> None:
    for at in {each for piece in row.pieces for each in (piece.start_ms, piece.end_ms)}:
        panel.axvline(at / 1000, color=colour, linewidth=0.5, alpha=0.45)


def _classes(panel: Axes, row: _Row, lanes: Sequence[_Lane], language: Language) -> None:
    """A box for each piece in each lane; pieces that overlap are drawn above each other."""
    found = _layers(row)
    tall = 0.86 / max(len(found), 1)
    for place, lane in enumerate(reversed(lanes)):
        for level, pieces in enumerate(reversed(found)):
            for piece in pieces:
                _box(panel, row, lane, piece, place + 0.07 + level * tall, tall, language)
    panel.set_ylim(0, max(len(lanes), 1))
    names = [lane.shown(lane.name, language) for lane in reversed(lanes)]
    panel.set_yticks([place + 0.5 for place in range(len(lanes))], names, fontsize=7.5)
    panel.tick_params(axis="y", length=0)
    panel.set_facecolor("#f4f5f7")


def _box(
    panel: Axes, row: _Row, lane: _Lane, piece: CaptionedPiece, bottom: float, tall: float, language: Language
) -> None:
    """A piece in a lane, with its class where there is room for it."""
    if (value := lane.value(piece)) is None:
        return
    start, end, colour = piece.start_ms / 1000, piece.end_ms / 1000, lane.colours[value]
    hatch = "////" if "no_speech" in piece.line.head.flags else None
    look: dict[str, Any] = {"facecolors": colour, "edgecolors": GROUND, "linewidth": 0.6, "hatch": hatch}
    panel.broken_barh([(start, end - start)], (bottom, tall), **look)
    if lane.contradicted(piece):
        panel.plot([start, end], [bottom + 0.04] * 2, color=ALERT, linewidth=2, solid_capstyle="butt")
    text = lane.shown(value, language)
    inches = _LETTER * sum(2 if ord(letter) > 0x2E80 else 1 for letter in text)  # a point
    if size := next((size for size in _SIZES if inches * size <= row.room(start, end)), None):
        at = (max(start, row.start_s) + min(end, row.end_s)) / 2, bottom + tall / 2
        ink = INK if is_light(colour) else GROUND
        panel.text(*at, text, ha="center", va="center_baseline", color=ink, fontsize=size)


def _time_axis(panels: Sequence[Axes], row: _Row, language: Language, *, in_minutes: bool, last: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    length = row.end_s - row.start_s
    step = next((each for each in (5, 10, 30, 60, 300, 600) if length / each <= 13), 1800)
    for panel in panels:
        panel.set_xlim(row.start_s, row.end_s)
        panel.xaxis.set_major_locator(MultipleLocator(step) if in_minutes else MaxNLocator(12, steps=[1, 2, 5, 10]))
        if in_minutes:
            panel.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _minutes(round(at))))
        panel.tick_params(axis="x", labelbottom=panel is panels[-1], labelsize=7.5)
        panel.set_xlabel("")
    if last:
        panels[-1].set_xlabel(_TEXTS[language]["minutes" if in_minutes else "seconds"], fontsize=8)


def _minutes(seconds: int) -> str:
    return f"{seconds // 60}:{seconds % 60:02}"
