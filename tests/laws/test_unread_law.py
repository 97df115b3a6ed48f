"""Tokens that are fed from the device before the host has read them, as on a GPU: the laws hold all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

import pytest

from specdec_cli.decoding import draft
from specdec_cli.decoding.scores import History
from specdec_cli.models.session import Session
from tests.laws.cases import Case, make_case
from tests.laws.checks import Check, cloud_law, edge_law, reference_law
from tests.laws.conftest import Run
from tests.laws.test_edge_law import edge_case, sampled_case, sampled_law
from tests.laws.test_reference_law import gated_case, mixed_case
from tests.laws.test_sampling_law import sampled_case as sampled_pair
from tests.laws.tolerance import LawBroken, numbers

LAWS: Final = {
    "edge": (edge_case, edge_law),
    "edge, sampled": (sampled_case, sampled_law),
    "cloud": (lambda number: make_case(number, mode="lossless"), cloud_law),
    "reference": (gated_case, reference_law),
    "reference, everything": (mixed_case, reference_law),
    "sampling": (sampled_pair, reference_law),
}


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)


@pytest.mark.parametrize("name", LAWS)
def test_tokens_that_the_host_reads_later_are_the_same(law: Run, name: str) -> None:
    make, check = LAWS[name]
    fed = []
    with patch.object(Session, "step", lambda session, token, step=Session.step: fed.append(1) or step(session, token)):
        law(f"{name}, unread", map(make, numbers(400_000, 0.25)), check)
    assert fed


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
    with patch.object(History, "follow", lambda history, text, last=None: follow(history, text, None if last is None else last * 0)):
        yield


@pytest.mark.parametrize("error", [misfed, unfollowed])
def test_a_planted_error_breaks_a_law(error: object) -> None:
    def breaks(make: object, check: Check, number: int) -> bool:
        case: Case = make(number)  # type: ignore[operator]
        try:
            with error():  # type: ignore[operator]
                check(case)
        except LawBroken:
            return True
        return False

    assert any(breaks(*LAWS["reference"], number) for number in range(200_080, 200_180))
