import pytest
from rich.text import Text

from specdec_cli.console.cells import Prose, wrap
from specdec_cli.console.pages import marked
from specdec_cli.text import clean
from tests.console.screens import Screen

MIXED = "The speaker 说话人是女声，语速较快，supercalifragilistic 音调偏高（起伏明显）。 End."


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("plain", "plain"),
        ("女声", "女声"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\tb\nc\rd", "a b c d"),
        ("\u202egnp.wav", "\\u202egnp.wav"),
        ("bad\udcff.wav", "bad\\udcff.wav"),
        ("bell\x07\x9b2J", "bell\\x07\\x9b2J"),
        ("line\u2028break", "line break"),
    ],
)
def test_clean_leaves_nothing_that_a_terminal_obeys(raw, safe):
    assert clean(raw) == safe
    assert clean(raw).isprintable()


@pytest.mark.parametrize("width", range(2, 90))
def test_wrapped_lines_fit_and_lose_nothing(width):
    lines = wrap(Text(MIXED), width)
    assert all(line.cell_len <= width for line in lines)
    assert "".join(line.plain for line in lines).replace(" ", "") == MIXED.replace(" ", "")
    if width >= 6:
        assert not any(line.plain.startswith(("，", "。", "）")) or line.plain.endswith("（") for line in lines)


def test_prose_aligns_under_wide_characters_and_ends_no_line_in_spaces():
    screen = Screen(8)
    screen.print(Prose(Text("一二三四"), Text("词\n典"), 4))
    assert screen.lines == ["词  一二", "典  三四", ""]


@pytest.mark.parametrize(
    ("caption", "base", "expected"),
    [
        ("He sounds sad.", "He sounds sad.", "He sounds sad."),
        ("He sounds happy.", "He sounds sad.", "He sounds [happy]."),
        ("He sounds.", "He sounds very sad.", "He sounds[^]."),
        ("语速较快，音调偏低。", "语速较慢，音调偏低。", "语速较[快]，音调偏低。"),
        ("音调偏低。", "语速较慢，音调偏低。", "[^]音调偏低。"),
        ("He sounds sad.", "", "[He sounds sad.]"),
    ],
)
def test_differences_are_marked(caption, base, expected):
    assert marked(caption, base).plain == expected
