"""Cuts the samples of a file or a microphone into utterances at the pauses, as a stream, in bounded memory.

A frame holds sound if it stands out from the noise floor: in bands of equal ratio, its power exceeds a low percentile
of the last seconds, on average over the bands. So steady noise is a pause however loud it is, and a soft speaker is
found after a loud one. Stretches of sound less than 0.33 s apart are one utterance. An utterance begins and ends where
its own level is within 28 dB of its loud parts, which leaves out the room's noise and breath. What is shorter than
0.4 s and 20 dB softer than the utterance before is left out: a breath, an echo, or the other end of the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specdec_cli.audio.levels import FLOOR_DBFS, SILENCE_DBFS, stretches_of
from specdec_cli.audio.samples import AudioPiece, Floats

_MARGIN_S: Final = 0.08  # of the pauses on either side, added to an utterance
_HOP_S: Final = 0.010
_FRAME_S: Final = 0.032
_PAUSE: Final = 33  # hops of the shortest pause between utterances; noise lengthens measured pauses of 0.3 s
_LEAST: Final = 20  # hops of sound in an utterance
_STEP: Final = 20  # frames between two looks at new samples, so that chunks of any length give the same cuts
_LOOKS: Final = 150  # looks while the pending sound doubles: each reads all of it, and hours of it would take days
_SMOOTH: Final = 5  # frames
_BANDS: Final = 18
_BANDS_HZ: Final = (100.0, 7200.0)
_HISTORY: Final = 2000  # frames that the noise floor is estimated from
_REFRESH: Final = 100  # frames after which the noise floor is estimated again
_FIRST: Final = 100  # frames before the first look
_FLOOR_PERCENTILE: Final = 7
_ABOVE_FLOOR_DB: Final = 1.0  # mean of steady noise over its percentile
_MOST_EXCESS_DB: Final = 20.0  # of one band
_EXCESS_DB: Final = 2.0  # mean over the bands; a frame with more holds sound
_PAUSE_DB: Final = 38.0  # below the loudest frame of a stretch: a pause, or the room after it
_END_DB: Final = 28.0  # below its loud frames an utterance has ended
_LOUD_PERCENTILE: Final = 95
_SCRAP: Final = 40  # hops: a shorter stretch behind a speaker is not an utterance
_SCRAP_DB: Final = 20.0  # if its loud frames are this far below those of the one before
_SILENT_MARGIN_DB: Final = 3.0  # of frames of 32 ms over those of 20 ms by which a piece is silent
_NOTHING: Final = 1e-12  # power, -120 dBFS


class PauseCutter:
    """Takes samples in chunks of any length, and returns utterances as they end.

    An utterance is returned 0.3 to 0.6 s after its end. The unfinished utterance and 20 s of levels are kept. An
    utterance longer than `longest_s` is split where its second half is quietest.

    Args:
        sampling_rate: of the samples, Hz, at least 2,000.
        longest_s: longest utterance, seconds, at least 0.5.
    """

    def __init__(self, sampling_rate: int, longest_s: float) -> None:
        self._rate = sampling_rate
        self._hop, self._size = round(_HOP_S * sampling_rate), round(_FRAME_S * sampling_rate)
        self._most = max(2 * _LEAST, int((longest_s - 2 * _MARGIN_S) / _HOP_S))
        self._window = np.hanning(self._size).astype(np.float32)
        frequencies = np.fft.rfftfreq(self._size, 1 / sampling_rate)
        highest = min(_BANDS_HZ[1], 0.45 * sampling_rate)
        self._edges = np.unique(np.searchsorted(frequencies, np.geomspace(_BANDS_HZ[0], highest, _BANDS + 1)))
        gain = 2 * np.sin(np.pi * frequencies / sampling_rate)  # of differences between neighbouring samples
        window_power = float(self._window @ self._window)
        # from squared magnitudes of those differences' spectra to the samples' mean square
        self._scale = 2 / (self._size * window_power * np.maximum(gain, gain[1]) ** 2)
        self._rest = np.zeros(0, np.float32)  # samples of less than a step
        self._samples = _Rows()
        self._first = 0  # place in the stream of the first kept sample
        self._end = 0  # samples of the stream so far
        self._powers = np.zeros((_SMOOTH // 2, len(self._edges) - 1))  # of frames that are not smoothed yet
        self._levels = _Rows(len(self._edges))  # dB, by frame: of each band, and of all together
        self._dropped = 0  # frames before the first kept level
        self._framed = 0  # frames whose power was computed
        self._floor = np.zeros(0, np.float32)  # dB, by band
        self._floor_of = 0  # frames after which the floor was estimated
        self._given = 0  # place of the sample after the last utterance
        self._loud_db = -np.inf  # level of the loud frames of the last utterance
        self._done = 0  # frames that cannot begin an utterance any more
        self._next_look = 0  # frame

    def utterances(self, chunks: Iterable[Floats]) -> Iterator[AudioPiece]:
        """Yields the utterances of all chunks. The stream is read no further than the next one needs."""
        for chunk in chunks:
            yield from self.feed(chunk)
        yield from self.finish()

    def feed(self, samples: Floats) -> list[AudioPiece]:
        """Takes the next samples, mono float32 [n]; returns the utterances that have certainly ended."""
        found, step = list[AudioPiece](), _STEP * self._hop
        arrived = np.concatenate([self._rest, samples])
        whole = len(arrived) // step * step
        self._rest = arrived[whole:].copy()
        for chunk in arrived[:whole].reshape(-1, step):
            self._take(chunk)
            found += self._utterances(last=False)
        return found

    def finish(self) -> list[AudioPiece]:
        """Ends the stream; returns its last utterances."""
        end = len(self._samples) + len(self._rest)
        self._take(np.append(self._rest, np.zeros(self._size + _SMOOTH * self._hop, np.float32)))
        self._end = self._first + end
        return list(self._utterances(last=True))

    def _take(self, chunk: Floats) -> None:
        """Adds samples, and the levels of the frames that they complete, smoothed over neighbouring frames."""
        self._samples.add(chunk)
        self._end = self._first + len(self._samples)
        rest = self._samples.rows[max(0, self._framed * self._hop - self._first) :]
        if len(rest) <= self._size:
            return
        frames = np.lib.stride_tricks.sliding_window_view(rest, self._size + 1)[:: self._hop]
        # differences, so that strong rumble below the bands does not leak into them
        spectra = np.abs(np.fft.rfft(np.diff(frames) * self._window, axis=1)) ** 2
        powers = np.add.reduceat(self._scale * spectra, self._edges, axis=1)[:, :-1]
        self._framed += len(frames)
        self._powers = np.concatenate([self._powers, powers])
        if len(self._powers) < _SMOOTH:
            return
        smooth = np.lib.stride_tricks.sliding_window_view(self._powers, _SMOOTH, axis=0).mean(axis=-1) + _NOTHING
        self._powers = self._powers[1 - _SMOOTH :]
        levels = 10 * np.log10(np.column_stack([smooth, smooth.sum(axis=1)]))
        self._levels.add(levels.astype(np.float32))

    def _utterances(self, *, last: bool) -> Iterator[AudioPiece]:
        """Yields the utterances that have ended; drops samples that later ones do not need."""
        known = self._dropped + len(self._levels)
        if len(self._levels) < (1 if last else _FIRST) or (known < self._next_look and not last):
            return
        start = self._done  # frames below are relative to this one
        totals = self._levels.rows[start - self._dropped :, -1]
        sound, done = self._sound(), 0
        settled = ended = max(0, len(totals) - (0 if last else _PAUSE))  # later frames may change
        for begin, end in _stretches(sound):
            loud = np.zeros_like(sound)
            loud[begin:end] = sound[begin:end] & (totals[begin:end] > totals[begin:end].max() - _PAUSE_DB)
            for left, right in _stretches(loud):
                if right > ended:
                    settled = min(settled, left)
                level = float(np.percentile(totals[left:right], _LOUD_PERCENTILE))
                inner = left + np.flatnonzero(loud[left:right] & (totals[left:right] > level - _END_DB))
                if len(inner) < _LEAST or totals[inner].max() < SILENCE_DBFS + _SILENT_MARGIN_DB:
                    continue
                first, behind = int(inner[0]), int(inner[-1]) + 1
                if behind - first < _SCRAP and level < self._loud_db - _SCRAP_DB:
                    continue
                while behind - first > self._most:
                    middle = first + self._most // 2
                    done = middle + int(np.argmin(totals[middle : min(first + self._most, behind - _LEAST)]))
                    yield self._piece(start + first, start + done, split=True)
                    first = done
                if right <= ended:
                    self._loud_db = level
                    yield self._piece(start + first, start + behind, split=False)
                    done = right + 1
        self._forget(start + max(done, settled - _PAUSE))
        self._next_look = known + (known - self._done) // _LOOKS

    def _sound(self) -> NDArray[np.bool_]:
        """Which frames after the last utterance stand out from the noise floor: bool [frames]."""
        history, pending = self._levels.rows[-_HISTORY:, :-1], self._levels.rows[self._done - self._dropped :]
        known = self._dropped + len(self._levels)
        if len(history) < _HISTORY or known >= self._floor_of + _REFRESH:
            rank = len(history) * _FLOOR_PERCENTILE // 100
            self._floor, self._floor_of = np.partition(history, rank, axis=0)[rank] + _ABOVE_FLOOR_DB, known
        excess = np.clip(pending[:, :-1] - self._floor, 0.0, _MOST_EXCESS_DB).mean(axis=1)
        sound: NDArray[np.bool_] = (excess > _EXCESS_DB) & (pending[:, -1] > FLOOR_DBFS)
        return sound

    def _piece(self, start: int, end: int, *, split: bool) -> AudioPiece:
        """The utterance from frame `start` to `end`, with margins that overlap no other; none at a split."""
        margin, centre = round(_MARGIN_S * self._rate), (self._size - self._hop) // 2
        from_, to = start * self._hop + centre, end * self._hop + centre
        from_ = max(self._given, self._first, from_ - margin)
        to = min(to if split else to + margin, self._end)
        self._given = to
        samples = self._samples.rows[from_ - self._first : to - self._first].copy()
        return AudioPiece(from_ / self._rate, to / self._rate, samples=samples)

    def _forget(self, settled: int) -> None:
        """Drops the samples before the frame `settled`, and levels older than the history of the noise floor."""
        self._done = settled
        samples = settled * self._hop - self._first
        self._samples.drop(samples)
        self._first += samples
        levels = max(0, min(settled - self._dropped, len(self._levels) - _HISTORY))
        self._levels.drop(levels)
        self._dropped += levels


class _Rows:
    """Rows that are added at the end and dropped at the front, each in constant time on average."""

    def __init__(self, *width: int) -> None:
        self._array: NDArray[Any] = np.zeros((1024, *width), np.float32)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    @property
    def rows(self) -> NDArray[Any]:
        """The rows, float32 [n, ...]; the array is valid until the next `add`."""
        return self._array[self._first : self._end]

    def add(self, rows: NDArray[Any]) -> None:
        """Adds rows [n, ...] at the end."""
        if self._end + len(rows) > len(self._array):
            held = self.rows
            moved = np.zeros((max(1024, 2 * (len(held) + len(rows))), *held.shape[1:]), np.float32)
            moved[: len(held)] = held
            self._array, self._first, self._end = moved, 0, len(held)
        self._array[self._end : self._end + len(rows)] = rows
        self._end += len(rows)

    def drop(self, count: int) -> None:
        """Drops `count` rows at the front."""
        self._first = min(self._end, self._first + max(0, count))


def _stretches(on: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Begin and end of each run of true items; runs less than `_PAUSE` apart are joined."""
    joined: list[tuple[int, int]] = []
    for begin, end in stretches_of(on).tolist():
        if joined and begin - joined[-1][1] < _PAUSE:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined
