"""The laws, each in every way in which a pair can be run: none of them may notice it.

plain: as a user runs it. unread: tokens are fed from the device before the host has read them, as on a GPU.
row_by_row: each row is read by itself, as with a large vocabulary on a CPU. heard: beside a sound, which bans tokens in
the pipeline of both models; its reference is a processor of `generate()` as well.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest
import torch

from specdec_cli.decoding import draft, rows
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.scores import History
from specdec_cli.labels.class_words import ClassWords, Naming, class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.session import Session
from specdec_cli.prompts import Language
from specdec_cli.types import Candidates
from tests.laws import occur
from tests.laws.registry import LAWS
from tests.laws.tolerance import ENOUGH, LawBroken, cases, numbers
from tests.support.models import DEVICE
from tests.tiers import named, slow

_ON_CPU: Final = {
    "edge, sampled": "generate() draws on the GPU, where a seed gives other numbers",
    "edge, packed": "specdec packs weights for CPUs alone",
}
_READ_LATER: Final = ("edge", "edge, sampled", "cloud", "reference", "reference, everything", "sampling")
_HEARD: Final = (*_READ_LATER, "cloud, alone", "guess")


@pytest.mark.parametrize("name", LAWS)
def test_plain(law, name):
    if name in _ON_CPU and DEVICE != "cpu":
        pytest.skip(_ON_CPU[name])
    make, check, first, share, must_occur = LAWS[name]
    ran = law(name, map(make, numbers(first, share)), check)
    if must_occur is not None and cases() >= ENOUGH:
        must_occur(ran)


@pytest.mark.parametrize("name", named(_READ_LATER, "edge", "reference, everything"))
def test_unread(law, name, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)
    with patch.object(Session, "step", autospec=True, side_effect=Session.step) as step:
        law(f"{name}, unread", map(LAWS[name].make, numbers(400_000, 0.25)), LAWS[name].check)
    assert step.called


@pytest.mark.parametrize("name", named(_READ_LATER, "edge, sampled", "reference, everything"))
def test_row_by_row(law, name, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 1)
    monkeypatch.setattr(rows, "_LARGE", 0)
    law(f"{name}, row by row", map(LAWS[name].make, numbers(500_000, 0.25)), LAWS[name].check)


@pytest.mark.parametrize("name", named(_HEARD, "edge", "cloud", "reference"))
def test_heard(law, name):
    make, check, *_ = LAWS[name]
    ran = law(f"sound, {name}", (make(number).heard() for number in numbers(600_000, 0.25)), check)
    if cases() >= ENOUGH:
        occur.bans(ran)


@contextmanager
def misfed() -> Iterator[None]:
    """Feeds the model another token than the one that was chosen."""
    step = Session.step
    with patch.object(Session, "step", lambda session, token: step(session, token ^ 1)):
        yield


@contextmanager
def unfollowed() -> Iterator[None]:
    """Leaves what only the device knows out of the history that penalties read."""
    follow = History.follow

    def wrong(history: History, text: Sequence[int], last: torch.Tensor | None = None) -> None:
        follow(history, text, None if last is None else last * 0)

    with patch.object(History, "follow", wrong):
        yield


@pytest.mark.parametrize("error", [misfed, unfollowed])
def test_an_error_planted_in_unread_tokens_breaks_a_law(error, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)
    make, check, *_ = LAWS["reference"]
    for case in map(make, range(200_080, 200_180)):
        try:
            with error():
                check(case)
        except LawBroken:
            return
    pytest.fail("no case of the law finds it")


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
def test_an_error_planted_in_the_sound_breaks_a_law(name: str, error: Callable[[], AbstractContextManager[None]]):
    make, check, *_ = LAWS[name]
    for number in range(600_000, 600_100):
        class_words.cache_clear()
        with error():
            try:
                check(make(number).heard())
            except LawBroken:
                return
    pytest.fail("no case of the law finds it")
