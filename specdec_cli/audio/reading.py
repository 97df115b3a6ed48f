"""Passes over a recording: the first one finds the library that reads it and what is missing; later ones repeat it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from typing import Final

import numpy as np

from specdec_cli.audio.codecs import libraries, not_sound, refused
from specdec_cli.audio.levels import MIN_DURATION_S, SampleStatistics
from specdec_cli.audio.ogg_pages import page_faults
from specdec_cli.audio.paths import audio_error, opened, stamp
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Cut, Floats, Source
from specdec_cli.audio.sound import Part, Selection, Sound
from specdec_cli.errors import AudioDecodeError, CutsError
from specdec_cli.text import plain
from specdec_cli.times import MOST_S

_ROUNDING: Final = 1e-6  # samples: 0.1 * 16000 must not lose one
_LONGER_S: Final = 0.05  # a reading counts as longer only by more

Library = Callable[[str, FileIO, ExitStack, float, int | None], Source | None]
"""Opens a file as a source, or returns None: by path, file, stack for what it opens, start in seconds, and track."""
Select = Callable[[int], Mapping[Selection, Selection]]
"""From the number of channels to the selections: name of a column -> the channel that it holds."""


@dataclass(slots=True)
class FirstPass:
    """The result of a pass over a recording."""

    library: Library
    sound: Sound
    statistics: dict[Selection, SampleStatistics]
    samples: Floats | None  # [n, selected]; None: they do not fit the window
    utterances: dict[Selection, list[Cut]]  # if the samples do not fit the window, and utterances were looked for
    unread_s: float = 0.0  # sound that may follow the part that was read
    warnings: list[str] = field(default_factory=list)  # sentences


def read_through(path: str, file: FileIO, part: Part, select: Select, window_s: float, *, at_pauses: bool) -> FirstPass:
    """Reads a recording once, by the library that reads most of it, and again if its channels cancel each other.

    Samples are kept if they fit `window_s`; if not, and `at_pauses` is set, utterances are looked for.

    Raises:
        AudioDecodeError: no library reads the file, or nothing of it decodes.
        TooLongError: the recording or the part is too long.
        CutsError: the recording ends before the part begins, or lacks a channel or track.
    """
    best = _longest(path, file, part, select, window_s, at_pauses)
    cancelled = best.sound.channels.clear() if None in best.sound.selected else None
    if cancelled is not None:
        channel, why = cancelled
        chosen = {name: channel if name is None else name for name in best.sound.selected}
        best = _longest(path, file, part, lambda _: chosen, window_s, at_pauses)
        best.warnings.append(f"{plain(path)}: {why}, so channel {channel + 1} alone is read.")
    sound = best.sound
    best.warnings = [*sound.warnings(best.unread_s), *best.warnings]
    if not sound.duration_s and part.start_s > 0:
        says = f"ends before {part.start_s:g} s, where its part is to begin"
        raise audio_error(CutsError, path, says, "Name an earlier start.")
    if sound.duration_s < MIN_DURATION_S and not sound.complete:
        counts = f"its header counts {sound.duration_s:.3f} s, and about {best.unread_s:.1f} s more may follow"
        raise refused(path, f"cannot be decoded: {counts if best.unread_s else 'it is damaged or cut short'}")
    return best


def decoded_again(
    path: str, before: tuple[int, ...], part: Part, library: Library, selected: Mapping[Selection, Selection]
) -> Iterator[Floats]:
    """Yields the blocks of another pass. Raises AudioDecodeError if the file has changed since `before`."""
    with opened(path) as file, ExitStack() as stack:
        require_unchanged(path, file, before)
        if (source := library(path, file, stack, part.start_s, part.track)) is not None:
            yield from Sound(path, source, part, selected)


def require_sound(path: str, file: FileIO) -> None:
    """Raises AudioDecodeError if no library opens a file as sound. The file is not read to its end."""
    for library in libraries(file, None):
        with ExitStack() as stack:
            if library(path, file, stack, 0.0, None) is not None:
                return


def require_unchanged(path: str, file: FileIO, before: tuple[int, ...]) -> None:
    """Raises AudioDecodeError if the stamp of a file is not `before`."""
    if stamp(file) != before:
        hint = "Caption it again when it is complete."
        raise audio_error(AudioDecodeError, path, "has changed since it was opened", hint)


def _longest(path: str, file: FileIO, part: Part, select: Select, window_s: float, at_pauses: bool) -> FirstPass:
    """The reading of the first library that reads everything, or else the longest reading."""
    best: FirstPass | None = None
    failure, damage = not_sound(path, file), page_faults(file)
    for library in libraries(file, part.track):
        with ExitStack() as stack:
            try:
                if (source := library(path, file, stack, part.start_s, part.track)) is None:
                    continue
                _require_rate(path, source.rate)
            except AudioDecodeError as error:
                failure = error
                continue
            source.faults += damage
            reading = _read(library, Sound(path, source, part, select(source.channels)), window_s, at_pauses)
            complete = reading.sound.complete
        if best is None:
            best = reading
        elif (more_s := reading.sound.ended_s - best.sound.ended_s) > _LONGER_S:
            reading.unread_s = 0.0 if 2 * more_s > best.unread_s else best.unread_s - more_s
            if set(best.sound.source.faults) > set(damage) and not reading.sound.source.faults:
                reading.sound.source.faults.append("parts of it do not decode")
            best = reading
        elif reading.sound.source.searched and reading.sound.exhausted:
            best.unread_s = 0.0  # only tags or padding follow
        if complete:
            break
    if best is None:
        raise failure
    return best


def _require_rate(path: str, rate: int) -> None:
    if not 1_000 <= rate <= 768_000:
        raise refused(path, f"cannot be decoded: its header claims a sampling rate of {rate:,} Hz")


def _read(library: Library, sound: Sound, window_s: float, at_pauses: bool) -> FirstPass:
    names, rate = tuple(sound.selected), sound.sampling_rate
    reading = FirstPass(
        library, sound, {name: SampleStatistics(rate) for name in names}, None, {name: [] for name in names}
    )
    cutters = [PauseCutter(rate, min(window_s, MOST_S)) for _ in names]
    kept: list[Floats] | None = [np.zeros((0, len(names)), np.float32)]

    def cut(blocks: list[Floats]) -> None:
        for index, (name, cutter) in enumerate(zip(names, cutters, strict=True)):
            if at_pauses and math.isfinite(reading.statistics[name].peak):  # other samples are refused later
                for block in blocks:
                    reading.utterances[name] += _placed(sound, cutter.feed(block[:, index]))

    for block in sound:
        for index, statistics in enumerate(reading.statistics.values()):
            statistics.add(block[:, index])
        if kept is None:
            cut([block])
            continue
        kept.append(block)
        if sound.length > window_s * rate + _ROUNDING:
            cut(kept)
            kept = None
    if kept is None and at_pauses:
        for name, cutter in zip(names, cutters, strict=True):
            reading.utterances[name] += _placed(sound, cutter.finish())
    if kept is not None:  # the resampler may return a sample less
        reading.samples = np.concatenate([*kept, np.zeros((1, len(names)), np.float32)])[: sound.length]
    if sound.exhausted:
        reading.unread_s = sound.source.unread_s(sound.ended_s)
    return reading


def utterances_of(reading: FirstPass, window_s: float) -> dict[Selection, list[Cut]]:
    """The utterances of each selection, also of a recording that fits the window."""
    if reading.samples is None:
        return reading.utterances
    found: dict[Selection, list[Cut]] = {}
    for index, name in enumerate(reading.sound.selected):
        cutter = PauseCutter(reading.sound.sampling_rate, min(window_s, MOST_S))
        found[name] = _placed(reading.sound, cutter.utterances([reading.samples[:, index]]))
    return found


def _placed(sound: Sound, found: Iterable[Cut]) -> list[Cut]:
    return [Cut(sound.start_s + one.start_s, sound.start_s + one.end_s) for one in found]
