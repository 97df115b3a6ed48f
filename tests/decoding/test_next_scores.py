"""The rows of one clip: a guess counts as standing only where the model's own choice was compared with it."""

import pytest
import torch

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.decoding.guesses import Guesses, GuessTable
from specdec_cli.decoding.length import GuessCosts
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.errors import DecodingError
from specdec_cli.models.selftest import _prompt
from specdec_cli.models.session import UNREAD, Session
from tests.tiny import tiny_model

LEARNT = (40, 41, 42, 43, 44, 45, 46, 47, 48)


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """How many guesses were counted as standing, whenever any were counted."""
    found: list[int] = []
    monkeypatch.setattr(GuessCosts, "learn", lambda _costs, _expected, stood: found.append(stood))
    return found


@pytest.fixture
def scores() -> NextScores:
    """Rows that have guessed tokens after the beginning of a caption."""
    model, table = tiny_model(1), GuessTable()
    for _ in range(4):
        table.learn(0, LEARNT, [True] * len(LEARNT))
    session = Session(model, _prompt(model, 0.5), 40)
    made = NextScores(session, ScoringConfig(), (), Guesses(table, 0, 4, 30, GuessCosts()))
    made.after(())  # the prompt
    made.after(LEARNT[:1])
    assert made.guessed > 0
    return made


def test_guesses_do_not_stand_because_their_scores_are_not_finite(scores, counted):
    scores._logits = torch.full_like(scores._logits, torch.nan)
    with pytest.raises(DecodingError, match="not finite"):
        scores.choice(LEARNT[:1])
    scores.after(LEARNT[:2])
    assert counted == []


def test_guesses_do_not_stand_because_the_device_went_on_without_them(scores, counted):
    other = 99  # the model's own choice, which the host reads later
    with torch.inference_mode():
        scores.step([LEARNT[0], UNREAD], torch.tensor([other]))
    scores.name([other])
    scores.after((LEARNT[0], other, LEARNT[0]))
    assert counted == [1]  # the first of four
