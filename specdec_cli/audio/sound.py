"""A part of an open recording as samples at the models' rate: the mean of its channels, or some channels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import soxr

from specdec_cli.audio.codecs import MISSING_S, require_bounded
from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import Floats, Source
from specdec_cli.errors import AudioContentError, TooLongError
from specdec_cli.text import plain

_INCOMPLETE_S: Final = 0.1  # containers round, and may count the encoder's padding
_INVERTED: Final = -0.9  # correlation of two channels
_CANCELLED: Final = 0.1  # power of the channels' mean, relative to that of independent channels
_AUDIBLE: Final = 0.01  # power of a channel, relative to the other's: a quieter one does not cancel the other
_SAME: Final = 0.9999  # correlation

Selection = int | None
"""A channel of a recording, 0-based, or None for the mean over all of them."""


class Part(NamedTuple):
    """The part of a recording that is read."""

    sampling_rate: int  # of the result, Hz
    start_s: float
    end_s: float
    track: int | None = None  # 1-based; None: the one marked as the default, or else the first
    longest_s: float = math.inf  # longest part that is accepted


class Sound:
    """A part of an open recording, for one pass over it.

    Attributes:
        start_s: start of the part, on the file's clock, or of the sound, if that is later.
        duration_s: length of the part, as far as it was read.
        ended_s: where reading ended, on the file's clock.
        exhausted: whether reading reached the end of the sound, not only of the part.
        channels: how the channels cancel and resemble each other.
        selected: name of a column of the blocks -> the channel that it holds.
    """

    def __init__(self, path: str, source: Source, part: Part, selected: Mapping[Selection, Selection]) -> None:
        self.path, self.source, self.sampling_rate = path, source, part.sampling_rate
        self.start_s, self.end_s = max(part.start_s, source.origin_s), part.end_s
        self._longest_s = part.longest_s
        self.selected = dict(selected)
        self.duration_s, self.ended_s, self.exhausted = 0.0, 0.0, False
        self.channels = _Channels(source.channels)

    @property
    def length(self) -> int:
        """Samples of the part that was read; the resampler's own count may differ by one."""
        return round(self.duration_s * self.sampling_rate)

    def __iter__(self) -> Iterator[Floats]:
        """Yields blocks, float32 [n, selected], resampled (soxr, high quality).

        Damage ends the sound, or leaves out a part of it: see `Source.faults`.

        Raises TooLongError if the recording is longer than `MAX_DURATION_S`, or the part longer than `longest_s`; no
        more of it is decoded.
        """
        source, rate = self.source, self.source.rate
        require_bounded(self.path, source.longest_s)
        resamplers = [soxr.ResampleStream(rate, self.sampling_rate, 1, "float32", "HQ") for _ in self.selected]
        first = round(self.start_s * rate)
        last = first + max(0, round((self.end_s - self.start_s) * rate))
        for block in self._decoded():
            inside = block[max(0, first - source.at) : max(0, last - source.at)]
            source.at += len(block)
            self.duration_s = max(0, min(source.at, last) - first) / rate
            require_bounded(self.path, self.start_s + self.duration_s)
            if self.duration_s > self._longest_s:
                says = f"lasts longer than {self._longest_s:g} s, the most that is taken"
                raise audio_error(TooLongError, self.path, says, "Send it in parts.")
            columns = self._columns(inside)
            if rate != self.sampling_rate:
                columns = [one.resample_chunk(column) for one, column in zip(resamplers, columns, strict=True)]
            yield np.stack(columns, axis=1)
            if source.at >= last:
                break
        else:
            self.exhausted = True
        self.ended_s = source.at / rate
        if rate != self.sampling_rate and self.duration_s:
            yield np.stack([one.resample_chunk(np.zeros(0, np.float32), last=True) for one in resamplers], axis=1)

    def _columns(self, block: Floats) -> list[Floats]:
        with np.errstate(all="ignore"):  # NaN and inf are refused later
            mixed = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
        self.channels.add(block, mixed)
        return [
            mixed if channel is None else np.ascontiguousarray(block[:, channel]) for channel in self.selected.values()
        ]

    def _decoded(self) -> Iterator[Floats]:
        try:
            yield from self.source.blocks
        except (AudioContentError, MemoryError):
            raise
        except Exception as error:  # PyAV raises many kinds
            at_s = self.source.at / self.source.rate
            self.source.faults.append(f"it cannot be decoded from {at_s:.1f} s on ({type(error).__name__})")

    @property
    def complete(self) -> bool:
        """Whether no sign points to sound that was not read."""
        if self.source.faults or not self.exhausted:
            return not self.source.faults
        short_s = (self.source.declared_s or 0.0) - self.ended_s
        return short_s <= _INCOMPLETE_S and self.source.unread_s(self.ended_s) <= _INCOMPLETE_S

    def warnings(self, unread_s: float) -> Iterator[str]:
        """Yields sentences on missing sound, after reading; about `unread_s` seconds more may follow in the file."""
        name, source = plain(self.path), self.source
        if source.faults:
            yield f"{name} is damaged or cut short: {'; '.join(source.faults)}. What decodes is captioned."
        if self.exhausted and (source.declared_s or 0.0) - self.ended_s > MISSING_S:
            yield f"{name} is cut short: it ends after {self.ended_s:.1f} of {source.declared_s:.1f} s."
        elif self.exhausted and unread_s > MISSING_S:
            yield (
                f"{name} has a header that counts {self.ended_s:.1f} s, but the file has room for about "
                f"{unread_s:.1f} s more, which are left out."
            )
        for note in source.notes:
            yield f"{name} {note}."
        if self.start_s == source.origin_s > 0:
            yield f"{name} has no sound before {source.origin_s:.2f} s: times count from the start of the file."


class _Channels:
    """Power of each channel and of their mean, without constant offsets."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._frames = 0
        self._sums = np.zeros(count + 1)  # of the channels and their mean
        self._squares = np.zeros(count + 1)

    def add(self, block: Floats, mixed: Floats) -> None:
        """Counts samples [n, channels] and their mean [n]."""
        if self.count < 2 or not len(block):
            return
        self._frames += len(block)
        with np.errstate(all="ignore"):
            every = np.column_stack([block, mixed])
            self._sums += every.sum(axis=0, dtype=np.float64)
            self._squares += np.einsum("nc,nc->c", every, every, dtype=np.float64)

    @property
    def _powers(self) -> Floats:
        frames = max(1, self._frames)
        return np.maximum(self._squares / frames - (self._sums / frames) ** 2, 0.0)

    @property
    def correlation(self) -> float | None:
        """Correlation of two audible channels; None for other numbers, or if one is much quieter."""
        first, second, *mean = self._powers.tolist()
        if self.count != 2 or not min(first, second) > _AUDIBLE * max(first, second):
            return None
        return float((4 * mean[0] - first - second) / (2 * math.sqrt(first * second)))

    @property
    def alike(self) -> bool:
        """Whether the recording has two channels with the same sound."""
        first, second = self._powers[:2]
        return (self.correlation or 0.0) > _SAME and abs(first - second) <= 0.01 * max(first, second)

    def clear(self) -> tuple[int, str] | None:
        """The channel to read alone, 0-based, and why, if the channels cancel each other in their mean; else None."""
        powers, mean = self._powers[:-1], float(self._powers[-1])
        loudest = int(np.argmax(powers)) if self.count > 1 else 0
        if self.count == 2 and (correlation := self.correlation) is not None:
            if correlation < _INVERTED:
                says = f"channels 1 and 2 are inverted copies (their correlation is {correlation:.2f})"
                return loudest, says
        elif self.count > 2 and powers.sum() > 0 and mean < _CANCELLED * powers.sum() / self.count**2:
            return loudest, f"its {self.count} channels cancel each other in their mean"
        return None
