"""What was drafted after a corrected token: one forward scores it there, and the draft is the one made anew."""

from __future__ import annotations

import pytest

from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.draft import Drafter
from specdec_cli.decoding.gate import Gate
from specdec_cli.models.session import Session
from tests.mini_pair import captioner, voice

K = 12


def drafter(**settings: object) -> Drafter:
    edge = captioner(decoding__mode="edge")
    prompt, _ = edge.prompts(voice(1), edge.setup.prompt)
    assert edge.pair.edge is not None
    assert prompt is not None
    return Drafter(Session(edge.pair.edge, prompt, 80), DecodingConfig(mode="edge", **settings), ())


@pytest.mark.parametrize("at", [1, 5, K - 2, K - 1])
def test_the_draft_after_a_correction_is_the_one_made_anew(at: int) -> None:
    old, new = drafter(), drafter()
    gate = Gate("entropy", 1.0)
    block = old.propose((), K, gate.open(0)).ids
    text = (*block[:at], block[at] + 1)
    before = old.work.forwards
    again, anew = old.propose(text, K, gate.open(len(text))), new.propose(text, K, gate.open(len(text)))
    assert again.ids == anew.ids
    assert again.figures == pytest.approx(anew.figures, abs=1e-3)
    assert old.work.forwards - before <= new.work.forwards
    assert len(old.session.fed) <= len(text) + K


def test_a_tail_that_stands_costs_one_forward() -> None:
    """After a correction by the edge's own choice all of the tail stands."""
    old, gate = drafter(), Gate("entropy", 1.0)
    block = old.propose((), K, gate.open(0)).ids
    old._drafted = (*block[:4], block[4] + 1, *block[5:])
    before = old.work.forwards
    again = old.propose(block[:5], K - 5, gate.open(5))
    assert again.ids == block[5:]
    assert old.work.forwards - before == 1


def test_sampling_draws_every_token_anew() -> None:
    old, gate = drafter(temperature=0.8), Gate("entropy", 1.0)
    block = old.propose((), 6, gate.open(0)).ids
    text = (*block[:2], block[2] + 1)
    before = old.work.forwards
    again = old.propose(text, 6, gate.open(3))
    assert old.work.forwards - before == len(again.ids)
