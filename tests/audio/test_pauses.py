"""Utterances between pauses, of a stream that comes in blocks."""

from itertools import pairwise

import numpy as np
import pytest

from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import AudioPiece, Floats
from tests.mini_pair import voice

RATE = 16000
Places = list[tuple[float, float]]


def silence(seconds: float) -> Floats:
    return np.zeros(round(seconds * RATE), np.float32)


def talk(*parts: tuple[float, float, float]) -> tuple[Floats, Places]:
    """Utterances of (length, s; level; pause after it, s), after half a second; and where they are."""
    pieces, places, at = [silence(0.5)], Places(), 0.5
    for index, (seconds, level, pause) in enumerate(parts):
        pieces += [level * voice(index, seconds), silence(pause)]
        places.append((at, at + seconds))
        at += seconds + pause
    return np.concatenate(pieces), places


def cut(samples: Floats, block: int = 1 << 20, longest_s: float = 30.0, rate: int = RATE) -> list[AudioPiece]:
    blocks = [samples[start : start + block] for start in range(0, len(samples), block)]
    return list(PauseCutter(rate, longest_s).utterances(blocks))


def assert_at(found: list[AudioPiece], places: Places, within_s: float = 0.15) -> None:
    assert len(found) == len(places)
    for piece, (start, end) in zip(found, places, strict=True):
        assert piece.start_s == pytest.approx(start, abs=within_s)
        assert piece.end_s == pytest.approx(end, abs=within_s)


def test_utterances_of_loud_and_soft_speakers_are_found():
    samples, places = talk((1.5, 1.0, 0.5), (2.0, 0.02, 0.4), (0.8, 0.5, 1.5), (1.2, 0.01, 0.6))
    assert_at(cut(samples), places)


@pytest.mark.parametrize("noise", [0.0003, 0.003])
def test_steady_noise_is_a_pause(noise):
    samples, places = talk(*[(1.5, 0.5, 0.8)] * 6)
    noisy = samples + np.random.default_rng(0).normal(0, noise, len(samples)).astype(np.float32)
    assert_at(cut(noisy), places, within_s=0.3)


def test_a_short_gap_does_not_end_an_utterance():
    samples, ((start, _), (_, end)) = talk((1.0, 0.5, 0.2), (1.0, 0.5, 1.0))
    assert_at(cut(samples), [(start, end)])


@pytest.mark.parametrize("block", [37, 1024, 50_000])
def test_the_cuts_do_not_depend_on_the_blocks(block):
    samples, _ = talk((1.5, 1.0, 0.5), (2.5, 0.05, 0.4), (0.8, 0.5, 0.9))
    for ours, whole in zip(cut(samples, block, 2.0), cut(samples, longest_s=2.0), strict=True):
        assert (ours.start_s, ours.end_s) == (whole.start_s, whole.end_s)
        assert np.array_equal(ours.samples, samples[round(ours.start_s * RATE) : round(ours.end_s * RATE)])


def test_what_is_longer_than_the_window_is_split_where_it_is_quietest():
    samples, _ = talk((20.0, 0.5, 0.5))
    quiet = round(4.5 * RATE)
    samples[quiet : quiet + 1600] = 0  # too short to be a pause
    found = cut(samples, 1600, longest_s=6.0)
    assert all(0.3 <= piece.end_s - piece.start_s <= 6.0 for piece in found)
    assert all(0 <= other.start_s - one.end_s < 0.3 for one, other in pairwise(found))
    assert found[0].end_s == pytest.approx(4.55, abs=0.05)
    assert (found[0].start_s, found[-1].end_s) == pytest.approx((0.5, 20.5), abs=0.15)


def test_an_utterance_comes_soon_after_its_end_and_memory_is_bounded():
    samples, places = talk(*[(1.0, 0.5, 1.0)] * 4)
    samples = np.concatenate([samples, silence(60.0), samples])
    cutter, given = PauseCutter(RATE, 30.0), list[float]()
    for at in range(0, len(samples), 320):
        given += [(at + 320) / RATE - piece.end_s for piece in cutter.feed(samples[at : at + 320])]
        assert len(cutter._samples) < 3 * RATE
        assert len(cutter._levels) < 2200
    assert len(given) == 2 * len(places)
    assert max(given) < 0.6


def test_silence_and_noise_have_no_utterance():
    noise = np.random.default_rng(0).normal(0, 0.01, 20 * RATE).astype(np.float32)
    for samples in (silence(5.0), silence(0.0), silence(0.01), noise):
        assert cut(samples, 4000) == []


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_other_rates(rate):
    spoken = np.interp(np.arange(rate) / rate, np.arange(RATE) / RATE, voice(1, 1.0))
    samples = np.concatenate([np.zeros(rate), spoken, np.zeros(rate)])
    assert_at(cut(samples.astype(np.float32), rate=rate), [(1.0, 2.0)])


def test_what_would_count_as_silent_is_no_utterance():
    """A piece that the cutter gives can be captioned."""
    samples, places = talk((1.0, 1.0, 1.0), (1.0, 0.0002, 1.0), (1.0, 1.0, 0.5))
    assert len(places) == 3
    assert [round(piece.start_s) for piece in cut(samples)] == [round(places[0][0]), round(places[2][0])]


@pytest.mark.parametrize(("seconds", "level", "utterances"), [(0.3, 0.02, 2), (0.3, 0.3, 3), (0.8, 0.02, 3)])
def test_a_soft_scrap_behind_a_speaker_is_no_utterance(seconds, level, utterances):
    samples, places = talk((1.5, 1.0, 0.5), (seconds, level, 0.6), (1.0, 1.0, 0.5))
    for block in (1 << 20, 1600):
        found = cut(samples, block)
        assert len(found) == utterances
        assert found[-1].start_s == pytest.approx(places[-1][0], abs=0.15)
