"""Captions against another model's."""

from __future__ import annotations

import pytest

from specdec_cli.metrics import agreement
from specdec_cli.metrics.text import chrf


def test_by_hand() -> None:
    found = agreement(
        ["a male voice", "a fast pace"],
        ["a male voice", "a slow pace"],
        [[1, 2, 3], [1, 4, 5, 9]],
        [[1, 2, 3], [1, 7, 5]],
    )
    assert found.exact == 0.5
    assert found.edit_distance == 1.0  # 0, and one replaced and one deleted
    assert found.edit_distance_normalised == 0.25  # 0, and 2 of 4
    assert found.chrf == chrf(["a male voice", "a fast pace"], [["a male voice"], ["a slow pace"]])
    assert found.clips == 2


def test_the_same_captions_agree_wholly_also_empty_ones() -> None:
    found = agreement(["语速较快", ""], ["语速较快", ""], [[1], []], [[1], []])
    assert (found.exact, found.edit_distance, found.edit_distance_normalised) == (1, 0, 0)


def test_edit_distance_is_symmetric_and_bounded() -> None:
    one, other = [[5, 6, 7, 8, 9]], [[6, 7, 9, 9, 9, 1]]
    there, back = agreement(["x"], ["y"], one, other), agreement(["y"], ["x"], other, one)
    assert there.edit_distance == back.edit_distance == 4
    assert agreement(["x"], ["y"], [[1, 2]], [[3]]).edit_distance_normalised == 1


@pytest.mark.parametrize(
    "lists", [([], [], [], []), (["a"], [], [[1]], [[1]]), (["a"], ["a"], [], [[1]]), (["a"], ["a"], [[1]], [])]
)
def test_lists_that_do_not_pair_up_are_refused(
    lists: tuple[list[str], list[str], list[list[int]], list[list[int]]],
) -> None:
    with pytest.raises(ValueError, match="same clips"):
        agreement(*lists)
