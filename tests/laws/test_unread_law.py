"""Tokens that are fed from the device before the host has read them, as on a GPU: the laws hold all the same."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

import pytest
import torch

from specdec_cli.decoding import draft, rows
from specdec_cli.decoding.scores import History
from specdec_cli.models.session import Session
from tests.laws.cases import Case, make_case
from tests.laws.checks import Check, cloud_law, edge_law, reference_law
from tests.laws.test_edge_law import edge_case, sampled_case, sampled_law
from tests.laws.test_reference_law import gated_case, mixed_case
from tests.laws.test_sampling_law import sampled_case as sampled_pair
from tests.laws.tolerance import LawBroken, numbers
from tests.tiers import named

LAWS: Final[dict[str, tuple[Callable[[int], Case], Check]]] = {
    "edge": (edge_case, edge_law),
    "edge, sampled": (sampled_case, sampled_law),
    "cloud": (lambda number: make_case(number, mode="lossless"), cloud_law),
    "reference": (gated_case, reference_law),
    "reference, everything": (mixed_case, reference_law),
    "sampling": (sampled_pair, reference_law),
}


@pytest.fixture(autouse=True)
def unread(monkeypatch) -> None:
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)


@pytest.mark.parametrize("name", named(LAWS, "edge", "reference, everything"))
def test_tokens_that_the_host_reads_later_are_the_same(law, name):
    make, check = LAWS[name]
    with patch.object(Session, "step", autospec=True, side_effect=Session.step) as step:
        law(f"{name}, unread", map(make, numbers(400_000, 0.25)), check)
    assert step.called


@pytest.mark.parametrize("name", named(LAWS, "edge, sampled", "reference, everything"))
def test_tokens_that_are_chosen_by_their_own_evidence_are_the_same(law, name, monkeypatch):
    """As on a CPU with a large vocabulary, where each row is read by itself."""
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 1)
    monkeypatch.setattr(rows, "_LARGE", 0)
    make, check = LAWS[name]
    law(f"{name}, row by row", map(make, numbers(500_000, 0.25)), check)


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
def test_a_planted_error_breaks_a_law(error):
    for case in map(gated_case, range(200_080, 200_180)):
        try:
            with error():
                reference_law(case)
        except LawBroken:
            return
    pytest.fail("no case of the law finds it")
