"""All laws beside a sound, which bans tokens in the pipeline of both models: none of them may notice it.

The reference of what it bans (`sound.py`) is a processor of `generate()` as well. Tokens read as pieces of claims.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest

from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.labels.class_words import ClassWords, Naming, class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.prompts import Language
from specdec_cli.types import Candidates
from tests.laws.cases import Case, make_case
from tests.laws.checks import Check, cloud_law, edge_law, reference_law
from tests.laws.test_batch_law import batch_law, batch_of
from tests.laws.test_cloud_law import lossless_case
from tests.laws.test_edge_law import edge_case, sampled_law
from tests.laws.test_edge_law import sampled_case as sampled_edge_case
from tests.laws.test_guess_law import guess_case, guess_law
from tests.laws.test_reference_law import gated_case, mixed_case
from tests.laws.test_sampling_law import sampled_case
from tests.laws.tolerance import ENOUGH, LawBroken, cases, most_parting, numbers
from tests.tiers import named, slow

LAWS: Final[dict[str, tuple[Callable[[int], Case], Check]]] = {
    "edge": (edge_case, edge_law),
    "edge, sampled": (sampled_edge_case, sampled_law),
    "cloud": (lossless_case, cloud_law),
    "cloud, alone": (lambda number: make_case(number, mode="cloud"), cloud_law),
    "reference": (gated_case, reference_law),
    "reference, everything": (mixed_case, reference_law),
    "sampling": (sampled_case, reference_law),
    "guess": (guess_case, guess_law),
}


@pytest.mark.parametrize("name", named(LAWS, "edge", "cloud", "reference"))
def test_the_laws_hold_beside_a_sound(law, name):
    make, check = LAWS[name]
    ran = law(f"sound, {name}", (make(number).heard() for number in numbers(600_000, 0.25)), check)
    if cases() >= ENOUGH:
        tokens = [token for case in ran for rounds, _ in case.ran for round_ in rounds for token in round_.tokens]
        assert sum(token.instead is not None for token in tokens) > len(tokens) / 50


@pytest.mark.slow
def test_a_batch_beside_sounds():
    clips, parted = 0, list[str]()
    for number in range(970, 980):
        batch = [case.heard() for case in batch_of(number)]
        parted += batch_law(batch, random.Random(number).randint(2, len(batch)))
        clips += len(batch)
        if clips >= cases(0.1):
            break
    assert len(parted) <= most_parting(clips), parted


@contextmanager
def banned_noun() -> Iterator[None]:
    """Judges what follows a word for that word: its noun."""
    naming = ClassWords._naming

    def wrong(words: ClassWords, text: tuple[int, ...], token: int, language: Language) -> Naming:
        found = naming(words, text, token, language)
        return naming(words, text[:-1], text[-1], language) if text and not found else found

    with patch.object(ClassWords, "_naming", wrong):
        yield


@contextmanager
def stale_history() -> Iterator[None]:
    """Judges a row by the history of the row before it."""
    banned = Grounding.banned

    def wrong(sound: Grounding, text: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        return banned(sound, text[:-1], likeliest)

    with patch.object(Grounding, "banned", wrong):
        yield


@contextmanager
def row_behind_a_guess() -> Iterator[None]:
    """Takes new rows for judged ones, where rows behind a guess were."""
    keep = NextScores._keep

    def wrong(scores: NextScores, *given: Any) -> None:
        judged = scores._judged
        keep(scores, *given)
        scores._judged = min(judged, len(scores._rows))

    with patch.object(NextScores, "_keep", wrong):
        yield


@contextmanager
def ban_of_the_edge() -> Iterator[None]:
    """Applies to the cloud what was banned for the edge after the same text."""
    banned, known = Grounding.banned, dict[tuple[int, ...], frozenset[int]]()

    def wrong(sound: Grounding, text: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        return known.setdefault(tuple(text), banned(sound, text, likeliest))

    with patch.object(Grounding, "banned", wrong):
        yield


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("edge", banned_noun),
        ("edge", stale_history),
        ("guess", row_behind_a_guess),
        ("reference", ban_of_the_edge),
        slow(("cloud", banned_noun)),
        slow(("reference, everything", stale_history)),
        slow(("cloud", ban_of_the_edge)),
    ],
)
def test_a_planted_error_breaks_a_law(name: str, error: Callable[[], AbstractContextManager[None]]):
    make, check = LAWS[name]
    for number in range(600_000, 600_100):
        class_words.cache_clear()
        with error():
            try:
                check(make(number).heard())
            except LawBroken:
                return
    pytest.fail("no case of the law finds it")
