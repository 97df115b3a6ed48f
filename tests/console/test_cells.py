from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from specdec_cli.console.cells import clean, fit, fit_end, hanging, padded, paragraph, wrap

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
def test_clean_leaves_nothing_that_a_terminal_obeys(raw: str, safe: str) -> None:
    assert clean(raw) == safe
    assert clean(raw).isprintable()


def test_a_paragraph_has_single_spaces() -> None:
    assert paragraph("  one\n\n two\t三 ") == "one two 三"


@pytest.mark.parametrize("width", range(2, 90))
def test_wrapped_lines_fit_and_lose_nothing(width: int) -> None:
    lines = wrap(Text(MIXED), width)
    assert all(line.cell_len <= width for line in lines)
    assert "".join(line.plain for line in lines).replace(" ", "") == MIXED.replace(" ", "")


def test_chinese_lines_do_not_begin_with_a_comma() -> None:
    for width in range(6, 40):
        assert not any(line.plain.startswith(("，", "。", "）")) for line in wrap(Text(MIXED), width))
        assert not any(line.plain.endswith("（") for line in wrap(Text(MIXED), width))


def test_a_joint_keeps_tokens_whole() -> None:
    assert [line.plain for line in wrap(Text("✓说话|人 ✗情绪平静|。"), 11, joint="|")] == [
        "✓说话|人",
        "✗情绪平静|",
        "。",
    ]


@pytest.mark.parametrize("width", range(12))
def test_fitting_counts_cells(width: int) -> None:
    for cut in (fit("女声 a.wav", width, "…"), fit_end("女声 a.wav", width, "…"), fit("女声 a.wav", width, "...")):
        assert cell_len(cut) <= max(width, 0)


def test_a_path_keeps_its_end() -> None:
    assert fit_end("/a/very/long/path/女声.wav", 10, "…") == "…/女声.wav"


def test_columns_align_under_wide_characters() -> None:
    assert padded(Text("女声"), 6).plain == "女声  "
    assert [line.plain for line in hanging(Text("词"), Text("一二三四"), 4, 8)] == ["词  一二", "    三四"]
