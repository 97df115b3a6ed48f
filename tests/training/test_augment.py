"""Examples are drawn with balance, and their labels follow what was done to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from training.augment import PLAIN, SHARES, Pool, Source, change, draw_example
from training.corpus import SAMPLE_RATE, Waveform
from training.labels import Measures

Toy = tuple[list[Source], dict[str, Waveform]]


def test_an_unchanged_clip_keeps_its_labels(toy: Toy) -> None:
    sources, waveforms = toy
    example = change(np.random.default_rng(0), sources[:1], [waveforms[sources[0].key]], PLAIN)
    assert np.array_equal(example.waveform, waveforms[sources[0].key])
    assert example.measures.f0_hz == pytest.approx(sources[0].measures.f0_hz)
    assert example.measures.rate_syl_s == sources[0].measures.rate_syl_s
    assert example.measures.level_dbfs == pytest.approx(-20.0, abs=0.1)


def test_resampling_moves_pitch_and_rate_together(toy: Toy) -> None:
    sources, waveforms = toy
    clip = waveforms[sources[0].key]
    example = change(np.random.default_rng(3), sources[:1], [clip], replace(PLAIN, resample=1.0))
    speed = len(clip) / len(example.waveform)
    assert example.measures.f0_hz == pytest.approx((sources[0].measures.f0_hz or 0) * speed, rel=0.01)
    assert example.measures.rate_syl_s == pytest.approx((sources[0].measures.rate_syl_s or 0) * speed, rel=0.01)


def test_a_gain_moves_the_level_only(toy: Toy) -> None:
    sources, waveforms = toy
    plan = replace(PLAIN, level=1.0)
    levels = [
        change(np.random.default_rng(seed), sources[:1], [waveforms[sources[0].key]], plan).measures.level_dbfs
        for seed in range(20)
    ]
    assert min(level or 0 for level in levels) < -32
    assert all(level is not None and -42.5 < level < -6 for level in levels)


def test_joined_clips_are_of_one_speaker_and_at_most_30_s(toy: Toy) -> None:
    sources, waveforms = toy
    plan = replace(PLAIN, join=1.0, longest_s=30.0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        example = draw_example(rng, Pool(sources), waveforms.__getitem__, plan)
        assert SAMPLE_RATE < len(example.waveform) <= 30 * SAMPLE_RATE
        assert len(example.emotion) == 1


def test_corpora_are_drawn_by_their_shares_and_emotions_equally_certain_or_not() -> None:
    def clips(corpus: str, target: dict[str, float], count: int) -> list[Source]:
        return [Source(f"{corpus}/{target}/{n}", corpus, "s", Measures(), target) for n in range(count)]

    unsure = {"sad": 0.65, "neutral": 0.35}
    sources = clips("cremad", {"sad": 1.0}, 30) + clips("cremad", {"happy": 1.0}, 50) + clips("cremad", unsure, 350)
    pool = Pool(sources + clips("nemo", {"sad": 1.0}, 100))
    rng = np.random.default_rng(0)
    drawn = Counter((source.corpus, source.group) for source in (pool.draw(rng) for _ in range(6000)))
    share = SHARES["cremad"] / (SHARES["cremad"] + SHARES["nemo"]) / 3
    for group in (("sad", True), ("happy", True), ("sad", False)):
        assert drawn["cremad", group] / 6000 == pytest.approx(share, abs=0.03)


def test_tempo_moves_rate_but_not_pitch(toy: Toy) -> None:
    sources, waveforms = toy
    clip = waveforms[sources[0].key]
    example = change(np.random.default_rng(1), sources[:1], [clip], replace(PLAIN, tempo=1.0))
    tempo = len(clip) / len(example.waveform)
    assert example.measures.f0_hz == pytest.approx(sources[0].measures.f0_hz)
    assert example.measures.rate_syl_s == pytest.approx((sources[0].measures.rate_syl_s or 0) * tempo, rel=0.1)
