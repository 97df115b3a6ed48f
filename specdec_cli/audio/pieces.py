"""Finds the pieces of a recording: their times and channels, and which of the given cuts are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from specdec_cli.audio.first_pass import FirstPass
from specdec_cli.audio.levels import MIN_DURATION_S
from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import Cut, OpenedFile
from specdec_cli.audio.sound import Columns, ExcerptSound, Selection, listed
from specdec_cli.errors import AudioContentError, CutsError
from specdec_cli.text import plain
from specdec_cli.times import MOST_S

Channel = int | Literal["mix", "each"]
"""A channel, 1-based; the mean over all of them; or each one by itself."""

_ROUNDING: Final = 1e-6  # samples
ROUNDED_S: Final = 0.1  # a cut that is shortened by less was rounded by its writer
_NAMED: Final = 3  # cuts that a sentence names
_MOST_CHANNELS: Final = 64  # with `each`


@dataclass(frozen=True, slots=True)
class Cutting:
    """How recordings are cut; the fields are as in `open_recording`."""

    window_s: float
    piece_s: float | None = None
    at_pauses: bool = False
    cuts: Sequence[Cut] | None = None
    channel: Channel = "mix"

    @property
    def divided(self) -> bool:
        """Whether the pieces do not depend on pauses."""
        return self.cuts is not None or self.piece_s is not None

    def columns(self, path: str, source: OpenedFile) -> Columns:
        """The columns to read of a recording; the mix leaves out LFE. Raises CutsError for a channel that it lacks."""
        given, count = self.cuts or (), source.channels
        named: set[Selection] = {cut.channel for cut in given if cut.channel is not None and cut.channel < count > 1}
        if self.cuts is None or any(cut.channel not in named for cut in self.cuts):
            named |= set(self._default(path, source))
        mixed = tuple(channel for channel in range(count) if channel not in source.low) or tuple(range(count))
        ordered = sorted(named or {None}, key=lambda channel: -1 if channel is None else channel)
        return {channel: mixed if channel is None else (channel,) for channel in ordered}

    def _default(self, path: str, source: OpenedFile) -> Sequence[Selection]:
        """The channels for cuts that name none."""
        count = source.channels
        if isinstance(self.channel, int) and count > 1:
            if self.channel > count:
                says = f"has {count} channels; there is no channel {self.channel}"
                raise audio_error(CutsError, path, says, "Name one that it has with audio.channel, or mix.")
            return (self.channel - 1,)
        if self.channel == "mix" or count < 2:
            return (None,)
        if count > _MOST_CHANNELS:
            says = f"has {count:,} channels, and at most {_MOST_CHANNELS} can each be a speaker"
            raise audio_error(CutsError, path, says, "Name one with audio.channel, or mix.")
        return [channel for channel in range(count) if channel not in source.low]

    def pauses(self, reading: FirstPass) -> bool:
        """Whether the pieces of a recording are utterances."""
        several = len(reading.sound.columns) > 1 and self.channel == "each"
        return not self.divided and (self.at_pauses or several or reading.samples is None)

    def pieces(self, path: str, reading: FirstPass) -> list[Cut]:
        """The pieces by their start. Cuts and channels that are left out are added to `reading.warnings`.

        Raises:
            AudioContentError: no selected channel can be described, or there are no utterances.
            CutsError: no given cut can be captioned.
        """
        sound = reading.sound
        channels = self._audible(path, reading)
        if sound.source.channels == 1 and isinstance(self.channel, int) and self.channel > 1:
            reading.warnings.append(f"{plain(path)} has one channel, which is read in place of channel {self.channel}.")
        if self.cuts is not None:
            found = list(_Given(self, sound, plain(path), channels).usable(reading.warnings))
        elif self.pauses(reading):
            between = reading.utterances()
            found = [cut for channel in channels for cut in _on((channel,), between[channel], len(channels))]
            if not found:
                hint = "Its level hardly changes, as in music or noise. Give the length of pieces: audio.segment."
                raise audio_error(AudioContentError, path, "has no utterances between pauses", hint)
            if idle := [channel for channel in channels if channel is not None and not between[channel]]:
                reading.warnings.append(f"{plain(path)} has no utterances between pauses on {listed(idle)}.")
        else:
            found = list(_on(channels, _equal(sound, self.piece_s), len(channels)))
        return sorted(found, key=lambda cut: (cut.start_s, cut.end_s, -1 if cut.channel is None else cut.channel))

    def _audible(self, path: str, reading: FirstPass) -> Sequence[Selection]:
        """The channels for cuts that name none; if each is a speaker, without silent ones and copies."""
        sound, name = reading.sound, plain(path)
        known = [channel for channel in self._default(path, sound.source) if channel in reading.statistics]
        faults = {
            channel: statistics.fault(path, sound.duration_s) for channel, statistics in reading.statistics.items()
        }
        if all(faults.values()) or (len(known) == 1 and faults[known[0]] is not None and self.cuts is None):
            raise next(fault for fault in faults.values() if fault is not None)
        if len(known) < 2 or self.cuts is not None:
            return known
        if sound.levels.alike:
            reading.warnings.append(f"{name}: channels 1 and 2 hold the same, so one of them is captioned.")
            return known[:1]
        faint = sound.levels.silent
        silent = [each for each in known if each is not None and (each in faint or reading.statistics[each].silent)]
        if silent:
            unheard = listed([channel for channel in silent if channel is not None])
            reading.warnings.append(f"{name}: nothing can be heard on {unheard}, left out.")
        return [channel for channel in known if channel not in silent]


def _on(channels: Iterable[Selection], cuts: Iterable[Cut], speakers: int) -> Iterator[Cut]:
    """Yields the cuts on each channel; with several `speakers`, a channel is a speaker."""
    for channel in channels:
        for cut in cuts:
            known = cut.speaker
            if speakers > 1 and known is None and channel is not None:
                known = f"channel {channel + 1}"
            alike = channel == cut.channel and known == cut.speaker
            yield cut if alike else replace(cut, channel=channel, speaker=known)


def _equal(sound: ExcerptSound, piece_s: float | None) -> list[Cut]:
    """The fewest equal pieces of at most `piece_s` seconds; None: one piece."""
    total, rate = sound.length, sound.sampling_rate
    longest = math.inf if piece_s is None else math.floor(piece_s * rate + _ROUNDING)
    count = max(1, math.ceil(total / longest))
    edges = [sound.start_s + total * index // count / rate for index in range(count + 1)]
    return list(map(Cut, edges, edges[1:]))


@dataclass(slots=True)
class _Given:
    cutting: Cutting
    sound: ExcerptSound
    name: str  # of the recording, for messages
    default: Sequence[Selection]  # channels for cuts that name none
    _named: frozenset[Selection] = frozenset()  # channels that cuts name
    _changed: dict[str, list[Cut]] = field(default_factory=dict)  # what happened -> to which cuts

    def usable(self, warnings: list[str]) -> Iterator[Cut]:
        """Yields the cuts, shortened to the part that was read; `warnings` gets what was shortened or left out."""
        given = sorted(self.cutting.cuts or (), key=lambda cut: (cut.start_s, cut.end_s))
        self._named = frozenset(cut.channel for cut in given if cut.channel is not None)
        found = [piece for cut in given for piece in self._fitted(cut)]
        sentences = [f"{self.name}: {self._sentence(what, which)}" for what, which in self._changed.items()]
        if not found:
            says = sentences[0] if sentences else f"{self.name} has no cuts."
            raise CutsError(says, hint="Mend the cuts, name the right recording, or another start and end.")
        warnings += sentences
        yield from found

    def _fitted(self, cut: Cut) -> Iterator[Cut]:
        sound, window_s = self.sound, self.cutting.window_s
        start_s, end_s = sound.start_s, sound.start_s + sound.duration_s
        clipped = cut
        if cut.start_s < start_s or cut.end_s > end_s:
            clipped = replace(cut, start_s=max(cut.start_s, start_s), end_s=min(cut.end_s, end_s))
        open_ended = cut.end_s >= MOST_S
        lost_s = (clipped.start_s - cut.start_s) + (0.0 if open_ended else cut.end_s - clipped.end_s)
        length_s = clipped.end_s - clipped.start_s
        if length_s <= 0 or (lost_s > 0 and length_s < MIN_DURATION_S):
            return self._note(f"outside of its sound from {start_s:.2f} s to {end_s:.2f} s, and left out", cut)
        if length_s > window_s + _ROUNDING:
            return self._note(f"longer than the {window_s:g} s that the model reads at once, and left out", cut)
        count = sound.source.channels
        if cut.channel is not None and cut.channel >= count > 1:
            return self._note(f"on a channel that it lacks (it has {count}), and left out", cut)
        if count == 1 and cut.channel is not None and (cut.channel > 0 or len(self._named) > 1):
            self._note("on one of several channels, but it has one channel, which is read", cut)
        if lost_s > ROUNDED_S:
            self._note(f"shortened to its sound from {start_s:.2f} s to {end_s:.2f} s", cut)
        channels = self.default if cut.channel is None or count == 1 else (cut.channel,)
        yield from _on(channels, [clipped], len(channels))

    def _note(self, what: str, cut: Cut) -> None:
        self._changed.setdefault(what, []).append(cut)

    @staticmethod
    def _sentence(what: str, which: Sequence[Cut]) -> str:
        places = (f"{plain(cut.place)}: " if cut.place else "" for cut in which)
        ends = ("the end" if cut.end_s >= MOST_S else f"{cut.end_s:g} s" for cut in which)
        named = [
            f"{place}{cut.start_s:g} s to {end}" for place, end, cut in zip(places, ends, which[:_NAMED], strict=False)
        ]
        more = f"; and {len(which) - _NAMED} more" if len(which) > _NAMED else ""
        return f"{len(which)} cut{'s are' if len(which) > 1 else ' is'} {what} ({'; '.join(named)}{more})."
