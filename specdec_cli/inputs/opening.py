"""Opens recordings that inputs name, read through once and cut as the settings say."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from specdec_cli.audio import Recording
from specdec_cli.audio.pieces import ROUNDED_S, Cutting
from specdec_cli.audio.sound import Excerpt
from specdec_cli.config.schema import AudioConfig
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.recording import InputFile
from specdec_cli.text import plain
from specdec_cli.times import MOST_S


@dataclass(frozen=True, slots=True)
class RecordingReader:
    """Opens recordings for models.

    Attributes:
        audio: how they are read and cut.
        cuts: of the file in `audio.segment`; None: no file is named.
        sampling_rate: of the audio that the models take, Hz.
        window_s: longest audio that the models read at once, seconds.

    Raises ConfigError if pieces of `audio.segment` seconds are longer than that.
    """

    audio: AudioConfig
    cuts: Cuts | None
    sampling_rate: int
    window_s: float

    def __post_init__(self) -> None:
        if (piece_s := self.audio.length_s) is not None and piece_s > self.window_s:
            raise ConfigError(f"audio.segment is {piece_s:g} s, but the models take {self.window_s:g} s at once")

    def open(self, item: InputFile, longest_s: float = math.inf) -> Recording:
        """A recording, read through once. Raises AudioError, and TooLongError beyond `longest_s` seconds."""
        audio = self.audio
        start_s, end_s = (audio.start_s, audio.end_s) if item.start_s is None else (item.start_s, item.end_s)
        end_s, rate = MOST_S if end_s is None else end_s, self.sampling_rate
        part = Excerpt(rate, start_s or 0.0, end_s, audio.track, longest_s)
        cutting = Cutting(
            self.window_s,
            audio.length_s,
            audio.at_pauses,
            cuts=None if self.cuts is None else self.cuts.of_recording(item.path),
            channel=audio.channel if item.channel is None else item.channel + 1,
        )
        recording = Recording.read(item.path, part, cutting)
        read_s = min(recording.total_s or MOST_S, end_s)
        if item.end_s is not None and read_s < MOST_S and read_s - item.end_s > ROUNDED_S:  # a row of NeMo's may end so
            recording = Recording.read(item.path, part._replace(end_s=item.end_s), cutting)
        if item.end_s is not None and item.end_s - (recording.total_s or item.end_s) > ROUNDED_S:
            says = (
                f"{plain(item.path)} ends at {recording.total_s:.2f} s, before its part does (at {item.end_s:.2f} s)."
            )
            return replace(recording, warnings=(*recording.warnings, says))
        return recording
