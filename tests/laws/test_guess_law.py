"""Guess law: guesses save forwards where they are right, and change no text whatever they are.

Every other law runs with memories that are empty, right, wrong and another model's (`Case.remember`); this one says
that the right one saves what it should, so that those laws are about guesses that stand and guesses that fall.
"""

from typing import Any

from specdec_cli.types import Finished
from tests.laws.cases import MEMORIES, Case, make_case
from tests.laws.reference import assert_rounds
from tests.laws.tolerance import ENOUGH, LawBroken, cases, numbers

MODES = ("edge", "cloud", "hybrid", "lossless")
MOST = 64


def guess_case(number: int, **fixed: Any) -> Case:
    """A clip of any mode, in which a model may write on alone."""
    mode, most, temperature = MODES[number // 4 % 4], (MOST, 1, 3)[number % 3], (0.0, 0.0, 0.8)[number % 3]
    return make_case(number, mode=mode, loop_period=0, guess_tokens=most, temperature=temperature, **fixed)


def guess_law(case: Case) -> str | None:
    """The rounds are the reference's, and those of the same clip without guesses; a right memory saves forwards."""
    _, without = case.but(guess_tokens=0).run()
    rounds, finished = case.remember().run()
    how = assert_rounds(case, rounds, finished)
    if how is None and finished.token_ids != without.token_ids:
        raise LawBroken(f"case {case.number}: {finished.token_ids} with guesses, {without.token_ids} without")
    right = MEMORIES[case.number % len(MEMORIES)] == "right"
    if right and case.given["mode"] in ("edge", "cloud") and not case.given["temperature"]:
        most = len(finished.token_ids) - kept(finished)
        if forwards(finished) > most or (case.given["guess_tokens"] == MOST and forwards(finished) > 1 + most // 2):
            raise LawBroken(f"case {case.number}: {forwards(finished)} forwards with {kept(finished)} kept")
    return how


def forwards(finished: Finished) -> int:
    """Of both models."""
    return sum(work.forwards for work in (finished.edge, finished.cloud) if work is not None)


def guessed(finished: Finished) -> int:
    """Tokens, by both models."""
    return sum(work.guessed for work in (finished.edge, finished.cloud) if work is not None)


def kept(finished: Finished) -> int:
    """Those of them that stood."""
    return sum(work.guesses_kept for work in (finished.edge, finished.cloud) if work is not None)


def test_guesses_change_no_text_and_save_forwards(law):
    ran = law("guess", map(guess_case, numbers(140_000, 0.5)), guess_law)
    if cases() < ENOUGH:
        return
    for number, memory in enumerate(MEMORIES):
        found = [case.ran[-1][1] for case in ran if case.number % len(MEMORIES) == number]
        tried, stood = sum(map(guessed, found)), sum(map(kept, found))
        assert tried > (0 if memory == "empty" else 20), memory
        assert (2 * stood > tried) == (memory == "right"), memory
