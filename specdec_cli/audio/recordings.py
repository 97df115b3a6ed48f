"""Opens a recording for a model, in pieces that fit its window, or raises an AudioError."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Self

import numpy as np
import soxr
from numpy.typing import ArrayLike

from specdec_cli.audio.first_pass import decoded_again, read_through, require_unchanged
from specdec_cli.audio.levels import SampleStatistics
from specdec_cli.audio.paths import opened, sha256, stamp
from specdec_cli.audio.pieces import Channel, Cutting
from specdec_cli.audio.samples import AudioPiece, Cut, Floats, mono, piece_of
from specdec_cli.audio.sound import Excerpt, Selection
from specdec_cli.errors import AudioContentError
from specdec_cli.times import MOST_S

_HIGHEST_RATE: Final = 1e6  # Hz, of samples in memory


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording, or a part of one, that was decoded once and can be captioned."""

    path: str  # as it was given
    sampling_rate: int  # of the samples of its pieces, Hz
    duration_s: float  # of the original, or of the part
    sha256: str  # hex digest of the file's bytes
    spans: tuple[Cut, ...]  # of the pieces, by their start
    whole: bool  # whether the only piece is the whole recording
    _start_s: float = field(repr=False)  # of the part
    _chunks: Callable[[], Iterator[Floats]] = field(repr=False)  # of the part, float32 [n, channels that are read]
    total_s: float | None = None  # length of the whole original; None: unknown
    levels: Mapping[Selection, float | None] = field(default_factory=dict)
    """Channel -> level of its active frames, dBFS, if there are several pieces; see `SampleStatistics`."""
    decode_s: float = 0.0  # from opening the file to the checked samples
    warnings: tuple[str, ...] = ()  # sentences that name the recording: what is missing, left out or chosen
    _columns: tuple[Selection, ...] = field(default=(None,), repr=False)  # channels of the chunks

    @classmethod
    def read(cls, path: str, part: Excerpt, cutting: Cutting) -> Self:
        """A part of a recording, decoded, resampled, checked and cut; errors as in `open_recording`."""
        begun = time.perf_counter()
        with opened(path) as file:
            before = stamp(file)
            columns = partial(cutting.columns, path)
            reading = read_through(path, file, part, columns, cutting.window_s, at_pauses=not cutting.divided)
            sound, samples = reading.sound, reading.samples
            found = cutting.pieces(path, reading)
            again = partial(decoded_again, path, before, part, reading.library, sound.columns)
            digest = sha256(file)
            require_unchanged(path, file, before)
        everything = (part.start_s, part.end_s, sound.source.origin_s) == (0.0, MOST_S, 0.0)
        levels = {name: statistics.level_dbfs() for name, statistics in reading.statistics.items()}
        return cls(
            path,
            part.sampling_rate,
            sound.duration_s,
            digest,
            tuple(found),
            whole=cutting.cuts is None and not cutting.pauses(reading) and everything and len(found) == 1,
            total_s=sound.ended_s if sound.exhausted or part.end_s == MOST_S else sound.source.declared_s,
            levels=levels if len(found) > 1 else {},
            decode_s=time.perf_counter() - begun,
            warnings=tuple(reading.warnings),
            _start_s=sound.start_s,
            _chunks=again if samples is None else partial(iter, (samples,)),
            _columns=tuple(sound.columns),
        )

    def pieces(self, skip: Collection[int] = ()) -> Iterator[AudioPiece]:
        """Yields the pieces in order, except those with an index in `skip`.

        A recording that is longer than the window is decoded again meanwhile. Raises AudioError if it has changed.
        """
        chunks = self._chunks()
        rest, at = np.zeros((0, len(self._columns)), np.float32), 0  # samples, and the place of the first one
        for index, cut in enumerate(self.spans):
            if index in skip:
                continue
            start, end = (round((s - self._start_s) * self.sampling_rate) for s in (cut.start_s, cut.end_s))
            while at + len(rest) < end:  # the resampler may return a sample less
                done = min(len(rest), max(0, start - at))
                rest, at = rest[done:], at + done
                missing = np.zeros((end - at - len(rest), len(self._columns)), np.float32)
                rest = np.concatenate([rest, next(chunks, missing)])
            samples = rest[start - at : end - at, self._columns.index(cut.channel)].copy()
            fault = None
            if not self.whole:
                name = piece_of(self.path, cut.start_s, cut.end_s)
                fault = SampleStatistics(self.sampling_rate, samples).fault(name, cut.end_s - cut.start_s)
            known = cut.start_s, cut.end_s, cut.speaker, cut.text, cut.place, cut.channel
            yield AudioPiece(*known, samples=samples, index=index, fault=fault)


def from_samples(
    samples: ArrayLike, sample_rate: float, sampling_rate: int, window_s: float, name: str, start_s: float | None = None
) -> Recording:
    """A recording in memory, resampled, in one piece; arguments and errors as in `Captioner.run_samples`."""
    if not isinstance(sample_rate, int | float | np.number) or not 1.0 <= sample_rate <= _HIGHEST_RATE:
        raise AudioContentError(f"{name} cannot have the sample rate {sample_rate!r}", hint="Give its rate in Hz.")
    array = given = mono(samples, name)
    duration_s = len(given) / float(sample_rate)
    if duration_s > window_s:
        says = f"{name} lasts {duration_s:.2f} s, but the models take {window_s:g} s at once"
        raise AudioContentError(says, hint="Cut it into shorter pieces.")
    if (fault := SampleStatistics(round(float(sample_rate)), given).fault(name, duration_s)) is not None:
        raise fault
    if sample_rate != sampling_rate:
        array = soxr.resample(given, sample_rate, sampling_rate)
    cut, digest = Cut(start_s or 0.0, (start_s or 0.0) + duration_s), hashlib.sha256(given.tobytes()).hexdigest()
    chunks = partial(iter, (array[:, None],))
    return Recording(name, sampling_rate, duration_s, digest, (cut,), start_s is None, cut.start_s, chunks)


def open_recording(
    path: str | os.PathLike[str],
    sampling_rate: int = 16000,
    *,
    window_s: float,
    piece_s: float | None = None,
    at_pauses: bool = False,
    cuts: Sequence[Cut] | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    channel: Channel = "mix",
    track: int | None = None,
    longest_s: float = math.inf,
) -> Recording:
    """Decodes a recording, chooses or mixes its channels, resamples it, checks it and cuts it.

    Times start at the start of the file, even if its sound begins later than its picture.

    Args:
        path: a file that FFmpeg or libsndfile reads; `-`: standard input, see `paths.STDIN`.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds. A longer recording is cut into utterances.
        piece_s: instead, cut into the fewest equal pieces of at most this length, seconds.
        at_pauses: whether a recording that fits the window is also cut into utterances.
        cuts: the pieces, in place of `piece_s` and `at_pauses`. They are shortened to the part and the recording. A cut
            of which nothing is left, or that is longer than the window, is left out with a warning.
        start_s, end_s: the part that is read, seconds.
        channel: for cuts without a channel: one, 1-based; `mix`, the mean of those that carry sound, without LFE; or
            `each`, which makes every channel a speaker with pieces of its own: utterances, unless `piece_s` or `cuts`
            are given.
        track: of several sound tracks, 1-based; None: the one that is marked as the default, or else the first.
        longest_s: longest part that is accepted, seconds; decoding ends there.

    Raises:
        AudioNotFoundError: the file is missing, it is not a regular file, or it may not be read.
        AudioDecodeError: the file is empty, not audio, of an unknown codec, or so damaged that nothing decodes; or it
            changes meanwhile.
        AudioContentError: the recording is too short, too long, silent, not finite, or without an utterance.
        TooLongError: the part is longer than `longest_s`.
        CutsError: the recording ends before `start_s`, or lacks the channel or track; or no cut can be captioned.
    """
    part = Excerpt(sampling_rate, start_s, MOST_S if end_s is None else end_s, track, longest_s)
    return Recording.read(os.fsdecode(path), part, Cutting(window_s, piece_s, at_pauses, cuts, channel))
