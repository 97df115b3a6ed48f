"""From a path to a recording that a model can read, in pieces that fit its window, or a typed error."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal

import numpy as np
import soxr
from numpy.typing import ArrayLike

from specdec_cli.audio.codecs import Sound, open_sound
from specdec_cli.audio.paths import audio_error, opened, sha256, stamp
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import MAX_DURATION_S, Cut, Floats, SampleStatistics, Segment, mono, piece_of
from specdec_cli.errors import AudioContentError, AudioDecodeError, CutsError

_HIGHEST_RATE: Final = 1e6  # Hz, of samples in memory
_ROUNDING: Final = 1e-6  # samples: 0.1 * 16000 must not lose one
_BEYOND_S: Final = 0.1  # seconds that a cut may end after the recording: its writer may have rounded

Pauses = Literal["never", "long", "always"]
"""Which recordings are cut at their pauses: none, so that one longer than the window is refused; those; or all."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording, or a part of it, that was decoded once and found fit to caption."""

    path: str  # as it was given
    sampling_rate: int  # of the samples of its pieces, Hz
    duration_s: float  # of the original, or of the part
    sha256: str  # hex digest of the file's bytes
    cuts: tuple[Cut, ...]  # the pieces, by their start
    whole: bool  # whether the only piece is the recording
    _span: tuple[float, float] = field(repr=False)  # the part, seconds
    _samples: Floats | None = field(repr=False)  # if they fit the window
    total_s: float | None = None  # length of all of the original, where it is known
    level_dbfs: float | None = None  # of its active frames, see `SampleStatistics`; None where it is one piece
    decode_s: float = 0.0  # from opening the file to the checked samples
    _stamp: tuple[int, ...] = field(default=(), repr=False)

    def pieces(self, skip: Collection[int] = ()) -> Iterator[Segment]:
        """The pieces that the model reads one at a time, in order, but for those whose index is in `skip`.

        One that is longer than the window is decoded again meanwhile. Raises AudioError if the file has changed.
        """
        blocks = self._decoded_again() if self._samples is None else iter((self._samples,))
        rest, at = np.zeros(0, np.float32), 0  # and its place
        for index, cut in enumerate(self.cuts):
            if index in skip:
                continue
            start, end = (round((s - self._span[0]) * self.sampling_rate) for s in (cut.start_s, cut.end_s))
            while at + len(rest) < end:  # the resampler may return a sample less
                done = min(len(rest), max(0, start - at))
                rest, at = rest[done:], at + done
                rest = np.concatenate([rest, next(blocks, np.zeros(end - at - len(rest), np.float32))])
            samples = rest[start - at : end - at].copy()
            fault = None
            if not self.whole:
                name = piece_of(self.path, cut.start_s, cut.end_s)
                fault = SampleStatistics(self.sampling_rate, samples).fault(name, cut.end_s - cut.start_s)
            yield Segment(samples, cut.start_s, cut.end_s, fault, index, cut.speaker, cut.text)

    def _decoded_again(self) -> Iterator[Floats]:
        with opened(self.path) as file:
            if stamp(file) != self._stamp:
                hint = "Caption it again when it is complete."
                raise audio_error(AudioDecodeError, self.path, "has changed since it was opened", hint)
            with open_sound(self.path, file, self._span[0]) as sound:
                yield from _Mixdown(self.path, sound, self.sampling_rate, self._span)


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
    span = (start_s or 0.0, (start_s or 0.0) + duration_s)
    digest = hashlib.sha256(given.tobytes()).hexdigest()
    return Recording(name, sampling_rate, duration_s, digest, (Cut(*span),), start_s is None, span, array)


def open_recording(
    path: str | os.PathLike[str],
    sampling_rate: int = 16000,
    *,
    window_s: float,
    segment_s: float | None = None,
    pauses: Pauses = "never",
    cuts: Sequence[Cut] | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
) -> Recording:
    """Decode a recording, mix it down to mono, resample it, check it and cut it.

    Args:
        path: anything that libsndfile or FFmpeg reads; of a video, the first sound track.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds.
        segment_s: longest of the fewest equal pieces, seconds, of which none is too short to describe.
        pauses: which recordings are cut into utterances.
        cuts: the pieces, which win over `segment_s` and `pauses`; those outside of the part are left out.
        start_s, end_s: the part of it that counts, seconds.

    Raises:
        AudioNotFoundError: no such file, not a regular file, or it may not be read.
        AudioDecodeError: empty, not audio, cut short, damaged, or of an unknown codec.
        AudioContentError: too short, too long, silent, with samples that are not finite, or without an utterance; it
            ends before `start_s`; a cut ends after it or is longer than the window.
    """
    path, begun = os.fsdecode(path), time.perf_counter()
    span = start_s, math.inf if end_s is None else end_s
    divided = segment_s is not None or cuts is not None
    cutter = None if divided or pauses == "never" else PauseCutter(sampling_rate, window_s)
    with opened(path) as file:
        with open_sound(path, file, start_s) as sound:
            mixdown = _Mixdown(path, sound, sampling_rate, span)
            samples, utterances = mixdown.read(window_s, cutter, divided=divided, always=pauses == "always")
        if start_s > 0 and not mixdown.length:
            says = f"ends before {start_s:g} s, where its part is to begin"
            raise audio_error(CutsError, path, says, "Name an earlier start.")
        if (fault := mixdown.statistics.fault(path, mixdown.duration_s)) is not None:
            raise fault
        if utterances is None:
            found = [*(_equal(mixdown, segment_s) if cuts is None else _usable(cuts, mixdown, window_s))]
        elif not (found := utterances):
            hint = "Its level hardly changes, as in music or noise. Give the length of pieces: audio.segment."
            raise audio_error(AudioContentError, path, "has no utterances between pauses", hint)
        return Recording(
            path,
            sampling_rate,
            mixdown.duration_s,
            sha256(file),
            tuple(found),
            whole=cuts is None and utterances is None and span == (0.0, math.inf) and len(found) == 1,
            total_s=start_s + mixdown.duration_s if end_s is None else sound.declared_s,
            level_dbfs=mixdown.statistics.level_dbfs() if len(found) > 1 else None,
            decode_s=time.perf_counter() - begun,
            _span=span,
            _samples=samples,
            _stamp=stamp(file),
        )


def _equal(mixdown: _Mixdown, segment_s: float | None) -> Iterator[Cut]:
    """The fewest equal pieces within a length, or one piece."""
    start_s, rate, total = mixdown.span[0], mixdown.sampling_rate, mixdown.length
    longest = math.inf if segment_s is None else math.floor(segment_s * rate + _ROUNDING)
    count = max(1, math.ceil(total / longest))
    edges = [start_s + total * index // count / rate for index in range(count + 1)]
    yield from map(Cut, edges, edges[1:])


def _usable(cuts: Sequence[Cut], mixdown: _Mixdown, window_s: float) -> Iterator[Cut]:
    """The given cuts within the part, by their start."""
    start_s, end_s = mixdown.span[0], mixdown.span[0] + mixdown.duration_s
    for cut in sorted(cuts, key=lambda cut: (cut.start_s, cut.end_s)):
        if cut.start_s < start_s or cut.end_s > mixdown.span[1]:
            continue
        where = f"{cut.place}: the cut from {cut.start_s:g} s to {cut.end_s:g} s"
        if cut.start_s >= end_s or cut.end_s > end_s + _BEYOND_S:
            says = f"lasts {end_s:.2f} s. {where} is outside of it"
            raise audio_error(CutsError, mixdown.path, says, "Mend the cuts, or name the right recording.")
        if cut.end_s - cut.start_s > window_s + _ROUNDING:
            says = f"cannot be cut so: {where} is longer than the {window_s:g} s that the model reads at once"
            raise audio_error(CutsError, mixdown.path, says, "Divide that cut.")
        yield replace(cut, end_s=min(cut.end_s, end_s))


class _Mixdown:
    """Iterates over a recording as blocks of mono samples, float32 [n], at `sampling_rate` (soxr, high quality).

    They are the mean over the channels, from the beginning of the span, seconds, to its end; after six hours they raise
    AudioContentError.
    """

    def __init__(self, path: str, sound: Sound, sampling_rate: int, span: tuple[float, float]) -> None:
        self.path, self.sound, self.sampling_rate, self.span = path, sound, sampling_rate, span
        self.duration_s = 0.0  # of what was decoded so far
        self.statistics = SampleStatistics(sampling_rate)  # of what was read

    @property
    def length(self) -> int:
        """Samples that it amounts to; the resampler's own count may differ by one."""
        return round(self.duration_s * self.sampling_rate)

    def __iter__(self) -> Iterator[Floats]:
        rate, ours, frames = self.sound.sampling_rate, self.sampling_rate, 0
        most = math.inf if self.span[1] == math.inf else round((self.span[1] - self.span[0]) * rate)
        resampler = None if rate == ours else soxr.ResampleStream(rate, ours, 1, "float32", "HQ")
        for decoded in self.sound.blocks:
            if frames >= most:
                break
            block = decoded[: min(len(decoded), most - frames)]
            frames += len(block)
            self.duration_s = frames / rate
            self._require_bounded(self.span[0] + self.duration_s)
            with np.errstate(all="ignore"):  # NaN and inf are refused later
                mixed = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
            yield mixed if resampler is None else resampler.resample_chunk(mixed)
        if resampler is not None and frames:
            yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)

    def read(
        self, window_s: float, cutter: PauseCutter | None, *, divided: bool, always: bool
    ) -> tuple[Floats | None, list[Cut] | None]:
        """All of it in one pass: its samples if they fit the window, and its utterances if they are looked for.

        They are in one that does not fit, and with `always`; one that does not fit and is not divided is refused.
        """
        declared_s, (start_s, end_s) = self.sound.declared_s, self.span
        self._require_bounded(declared_s or 0.0)
        fits = min((declared_s or 0.0) - start_s, end_s - start_s) <= window_s
        kept, waiting, found = list[Floats](), list[Floats](), list[Cut]()

        def places(utterances: Iterable[Segment]) -> list[Cut]:
            return [Cut(start_s + one.start_s, start_s + one.end_s) for one in utterances]

        for block in chain([np.zeros(0, np.float32)], self):
            self.statistics.add(block)
            fits = fits and self.length <= window_s * self.sampling_rate + _ROUNDING
            if not (fits or divided or cutter is not None):
                length = f"more than {window_s:g} s" if declared_s is None else f"{declared_s:.2f} s"
                says = f"lasts {length}, but the model reads {window_s:g} s at once"
                hint = "Caption it piece by piece: set audio.segment to pauses, or to a length in seconds."
                raise audio_error(AudioContentError, self.path, says, hint)
            kept = [*kept, block] if fits else []
            if cutter is None:
                continue
            waiting.append(block)
            if always or not fits:
                if math.isfinite(self.statistics.peak):  # else it is refused
                    found += places(one for part in waiting for one in cutter.feed(part))
                waiting.clear()
        # the resampler may return a sample less
        samples = np.concatenate([*kept, np.zeros(1, np.float32)])[: self.length] if fits else None
        if cutter is None or (fits and not always):
            return samples, None
        return samples, found + places(cutter.finish())

    def _require_bounded(self, seconds: float) -> None:
        """Refuses a recording of so many seconds if that is too long."""
        if seconds > MAX_DURATION_S:
            says = f"is too long: it lasts {seconds:,.0f} s or more, and {MAX_DURATION_S:,.0f} s is the most"
            hint = "Cut it into shorter recordings. If it is short, its header is wrong: convert it with ffmpeg."
            raise audio_error(AudioContentError, self.path, says, hint)
