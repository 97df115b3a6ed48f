"""The region of the live view that is redrawn, and that it leaves the terminal as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from specdec_cli.console.live import LiveView, Region
from specdec_cli.console.view import PlainView
from specdec_cli.errors import AudioContentError
from specdec_cli.models.download import Download
from specdec_cli.types import EventText, Round, Sent
from tests.console.screens import ESCAPE, Screen, play
from tests.console.script import EN, LONG, ZH


def drawn(screen: Screen, view: LiveView) -> str:
    """The lines of the region."""
    assert view._region is not None
    return "\n".join("".join(part.text for part in line) for line in screen.render_lines(view._region, pad=False))


@pytest.mark.parametrize("height", [3, 6, 10, 24, 50])
@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_the_redrawn_region_fits_the_terminal(width: int, height: int) -> None:
    region = Region(Screen(width, height), lambda: 0.0, "drafting")
    region.facts = ["1234 tokens", "cloud in 123 of 456 rounds"]
    for caption in ("", "说话人是女声，" * 200, LONG.caption):
        region.caption = Text(caption)
        screen = Screen(width, height)
        lines = screen.render_lines(region, pad=False)
        texts = ["".join(segment.text for segment in line) for line in lines]
        assert len(lines) <= max(height // 3, 1) + 3
        assert max(map(cell_len, texts)) < width
        if len(caption) > 500:
            assert caption[-4:].strip() in "".join(texts)


def test_finished_rounds_are_printed_once_and_the_region_is_erased() -> None:
    screen = Screen(100, 24, terminal=True)
    view = LiveView(screen)
    play(view, EN)
    view.close()
    for index in range(1, 11):
        assert sum(re.match(rf"\s+{index} ", line) is not None for line in screen.lines) == 1
    assert "\x1b[?25l" in screen.output
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")
    assert "drafting" in screen.output
    assert "drafting" not in screen.output[screen.output.rindex("the cloud verified") :]
    # The finished caption is printed after the region is gone.
    assert EN.caption[:40] in screen.output[screen.output.rindex("\x1b[?25h") :]


@pytest.mark.parametrize("width", [40, 60, 100, 160])
def test_a_block_in_flight_is_shown_until_its_verdict_is_there(width: int) -> None:
    screen = Screen(width, 24, terminal=True)
    view = LiveView(screen)
    view.started(EN.started)
    for event, text in EN.events[:4]:
        view.event(event, text)
    round_, pieces = EN.events[4]
    assert isinstance(round_, Round)
    view.event(Sent(round_.index, round_.draft_ids), EventText(pieces.draft_pieces, caption=pieces.caption))
    flown = drawn(screen, view)
    assert max(map(cell_len, flown.split("\n"))) < width
    assert flown.startswith(f"block {round_.index + 1}:")
    assert "in flight" in flown
    assert pieces.draft_pieces[0].strip() in flown
    assert "drafting ahead" in flown
    view.event(round_, pieces)
    assert "in flight" not in drawn(screen, view)
    view.close()


def test_a_failure_gives_the_terminal_back() -> None:
    screen = Screen(80, 24, terminal=True)
    view = LiveView(screen)
    view.started(ZH.started)
    view.failed("a.wav", AudioContentError("the recording is silent", hint="Record again."))
    assert screen.output.rindex("\x1b[?25h") < screen.output.index("the recording is silent")
    play(view, ZH)
    view.finished_all(1, 1)
    view.close()
    view.close()
    assert "✓ 1 captioned, 1 failed" in "\n".join(screen.lines)


def test_loading_is_told_with_its_time_even_in_the_middle_of_a_clip() -> None:
    ticks = iter(float(tick) for tick in range(10_000))
    screen = Screen(80, 24, terminal=True)
    view = LiveView(screen, clock=lambda: next(ticks))
    with view.loading("edge: reading weights"):
        pass
    view.started(ZH.started)
    with view.loading("cloud: reading weights"):
        pass
    view.event(*ZH.events[0])
    view.event(*ZH.events[1])
    view.close()
    assert "✓ loaded edge: reading weights" in "\n".join(screen.lines)
    assert "✓ loaded cloud: reading weights" in "\n".join(screen.lines)


def test_loading_that_fails_is_not_called_done() -> None:
    screen = Screen(80, 24, terminal=True)
    view = LiveView(screen)

    def load() -> None:
        with view.loading("edge: reading weights"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        load()
    assert "✓" not in screen.output
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")


OMNI = Download("acme/omni", 8_000_000_000, Path("/cache"), 50_000_000_000)
SIZE = "acme/omni: 8.0 GB of weights to download; 50.0 GB free in /cache"


def test_a_download_is_shown_as_a_bar_with_its_rate_and_kept_as_a_line() -> None:
    screen = Screen(120, 24, terminal=True)
    view = LiveView(screen, clock=iter(range(100_000)).__next__)
    with view.loading("edge: acme/omni") as watch:
        watch(OMNI, 0)
        watch(OMNI, 2_000_000_000)
        region = drawn(screen, view)
        assert "\u2501\u2501\u2501" in region
        assert "2.0 GB of 8.0 GB" in region
        assert "/s" in region
    found = " ".join(ESCAPE.sub(" ", screen.output).split())
    assert SIZE in found
    assert "\u2713 loaded edge: acme/omni" in found


def test_a_log_tells_how_far_a_download_is() -> None:
    screen = Screen(200, 24)
    with PlainView(screen, clock=iter(range(100_000)).__next__).loading("edge: acme/omni") as watch:
        for done in range(0, OMNI.bytes, OMNI.bytes // 40):
            watch(OMNI, done)
    assert screen.lines[:2] == ["loading edge: acme/omni ...", SIZE]
    assert screen.lines[2].startswith("800.0 MB of 8.0 GB, ")
    assert 4 < len(screen.lines) < 20
