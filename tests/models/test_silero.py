"""The speech check by silero-vad, where it is installed; a hint where it is not."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from specdec_cli.errors import ConfigError
from specdec_cli.models import silero
from tests.audio.encode import load_audio

needs_silero = pytest.mark.skipif(find_spec("silero_vad") is None, reason="silero-vad is not installed")


@needs_silero
@pytest.mark.parametrize("rate", [16_000, 24_000])
def test_speech_is_told_from_a_tone(rate: int) -> None:
    threads = torch.get_num_threads()
    speech, _ = load_audio("samples/en_male_pauses.flac", rate)
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(3 * rate) / rate)).astype(np.float32)
    assert silero.has_speech(speech, rate)
    assert not silero.has_speech(tone, rate)
    assert torch.get_num_threads() == threads


@needs_silero
@pytest.mark.parametrize("rate", [16_000, 24_000])
def test_utterances_are_cut_and_tones_left_out(rate: int) -> None:
    speech, _ = load_audio("samples/en_male_pauses.flac", rate)
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype(np.float32)
    gap = np.zeros(rate, np.float32)
    stream = np.concatenate([gap, speech, gap, tone, gap, speech, gap])
    places = [(1.0, 1 + len(speech) / rate), (4 + len(speech) / rate, 4 + 2 * len(speech) / rate)]
    cutter = silero.SpeechCutter(rate, 30.0)
    found = [*cutter.feed(stream[:10_000]), *cutter.feed(stream[10_000:]), *cutter.finish()]
    assert len(found) >= 2
    for piece in found:
        assert any(start - 0.3 < piece.start_s < piece.end_s < end + 0.3 for start, end in places), piece
        first = round(piece.start_s * rate)
        assert (piece.samples == stream[first : first + len(piece.samples)]).all()
    one, other = ([p for p in found if start - 0.3 < p.start_s < end] for start, end in places)
    assert len(one) == len(other)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    silero._package.cache_clear()
    monkeypatch.setitem(sys.modules, "silero_vad", None)
    with pytest.raises(ConfigError, match="needs the package silero-vad") as error:
        silero.has_speech(np.zeros(16_000, np.float32), 16_000)
    assert "specdec-cli[vad]" in str(error.value.hint)
    silero._package.cache_clear()
