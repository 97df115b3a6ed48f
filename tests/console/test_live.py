"""What the live view redraws, the line of a run and the bar of a batch, and that it leaves the terminal as it was."""

import dataclasses
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from specdec_cli.captioning.tasks import Progress
from specdec_cli.console.progress import show_counts, show_totals
from specdec_cli.console.view import View
from specdec_cli.errors import AudioContentError
from specdec_cli.transcript.updates import EventText, Update
from specdec_cli.types import Sent
from tests.console.scenes import busy
from tests.console.screens import ESCAPE, Screen, play, viewed
from tests.console.script import EN, LONG, ZH


def drawn(screen: Screen, view: View) -> str:
    """The line that is redrawn."""
    return "\n".join(
        "".join(part.text for part in line) for line in screen.render_lines(view.status.render(), pad=False)
    )


@pytest.mark.parametrize("width", [10, 40, 60, 100, 200])
def test_what_is_redrawn_fits_on_one_line(width):
    screen, view = viewed(width, "live")
    play(view, dataclasses.replace(LONG, events=LONG.events[:-1]))
    view.show(Update(Sent(9, (1, 2)), EventText()))
    line = drawn(screen, view)
    view.close()
    assert "\n" not in line
    assert cell_len(line) < width
    assert ("waiting for the cloud" in line) == (width > 10)


def test_finished_rounds_are_printed_once_and_the_region_is_erased():
    screen, view = viewed(100, "live")
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


def test_a_failure_gives_the_terminal_back():
    screen, view = viewed(80, "live")
    play(view, ZH, 1)
    view.failed("a.wav", AudioContentError("the recording is silent", hint="Record again."))
    assert screen.output.rindex("\x1b[?25h") < screen.output.index("the recording is silent")
    play(view, ZH)
    show_totals(view, Progress(captioned=1, failed=1), None)
    view.close()
    view.close()
    assert "✓ 1 captioned  1 failed" in "\n".join(screen.lines)


def test_loading_that_fails_is_not_called_done():
    screen, view = viewed(80, "live")

    def load() -> None:
        with view.loading("edge: reading weights"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        load()
    assert "✓" not in screen.output
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")


def test_the_screen_is_left_to_the_bars_of_a_download():
    screen, view = viewed(120, "live")
    with view.loading("edge: acme/omni") as tell:
        tell("downloading weights of acme/omni")
        shown = len(screen.output)
        view.status.refresh()
        assert len(screen.output) == shown


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_bar_of_a_batch_fits_and_is_erased(width):
    screen, view = viewed(width, "live")
    show_counts(view, busy())
    show_totals(view, busy(), Path("o.jsonl"))
    drawn = ESCAPE.sub("", screen.output)
    bar = drawn[: drawn.index("captioned")]
    assert "100 of 5,000" in bar
    assert max(len(row) for row in bar.replace("\r", "\n").split("\n")) <= width
    assert ("tokens/s" in bar) == (width > 80)
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")


def test_the_bar_says_that_it_is_ending():
    screen, view = viewed(100, "live")
    view.stopping("finishing what has begun")  # before anything is drawn
    show_counts(view, busy())
    view.close()
    view.close()
    assert "finishing what has begun (Ctrl-C again stops at once)" in ESCAPE.sub("", screen.output)


def test_the_pace_is_that_of_this_run():
    counts = Progress(total=5000, done=100, skipped=7, rounds=500, escalations=60)
    counts.started -= 5000  # beside which nothing counts that this test takes
    assert counts.escalation_rate == 0.12
    assert counts.left_s == pytest.approx(4900 * 5000 / 93, rel=0.02)  # what was done before took no time
