"""The memory of captions: what it guesses, what it forgets, and that it says what came next, not what came after."""

import random
from dataclasses import replace

import pytest
import torch

from specdec_cli.captioner import Captioner
from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.decoding.guesses import SLOTS, Guesses, GuessTable, key_of
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.errors import DecodingError
from specdec_cli.models.selftest import _prompt
from specdec_cli.models.session import UNREAD, Session
from specdec_cli.transcript.round import Round
from tests.mini_pair import RATE, captioner, voice
from tests.support.models import tiny_model

TEXT = (5, 9, 4, 9, 7, 5, 9, 8)
ALL = [True] * len(TEXT)


def test_a_caption_is_guessed_from_any_place_of_it():
    table = GuessTable()
    for _ in range(4):
        table.learn(1, TEXT, ALL)
    for at in range(len(TEXT)):
        assert table.guess(1, TEXT[:at], 3) == TEXT[at : at + 3], at
    assert table.guess(1, (2, 2), 3) == ()
    assert table.guess(2, TEXT[:2], 3) == (), "another model's"


def test_the_longest_context_decides_and_the_latest_captions_count_most():
    table = GuessTable()
    for text in ((1, 2, 3), (6, 2, 4), *[(6, 2, 4)] * 5):
        table.learn(0, text, [True] * 3)
    assert table.guess(0, (1, 2), 1) == (3,)
    assert table.guess(0, (9, 2), 1) == (4,)
    for _ in range(12):
        table.learn(0, (6, 2, 8), [True] * 3)
    assert table.guess(0, (9, 2), 1) == (8,)


def test_a_guess_ends_where_it_costs_more_than_it_gains():
    table, rng = GuessTable(), random.Random(0)
    for _ in range(300):
        text = [rng.randrange(4) for _ in range(12)]
        table.learn(0, text, [True] * 12)
    assert len(table.guess(0, (1, 2), 64)) < 5
    for _ in range(30):
        table.learn(1, TEXT, ALL)
    assert len(table.guess(1, (), 64)) == len(TEXT)


def test_only_a_models_own_tokens_are_learnt():
    table = GuessTable()
    table.learn(0, TEXT, [True, True, False, *ALL[3:]])
    assert table.guess(0, TEXT[:1], 1) == TEXT[1:2]
    assert table.guess(0, TEXT[:2], 1) != TEXT[2:3]


def test_the_memory_is_bounded_and_old_captions_make_room():
    table, rng = GuessTable(1 << 10), random.Random(1)
    parts = (table._checks, table._tokens, table._hits, table._counts)
    size = sum(len(part) * part.itemsize for part in parts)
    for _ in range(300):
        latest = [rng.randrange(10**6) for _ in range(20)]
        table.learn(0, latest, [True] * 20)
    assert sum(len(part) * part.itemsize for part in parts) == size
    assert size * (SLOTS >> 10) < 2.2e6
    right = sum(table.guess(0, latest[:at], 1) == (latest[at],) for at in range(20))
    assert right > 10


def test_a_key_tells_models_and_instructions_apart_but_not_lengths():
    assert key_of("w", "edge", (1, 7, 7, 7, 2)) == key_of("w", "edge", (1, 7, 2))
    others = (("w", "edge", (1,)), ("v", "edge", (1,)), ("w", "cloud", (1,)), ("w", "edge", (2,)))
    assert len({key_of(*other) for other in others}) == len(others)
    assert key_of(None, "edge", ("Describe.", None)) == 14436244280682848406, "Python's own hash is of one process"


# --- the rows of one clip: a guess counts as standing only where the model's own choice was compared with it ---


LEARNT = (40, 41, 42, 43, 44, 45, 46, 47, 48)


@pytest.fixture
def scores() -> NextScores:
    """Rows that have guessed tokens after the beginning of a caption."""
    model, table = tiny_model(1), GuessTable()
    for _ in range(4):
        table.learn(0, LEARNT, [True] * len(LEARNT))
    session = Session(model, _prompt(model, 0.5), 40)
    made = NextScores(session, ScoringConfig(), (), Guesses(table, 0, 4, 30))
    made.after(())  # the prompt
    made.after(LEARNT[:1])
    assert (session.work.guessed, session.work.guesses_kept) == (4, 1)
    return made


def test_guesses_do_not_stand_because_their_scores_are_not_finite(scores):
    scores._rows = torch.full_like(scores._rows, torch.nan)
    with pytest.raises(DecodingError, match="not finite"):
        scores.row(LEARNT[:1])
    scores.after(LEARNT[:2])
    assert scores.session.work.guesses_kept == 1


def test_guesses_do_not_stand_because_the_device_went_on_without_them(scores):
    other = 99  # the model's own choice, which the host reads later
    with torch.inference_mode():
        scores.step([LEARNT[0], UNREAD], torch.tensor([other]))
    scores.fill_in([other])
    scores.after((LEARNT[0], other, LEARNT[0]))
    assert scores.session.work.guesses_kept == 1  # the first of four


def test_only_a_finished_caption_is_learnt():
    models = captioner(decoding__mode="hybrid", decoding__guess_tokens=8)
    models = Captioner(models.config, replace(models.pair, guess_table=GuessTable()))
    updates = models.run_samples(voice(3), RATE).updates()
    assert any(isinstance(update.event, Round) for update in updates)
    updates.close()
    assert not models.pair.guess_table.learnt
    models.run_samples(voice(3), RATE).finish()
    assert models.pair.guess_table.learnt
