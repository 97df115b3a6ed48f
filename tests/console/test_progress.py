"""How far a command is: a bar that fits, a log that stays short, totals and failures of a batch."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from specdec_cli.captioning.tasks import LISTED, Progress
from specdec_cli.console.progress import show_counts, show_failures, show_totals
from specdec_cli.console.view import View
from specdec_cli.errors import AudioDecodeError
from tests.console.screens import ESCAPE, Screen, viewed


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def busy() -> Progress:
    """After 50 s."""
    known = {"total": 5000, "captioned": 90, "failed": 3, "skipped": 7, "done": 100, "audio_s": 144.0}
    return Progress(**known, tokens=2500, rounds=500, escalations=60, started=time.monotonic() - 50)


def test_the_pace_is_that_of_this_run():
    progress = busy()
    progress.started -= 4950  # beside which nothing counts that this test takes
    assert progress.elapsed_s == pytest.approx(5000, rel=0.02)
    assert progress.escalation_rate == 0.12
    assert progress.left_s == pytest.approx(4900 * 5000 / 93, rel=0.02)  # what was done before took no time


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_bar_of_a_batch_fits_and_is_erased(width):
    screen, view = viewed(width, "live")
    progress = busy()
    show_counts(view, progress)
    show_totals(view, progress, Path("o.jsonl"))
    drawn = ESCAPE.sub("", screen.output)
    bar, ended = drawn[: drawn.index("captioned")], " ".join(drawn.split())
    assert "100 of 5,000" in bar
    assert max(len(row) for row in bar.replace("\r", "\n").split("\n")) <= width
    assert ("tokens/s" in bar) == (width > 80)
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")
    assert {"90 captioned", "3 failed", "7 done before"} <= {
        *re.findall(r"\d+ (?:captioned|failed|done before)", ended)
    }


def test_the_bar_says_that_it_is_ending():
    screen, view = viewed(100, "live")
    view.stopping("finishing what has begun")  # before anything is drawn
    show_counts(view, busy())
    view.close()
    view.close()
    assert "finishing what has begun (Ctrl-C again stops at once)" in ESCAPE.sub("", screen.output)


def test_the_log_of_a_batch_has_a_line_every_ten_seconds_with_audio_in_minutes():
    clock = Clock()
    screen, view = viewed(60, "lines", clock=clock)
    progress = busy()
    for _ in range(300):
        clock.now += 0.1
        show_counts(view, progress)
    lines = [line for line in screen.lines if line]
    assert len(lines) == 2
    assert lines[0].startswith("100 of 5,000, ")
    assert " left, 3 failed, 2 min 24 s of audio, " in lines[0]
    assert lines[0].endswith("12% of blocks escalated")


def test_a_log_tells_how_far_it_is_and_how_long_it_takes():
    clock = Clock()
    screen, view = viewed(60, "lines", clock=clock)
    view.begin(100)
    for _ in range(50):
        clock.now += 1
        view.step("edge a.wav")
        view.advance()
    assert screen.lines[:2] == [
        "10 of 100, 10%, 10.0 s, about 90.0 s left",
        "20 of 100, 20%, 20.0 s, about 80.0 s left",
    ]
    assert len(screen.lines) == 6


@pytest.mark.parametrize("form", ["errors", "lines", "live"])
def test_errors_appear_in_every_display_and_progress_in_two(form):
    screen, view = viewed(60, form)
    with view.loading("models"):
        pass
    view.begin(2)
    view.step("edge a.wav")
    view.failed("a.wav", AudioDecodeError("a.wav is no recording."))
    view.advance()
    view.close()
    assert "a.wav is no recording." in " ".join(screen.lines)
    assert ("models" in screen.output) == (form != "errors")


def test_failures_are_listed_as_far_as_they_were_kept():
    screen = Screen(60)
    progress = Progress(failed=LISTED + 5)
    progress.failures = [(f"a{n}.wav", f"a{n}.wav is broken.") for n in range(LISTED - 1)]
    progress.failures.append(("\x1b[2J.wav", "odd"))
    show_failures(View(screen, "lines"), progress, Path("out.jsonl"))
    lines = [line for line in screen.lines if line]
    assert lines[0] == "error: a0.wav is broken."
    assert lines[LISTED - 1] == "error: \\x1b[2J.wav: odd"
    assert lines[LISTED] == "hint: 5 more failed; every one has a line with `error` in out.jsonl"


@pytest.mark.parametrize("form", ["errors", "lines", "live"])
def test_every_display_warns_of_captions_without_the_cloud_and_of_no_description(form):
    screen = Screen(80)
    flags, silent = Counter(no_speech=5, language=1), {"a.wav": ["0.20 to 0.50 s", "9.10 to 9.40 s"], "b.wav": []}
    show_totals(View(screen, form), Progress(captioned=9, degraded=2, flags=flags, silent=silent), Path("out.jsonl"))
    found = " ".join(screen.lines)
    assert "flagged captions: 1 not in the language asked for" in found
    said = "no speech was found in 5 clips, so what captions say is invented: a.wav (0.20 to 0.50 s, 9.10 to 9.40 s), "
    assert f"{said}b.wav and 2 more" in found
    assert "warning: 2 captions degraded: the cloud failed" in found
    assert ("9 captioned" in found) == (form != "errors")


def test_a_batch_without_a_caption_gets_no_tick_and_names_no_output():
    for captioned, told in ((0, " ! 0 captioned"), (2, " ✓ 2 captioned")):
        screen = Screen(60)
        show_totals(View(screen, "live"), Progress(captioned=captioned), Path("o.jsonl"))
        assert screen.lines[0].startswith(told)
        assert ("captions are in o.jsonl" in screen.output) == bool(captioned)
