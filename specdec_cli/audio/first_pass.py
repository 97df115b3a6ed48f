"""Passes over a recording: the first one finds the library that reads it and what is missing; later ones repeat it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from io import FileIO
from typing import Final

import numpy as np

from specdec_cli.audio.decode import LIBRARIES, Library, MisfitError, refused
from specdec_cli.audio.levels import MIN_DURATION_S, SampleStatistics
from specdec_cli.audio.paths import audio_error, opened, stamp
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Cut, Floats, OpenedFile
from specdec_cli.audio.sound import Columns, Excerpt, ExcerptSound, Selection, listed
from specdec_cli.errors import AudioDecodeError, CutsError
from specdec_cli.text import plain
from specdec_cli.times import MOST_S

_ROUNDING: Final = 1e-6  # samples: 0.1 * 16000 must not lose one


class FirstPass:
    """What one pass over a recording finds, chunk by chunk.

    Args:
        library: the one that opened the recording.
        sound: the part of it that is read.
        window_s: samples are kept if they fit, seconds.
        at_pauses: whether samples that do not fit are cut into utterances.

    Attributes:
        statistics: of each column of samples.
        samples: after the pass, [n, columns]; None: they do not fit the window.
        warnings: sentences.
    """

    def __init__(self, library: Library, sound: ExcerptSound, window_s: float, *, at_pauses: bool) -> None:
        columns, rate = sound.columns, sound.sampling_rate
        self.library, self.sound, self.warnings = library, sound, list[str]()
        self.statistics = {name: SampleStatistics(rate) for name in columns}
        self.samples: Floats | None = None
        self._most = window_s * rate + _ROUNDING
        self._kept: list[Floats] | None = [np.zeros((0, len(columns)), np.float32)]  # None: they do not fit
        self._cutters = {name: PauseCutter(rate, min(window_s, MOST_S)) for name in columns}
        self._at_pauses = at_pauses
        self._utterances: dict[Selection, list[Cut]] = {name: [] for name in columns}

    def add(self, chunk: Floats) -> None:
        """Adds samples [n, columns]."""
        for index, statistics in enumerate(self.statistics.values()):
            statistics.add(chunk[:, index])
        if self._kept is None:
            self._cut([chunk])
            return
        self._kept.append(chunk)
        if self.sound.length > self._most:
            self._cut(self._kept)
            self._kept = None

    def end(self) -> None:
        """All chunks are added."""
        if self._kept is not None:  # the resampler may return a sample less
            padded = np.concatenate([*self._kept, np.zeros((1, len(self._cutters)), np.float32)])
            self.samples, self._kept = padded[: self.sound.length], []
        elif self._at_pauses:
            for name, cutter in self._cutters.items():
                self._utterances[name] += self._placed(cutter.finish())

    def utterances(self) -> dict[Selection, list[Cut]]:
        """The utterances of each column, also of a recording that fits the window."""
        if self.samples is None:
            return self._utterances
        columns = zip(self._cutters.items(), self.samples.T, strict=True)
        return {name: self._placed(cutter.utterances([samples])) for (name, cutter), samples in columns}

    def _cut(self, chunks: list[Floats]) -> None:
        for index, (name, cutter) in enumerate(self._cutters.items()):
            if self._at_pauses and math.isfinite(self.statistics[name].peak):  # other samples are refused later
                for chunk in chunks:
                    self._utterances[name] += self._placed(cutter.feed(chunk[:, index]))

    def _placed(self, found: Iterable[Cut]) -> list[Cut]:
        start_s = self.sound.start_s
        return [Cut(start_s + one.start_s, start_s + one.end_s) for one in found]


def read_through(
    path: str,
    file: FileIO,
    part: Excerpt,
    columns: Callable[[OpenedFile], Columns],
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
    found = decode_with_first_library(path, file, part, columns, window_s, at_pauses=at_pauses)
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
            found = decode_with_first_library(path, file, part, lambda _: better, window_s, at_pauses=at_pauses)
        if why:
            warnings.append(f"{name}: {why}; {listed(mixed)} {'are mixed' if len(mixed) > 1 else 'is read'}.")
    found.warnings = warnings
    return found


def decoded_again(
    path: str, before: tuple[int, ...], part: Excerpt, library: Library, columns: Columns
) -> Iterator[Floats]:
    """Yields the chunks of another pass. Raises AudioDecodeError if the file has changed since `before`."""
    with opened(path) as file, ExitStack() as stack:
        require_unchanged(path, file, before)
        if (source := library(path, file, stack, part.start_s, part.track)) is not None:
            yield from ExcerptSound(path, source, part, columns)


def require_unchanged(path: str, file: FileIO, before: tuple[int, ...]) -> None:
    """Raises AudioDecodeError if the stamp of a file is not `before`."""
    if stamp(file) != before:
        hint = "Caption it again when it is complete."
        raise audio_error(AudioDecodeError, path, "has changed since it was opened", hint)


def decode_with_first_library(
    path: str,
    file: FileIO,
    part: Excerpt,
    columns: Callable[[OpenedFile], Columns],
    window_s: float,
    *,
    at_pauses: bool,
) -> FirstPass:
    """One pass over a recording, by the first library that opens it and decodes it; arguments and errors as above."""
    failure, suspected = refused(path, "cannot be decoded"), list[str]()
    for library in LIBRARIES:
        with ExitStack() as stack:
            try:
                if (source := library(path, file, stack, part.start_s, part.track)) is None:
                    continue
                if not 1_000 <= source.rate <= 768_000:
                    raise refused(path, f"cannot be decoded: its header has a sampling rate of {source.rate:,} Hz")
                source.suspected = suspected
                sound = ExcerptSound(path, source, part, columns(source))
                found = FirstPass(library, sound, window_s, at_pauses=at_pauses)
                for chunk in sound:
                    found.add(chunk)
                found.end()
                return found
            except MisfitError as misfit:
                suspected = list(map(str, misfit.args))
            except AudioDecodeError as error:
                failure = error
    raise failure
