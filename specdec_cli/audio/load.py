"""From a path to a recording that a model can read, in pieces that fit its window, or a typed error."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import soxr
from numpy.typing import ArrayLike

from specdec_cli.audio.codecs import Sound, open_sound
from specdec_cli.audio.paths import audio_error, opened, sha256, stamp
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Cut, Floats, SampleStatistics, Segment, mono, piece_of
from specdec_cli.errors import AudioContentError, AudioDecodeError, CutsError
from specdec_cli.times import MOST_S

_HIGHEST_RATE: Final = 1e6  # Hz, of samples in memory
_ROUNDING: Final = 1e-6  # samples: 0.1 * 16000 must not lose one
_BEYOND_S: Final = 0.1  # seconds that a cut may end after the recording: its writer may have rounded


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording, or a part of it, that was decoded once and found fit to caption."""

    path: str  # as it was given
    sampling_rate: int  # of the samples of its pieces, Hz
    duration_s: float  # of the original, or of the part
    sha256: str  # hex digest of the file's bytes
    cuts: tuple[Cut, ...]  # the pieces, by their start
    whole: bool  # whether the only piece is the recording
    _start_s: float = field(repr=False)  # of the part
    _blocks: Callable[[], Iterator[Floats]] = field(repr=False)  # of the part
    total_s: float | None = None  # length of all of the original, where it is known
    level_dbfs: float | None = None  # of its active frames, see `SampleStatistics`; None where it is one piece
    decode_s: float = 0.0  # from opening the file to the checked samples

    def pieces(self, skip: Collection[int] = ()) -> Iterator[Segment]:
        """The pieces that the model reads one at a time, in order, but for those whose index is in `skip`.

        A recording that is longer than the window is decoded again meanwhile. Raises AudioError if it has changed.
        """
        blocks = self._blocks()
        rest, at = np.zeros(0, np.float32), 0  # and its place
        for index, cut in enumerate(self.cuts):
            if index in skip:
                continue
            start, end = (round((s - self._start_s) * self.sampling_rate) for s in (cut.start_s, cut.end_s))
            while at + len(rest) < end:  # the resampler may return a sample less
                done = min(len(rest), max(0, start - at))
                rest, at = rest[done:], at + done
                rest = np.concatenate([rest, next(blocks, np.zeros(end - at - len(rest), np.float32))])
            samples = rest[start - at : end - at].copy()
            fault = None
            if not self.whole:
                name = piece_of(self.path, cut.start_s, cut.end_s)
                fault = SampleStatistics(self.sampling_rate, samples).fault(name, cut.end_s - cut.start_s)
            known = cut.start_s, cut.end_s, cut.speaker, cut.text
            yield Segment(*known, samples=samples, index=index, fault=fault)


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
    blocks = partial(iter, (array,))
    return Recording(name, sampling_rate, duration_s, digest, (cut,), start_s is None, cut.start_s, blocks)


def open_recording(
    path: str | os.PathLike[str],
    sampling_rate: int = 16000,
    *,
    window_s: float,
    segment_s: float | None = None,
    at_pauses: bool = False,
    cuts: Sequence[Cut] | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
) -> Recording:
    """Decode a recording, mix it down to mono, resample it, check it and cut it.

    Args:
        path: anything that libsndfile or FFmpeg reads; of a video, the first sound track; `-`: see `opened`.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds; what is longer is cut into utterances.
        segment_s: longest of the fewest equal pieces instead, seconds, of which none is too short to describe.
        at_pauses: whether what fits the window is cut into utterances, too.
        cuts: the pieces, which win over `segment_s` and `at_pauses`; those outside of the part are left out.
        start_s, end_s: the part of it that counts, seconds.

    Raises:
        AudioNotFoundError: no such file, not a regular file, or it may not be read.
        AudioDecodeError: empty, not audio, cut short, damaged, or of an unknown codec.
        AudioContentError: too short, too long, silent, with samples that are not finite, or without an utterance; it
            ends before `start_s`; a cut ends after it or is longer than the window.
    """
    path, begun = os.fsdecode(path), time.perf_counter()
    part = sampling_rate, start_s, MOST_S if end_s is None else end_s
    divided = cuts is not None or segment_s is not None
    with opened(path) as file:
        with open_sound(path, file, *part) as sound:
            samples, statistics, utterances = _read(sound, window_s, at_pauses=not divided)
        if start_s > 0 and not sound.duration_s:
            says = f"ends before {start_s:g} s, where its part is to begin"
            raise audio_error(CutsError, path, says, "Name an earlier start.")
        if (fault := statistics.fault(path, sound.duration_s)) is not None:
            raise fault
        blocks = partial(_decoded_again, path, stamp(file), part) if samples is None else partial(iter, (samples,))
        at_pauses = not divided and (at_pauses or samples is None)
        if at_pauses:
            found = utterances if samples is None else _utterances((samples,), sound, window_s)
        else:
            found = _equal(sound, segment_s) if cuts is None else _usable(cuts, sound, window_s)
        if at_pauses and not found:
            hint = "Its level hardly changes, as in music or noise. Give the length of pieces: audio.segment."
            raise audio_error(AudioContentError, path, "has no utterances between pauses", hint)
        return Recording(
            path,
            sampling_rate,
            sound.duration_s,
            sha256(file),
            tuple(found),
            whole=cuts is None and not at_pauses and (start_s, end_s) == (0.0, None) and len(found) == 1,
            total_s=start_s + sound.duration_s if end_s is None else sound.declared_s,
            level_dbfs=statistics.level_dbfs() if len(found) > 1 else None,
            decode_s=time.perf_counter() - begun,
            _start_s=start_s,
            _blocks=blocks,
        )


def _read(sound: Sound, window_s: float, *, at_pauses: bool) -> tuple[Floats | None, SampleStatistics, list[Cut]]:
    """All of a sound in one pass.

    Returns:
        Its samples if they fit the window, else None; its peak and levels; and `at_pauses` the utterances, if its
        samples do not fit.
    """
    statistics, kept = SampleStatistics(sound.sampling_rate), [np.zeros(0, np.float32)]

    def too_long() -> Iterator[Floats]:
        for block in sound:
            statistics.add(block)
            kept.append(block)
            if sound.length > window_s * sound.sampling_rate + _ROUNDING:
                if at_pauses and math.isfinite(statistics.peak):  # else it is refused
                    yield from kept
                kept.clear()

    utterances = _utterances(too_long(), sound, window_s)
    # the resampler may return a sample less
    samples = np.concatenate([*kept, np.zeros(1, np.float32)])[: sound.length] if kept else None
    return samples, statistics, utterances


def _decoded_again(path: str, before: tuple[int, ...], part: tuple[int, float, float]) -> Iterator[Floats]:
    with opened(path) as file:
        if stamp(file) != before:
            hint = "Caption it again when it is complete."
            raise audio_error(AudioDecodeError, path, "has changed since it was opened", hint)
        with open_sound(path, file, *part) as sound:
            yield from sound


def _equal(sound: Sound, segment_s: float | None) -> list[Cut]:
    """The fewest equal pieces within a length, or one piece."""
    total, rate = sound.length, sound.sampling_rate
    longest = math.inf if segment_s is None else math.floor(segment_s * rate + _ROUNDING)
    count = max(1, math.ceil(total / longest))
    edges = [sound.start_s + total * index // count / rate for index in range(count + 1)]
    return list(map(Cut, edges, edges[1:]))


def _utterances(blocks: Iterable[Floats], sound: Sound, window_s: float) -> list[Cut]:
    """What lies between the pauses of a sound."""
    found = PauseCutter(sound.sampling_rate, min(window_s, MOST_S)).utterances(blocks)
    return [Cut(sound.start_s + one.start_s, sound.start_s + one.end_s) for one in found]


def _usable(cuts: Sequence[Cut], sound: Sound, window_s: float) -> list[Cut]:
    """The given cuts within the part, by their start."""
    found, end_s = list[Cut](), sound.start_s + sound.duration_s
    for cut in sorted(cuts, key=lambda cut: (cut.start_s, cut.end_s)):
        if cut.start_s < sound.start_s or cut.end_s > sound.end_s:
            continue
        where = f"{cut.place}: the cut from {cut.start_s:g} s to {cut.end_s:g} s"
        if cut.start_s >= end_s or cut.end_s > end_s + _BEYOND_S:
            says = f"lasts {end_s:.2f} s. {where} is outside of it"
            raise audio_error(CutsError, sound.path, says, "Mend the cuts, or name the right recording.")
        if cut.end_s - cut.start_s > window_s + _ROUNDING:
            says = f"cannot be cut so: {where} is longer than the {window_s:g} s that the model reads at once"
            raise audio_error(CutsError, sound.path, says, "Divide that cut.")
        found.append(replace(cut, end_s=min(cut.end_s, end_s)))
    return found
