"""Opens a recording that an input names, read through once and cut as the settings say."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from specdec_cli.audio import Recording, open_recording
from specdec_cli.audio.pieces import ROUNDED_S
from specdec_cli.config.schema import AudioConfig
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.recording import InputFile
from specdec_cli.text import plain


def open_item(
    item: InputFile, audio: AudioConfig, cuts: Cuts | None, rate: int, window_s: float, longest_s: float
) -> Recording:
    """The recording of an item, read through once and cut as the settings say; see `Captioner.recording`."""
    start_s, end_s = (audio.start_s, audio.end_s) if item.start_s is None else (item.start_s, item.end_s)
    read = partial(
        open_recording,
        item.path,
        rate,
        window_s=window_s,
        piece_s=audio.length_s,
        at_pauses=audio.at_pauses,
        cuts=None if cuts is None else cuts.of(item.path),
        start_s=start_s or 0.0,
        channel=audio.channel if item.channel is None else item.channel + 1,
        track=audio.track,
        longest_s=longest_s,
    )
    recording = read(end_s=end_s)
    read_s = min(recording.total_s or math.inf, end_s or math.inf)
    if item.end_s is not None and ROUNDED_S < read_s - item.end_s < math.inf:  # a row of NeMo may end before its file
        recording = read(end_s=item.end_s)
    if item.end_s is not None and item.end_s - (recording.total_s or item.end_s) > ROUNDED_S:
        says = f"{plain(item.path)} ends at {recording.total_s:.2f} s, before its part does (at {item.end_s:.2f} s)."
        return replace(recording, warnings=(*recording.warnings, says))
    return recording
