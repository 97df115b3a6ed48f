"""The mistakes that can be planted: each has its place still, and one that is planted is found."""

import sys

import pytest

from tools import mutate

MISTAKES = mutate.mistakes()
MOST_ACCEPTED = 2


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_can_be_planted_at_one_place_and_has_its_tests(mistake):
    assert (mutate.ROOT / "specdec_cli" / mistake.path).read_text("utf-8").count(mistake.text) == 1
    assert mistake.instead != mistake.text
    assert mistake.tests
    assert all((mutate.ROOT / name).exists() for name in mistake.tests)


def test_names_are_single_and_few_mistakes_are_accepted():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 40
    assert sum(bool(mistake.accepted) for mistake in MISTAKES) <= MOST_ACCEPTED


@pytest.mark.slow
def test_a_mistake_is_found_and_one_that_is_none_survives(monkeypatch, capsys):
    first = next(mistake for mistake in MISTAKES if mistake.tests == ("tests/test_targets.py",))  # a quick one
    none = first._replace(name="none", instead=first.text)
    monkeypatch.setattr(mutate, "mistakes", lambda: [first._replace(name="one"), none])
    monkeypatch.setattr(sys, "argv", ["mutate"])
    assert mutate.main() == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["found     one", "survives  none"]
