"""The sweep: which clips it takes, and how it counts."""

from __future__ import annotations

from collections import Counter

import pytest

from specdec_cli.types import Finished, ModelWork, Round
from training.labels import Measures, Row
from training.scoring import Scored
from training.sweep import Setting, Tally, balanced, settings


def _row(corpus: str, speaker: str, number: int) -> Row:
    classes = {"emotion": "happy", "voice": "female"}
    return Row(f"{number}.flac", corpus, "en", speaker, "happiness", 1.0, "", "", "happiness", 1.0, Measures(), classes)


def test_corpora_come_in_equal_parts_and_only_dev_speakers() -> None:
    rows = [_row("ravdess", "ravdess_19", n) for n in range(50)]
    rows += [_row("ravdess", "ravdess_01", n) for n in range(50)]
    rows += [_row("cremad", "cremad_1006", n) for n in range(90)]
    rows += [_row("nemo", "nemo_TP0", n) for n in range(90)]
    rows += [_row("emodb", "emodb_14", n) for n in range(10)]
    chosen = balanced(rows, 100, seed=0)
    assert Counter(row.corpus for row in chosen) == {"emodb": 10, "ravdess": 30, "cremad": 30, "nemo": 30}
    assert {row.speaker for row in chosen} <= {"ravdess_19", "cremad_1006", "nemo_TP0", "emodb_14"}
    assert balanced(rows, 100, seed=0) == chosen != balanced(rows, 100, seed=1)


def test_figures_are_what_was_counted() -> None:
    tally = Tally()
    work = ModelWork(encoder_passes=1, forwards=5, encoder_ms=10.0, prefill_ms=5.0, step_ms=8.0)
    kept = Round(0, (1, 2), (0.1, 0.1), (0.1, 0.1), False, None, 2, (1, 2), ("edge", "edge"), 1.0, None)
    asked = Round(
        1, (3, 4), (2.0, 0.1), (2.0, 0.1), True, "entropy", 1, (3, 5), ("accepted", "corrected"), 1.0, 2.0
    )  # fmt: skip
    tally.add([kept, asked], Finished((1, 2, 3, 5), "eos", work, None, 10.0, 40.0))
    text = "The speaker has a female voice, speaking at a slow pace. The emotion sounds happy."
    tally.scored.append(Scored(_row("ravdess", "ravdess_19", 0), "en", "default", text))
    figures = tally.figures()
    assert figures["escalation_rate"] == 50.0
    assert figures["acceptance_rate"] == 50.0
    assert figures["edge_token_share"] == 75.0
    assert figures["wall_over_forwards"] == pytest.approx(40 / 23, abs=1e-3)
    assert figures["edge_step_ms"] == 2.0
    assert figures["cloud_pass_ms"] is None
    assert figures["tokens_per_s"] == 100.0
    assert figures["emotion_mean"] == 100.0
    assert figures["prosody"]["voice"] == 100.0


def test_baselines_come_first() -> None:
    over = settings(["entropy:0.5", "learned:0.2:stop"], [3, 5])
    assert over[:2] == [Setting("edge"), Setting("cloud")]
    assert len(over) == 2 + 2 + 4
    assert len({setting.label for setting in over}) == len(over)
    assert over[-1] == Setting("hybrid", "learned", 0.2, 5, stop_drafting=True)
    with pytest.raises(ValueError, match="no gate"):
        settings(["entropie:0.5"], [3])
