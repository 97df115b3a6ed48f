"""What a person reads, at any width, with and without colour."""

from functools import partial

import pytest
from rich.cells import cell_len

from specdec_cli.console.pages import comparison_page, marked
from specdec_cli.console.tables import print_page
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.result import Comparison
from specdec_cli.labels import Lexicon
from tests.console.screens import COLOUR, Screen
from tests.evaluate.fabricate import failed, made

WORDS = {
    "en": ("A man speaks slowly in a low voice. He sounds sad.", "A man speaks quickly in a low voice. He sounds sad."),
    "zh": ("说话人是男声，语速较慢，音调偏低。听起来情绪悲伤。", "说话人是男声，语速较快，音调偏低。听起来情绪悲伤。"),
}


def page(language: str = "en", clips: int = 12) -> Comparison:
    runs = []
    for index in range(clips):
        for mode, ms in (("edge", 100), ("hybrid", 260), ("lossless", 380), ("cloud", 500)):
            text = WORDS[language][0 if mode in ("lossless", "cloud") or index % 3 else 1]
            asked = {"escalations": 1, "drafted": 5, "accepted": 4} if mode in ("hybrid", "lossless") else {}
            name = f"/a/rather/long/path/录音 {index:02d}.wav"
            runs.append(made(name, mode, text, ms=ms + index, language=language, **asked))
    return comparison([*runs, failed("broken [red].wav\x1b[31m", "edge")] if language == "en" else runs, Lexicon.read())


@pytest.fixture(scope="module")
def pages() -> dict[str, Comparison]:
    return {language: page(language) for language in WORDS}


def printed(comparison: Comparison, width: int, **options: bool | str) -> Screen:
    screen = Screen(width, **options)
    print_page(partial(comparison_page, comparison), screen)
    return screen


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [30, 60, 100, 220])
def test_it_fits_every_terminal_and_loses_nothing(pages, width, language):
    screen = printed(pages[language], width, terminal=True)
    assert max(map(cell_len, screen.lines)) <= min(width, 160)
    text = " ".join(" ".join(screen.lines).split())
    figures = (
        "time of all clips", "first token", "escalated", "same as cloud's", "of cloud-only's", "52%", "and 2 more",
    )  # fmt: skip
    for expected in (*figures, "edge", "hybrid", "lossless", "cloud"):
        assert expected in text


def test_signs_alone_tell_everything_without_colour(pages):
    for language, comparison_ in pages.items():
        colour = printed(comparison_, 100, terminal=True)
        plain = printed(comparison_, 100, terminal=True, no_color=True)
        assert COLOUR.search(colour.output)
        assert not COLOUR.search(plain.output)
        assert colour.lines == plain.lines
        assert {"en": "[quickly]", "zh": "较[快]"}[language] in "\n".join(plain.lines)


def test_control_characters_of_a_name_are_shown_and_not_obeyed(pages):
    screen = printed(pages["en"], 100, terminal=True)
    assert "1 recording left out" in screen.output
    assert "broken [red].wav\\x1b[31m" in screen.output
    assert "\x1b[31m is" not in screen.output


def test_modes_that_agree_share_a_caption(pages):
    lines = printed(pages["en"], 100, terminal=True, no_color=True).lines
    start = next(index for index, line in enumerate(lines) if "录音 00" in line)
    assert lines[start + 1] == " edge      A man speaks [quickly] in a low voice. He sounds sad."
    assert lines[start + 2].strip() == "hybrid"
    assert lines[start + 3] == " lossless  A man speaks slowly in a low voice. He sounds sad."
    assert lines[start + 4].strip() == "cloud"


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
