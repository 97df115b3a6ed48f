"""Which lines of a recording stand, worked out at once and one by one."""

from __future__ import annotations

import random

from specdec_cli.batch.lines import Mark, last_standing, standing


def test_at_once_as_one_by_one() -> None:
    for case in range(2000):
        rng = random.Random(case)
        numbered, whole = rng.random() < 0.5, rng.random() < 0.2
        marks = [_mark(rng, offset, numbered, whole) for offset in range(rng.randint(1, 5))]
        found: tuple[Mark, ...] = ()
        for mark in marks:
            found = standing(found, mark)
        assert last_standing(marks) == found, marks


def _mark(rng: random.Random, offset: int, numbered: bool, whole: bool) -> Mark:
    """A segment of the kind that most runs write, now and then another."""
    piece = rng.choice([offset, offset, offset, rng.randint(0, 3)])
    start = float(piece if rng.random() < 0.9 else rng.randint(0, 3))
    place = None if whole and rng.random() < 0.5 else (start, start + 1)
    return Mark(
        offset,
        rng.random() < 0.8,
        rng.choice(["a", "a", "a", "b", None]) if rng.random() < 0.2 else "a",
        place,
        piece if numbered and place else None,
        (4 if rng.random() < 0.9 else 5) if numbered and place else None,
    )
