"""Labels in the displays: a line among the totals, and only where they were asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.console.screens import shown
from tests.console.script import EN, ZH, Clip

LABELS = {"voice": "female", "rate": "fast", "pitch": "high", "range": None, "volume": "loud", "emotion": "angry"}


def labelled(clip: Clip, labels: dict[str, str | None]) -> Clip:
    *events, (finished, text) = clip.events
    return replace(clip, events=(*events, (finished, replace(text, labels=labels))))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("clip", [ZH, EN])
def test_the_classes_stand_among_the_totals(width: int, clip: Clip) -> None:
    screen = shown(labelled(clip, LABELS), width)
    assert max(map(cell_len, screen.lines)) <= width
    words = " ".join(screen.output.split())
    assert "voice female · rate fast" in words
    assert "range" not in words.split("labels", 1)[1].split("rounds")[0]


def test_without_labels_there_is_no_such_line() -> None:
    assert " labels " not in shown(EN, 100).output


def test_a_caption_that_says_nothing() -> None:
    assert "none found" in shown(labelled(EN, dict.fromkeys(LABELS)), 100).output
