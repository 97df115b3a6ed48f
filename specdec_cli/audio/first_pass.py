"""Passes over a recording: the first one finds the library that reads it and what is missing; later ones repeat it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from typing import Final

import numpy as np

from specdec_cli.audio.decode import LIBRARIES, Library, MisfitError, refused
from specdec_cli.audio.levels import MIN_DURATION_S, SampleStatistics
from specdec_cli.audio.paths import audio_error, opened, stamp
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Cut, Floats, OpenedSound
from specdec_cli.audio.sound import Columns, Excerpt, Selection, Sound, listed
from specdec_cli.errors import AudioDecodeError, CutsError
from specdec_cli.text import plain
from specdec_cli.times import MOST_S

_ROUNDING: Final = 1e-6  # samples: 0.1 * 16000 must not lose one


@dataclass(slots=True)
class FirstPass:
    """The result of a pass over a recording."""

    library: Library
    sound: Sound
    statistics: dict[Selection, SampleStatistics]
    samples: Floats | None  # [n, columns]; None: they do not fit the window
    utterances: dict[Selection, list[Cut]]  # if the samples do not fit the window, and `at_pauses` is set
    warnings: list[str] = field(default_factory=list)  # sentences


def read_through(
    path: str,
    file: FileIO,
    part: Excerpt,
    columns: Callable[[OpenedSound], Columns],
    window_s: float,
    *,
    at_pauses: bool,
) -> FirstPass:
    """Reads a recording once, and again if some of the channels that were mixed are silent or cancel each other.

    Samples are kept if they fit `window_s`; if not, and `at_pauses` is set, it is cut into utterances.

    Raises:
        AudioDecodeError: no library reads the file, or nothing of it decodes.
        TooLongError: the recording or the part is too long.
        CutsError: the recording ends before the part begins, or lacks a channel or track.
    """
    found = _pass(path, file, part, columns, window_s, at_pauses)
    sound, name = found.sound, plain(path)
    if not sound.duration_s and part.start_s > 0:
        says = f"ends before {part.start_s:g} s, where its part is to begin"
        raise audio_error(CutsError, path, says, "Name an earlier start.")
    missing = list(sound.missing())
    if sound.duration_s < MIN_DURATION_S and missing:
        raise refused(path, f"cannot be decoded: it {missing[0]}")
    warnings = [f"{name} {each}." for each in [*missing, *sound.source.notes]]
    if sound.start_s == sound.source.origin_s > 0:
        warnings.append(f"{name} has no sound before {sound.start_s:.2f} s: times count from the start of the file.")
    if None in sound.columns:
        mixed, why = sound.levels.mix()
        if mixed != sound.columns[None]:
            better = {**sound.columns, None: mixed}
            found = _pass(path, file, part, lambda _: better, window_s, at_pauses)
        if why:
            warnings.append(f"{name}: {why}; {listed(mixed)} {'are mixed' if len(mixed) > 1 else 'is read'}.")
    found.warnings = warnings
    return found


def decoded_again(
    path: str, before: tuple[int, ...], part: Excerpt, library: Library, columns: Columns
) -> Iterator[Floats]:
    """Yields the blocks of another pass. Raises AudioDecodeError if the file has changed since `before`."""
    with opened(path) as file, ExitStack() as stack:
        require_unchanged(path, file, before)
        if (source := library(path, file, stack, part.start_s, part.track)) is not None:
            yield from Sound(path, source, part, columns)


def require_unchanged(path: str, file: FileIO, before: tuple[int, ...]) -> None:
    """Raises AudioDecodeError if the stamp of a file is not `before`."""
    if stamp(file) != before:
        hint = "Caption it again when it is complete."
        raise audio_error(AudioDecodeError, path, "has changed since it was opened", hint)


def _pass(
    path: str, file: FileIO, part: Excerpt, columns: Callable[[OpenedSound], Columns], window_s: float, at_pauses: bool
) -> FirstPass:
    """The reading of the first library that reads the file."""
    failure, suspected = refused(path, "cannot be decoded"), list[str]()
    for library in LIBRARIES:
        with ExitStack() as stack:
            try:
                if (source := library(path, file, stack, part.start_s, part.track)) is None:
                    continue
                if not 1_000 <= source.rate <= 768_000:
                    raise refused(path, f"cannot be decoded: its header has a sampling rate of {source.rate:,} Hz")
                source.suspected = suspected
                return _read(library, Sound(path, source, part, columns(source)), window_s, at_pauses)
            except MisfitError as misfit:
                suspected = list(map(str, misfit.args))
            except AudioDecodeError as error:
                failure = error
    raise failure


def _read(library: Library, sound: Sound, window_s: float, at_pauses: bool) -> FirstPass:
    names, rate = tuple(sound.columns), sound.sampling_rate
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
    return reading


def utterances_of(reading: FirstPass, window_s: float) -> dict[Selection, list[Cut]]:
    """The utterances of each selection, also of a recording that fits the window."""
    if reading.samples is None:
        return reading.utterances
    found: dict[Selection, list[Cut]] = {}
    for index, name in enumerate(reading.sound.columns):
        cutter = PauseCutter(reading.sound.sampling_rate, min(window_s, MOST_S))
        found[name] = _placed(reading.sound, cutter.utterances([reading.samples[:, index]]))
    return found


def _placed(sound: Sound, found: Iterable[Cut]) -> list[Cut]:
    return [Cut(sound.start_s + one.start_s, sound.start_s + one.end_s) for one in found]
