"""How far a command is: a bar that fits, a log that stays short, totals and failures of a batch."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from rich.cells import cell_len

from specdec_cli.batch.tasks import LISTED, Progress
from specdec_cli.console.progress import STOPPING, Show, Steps
from specdec_cli.errors import AudioDecodeError
from tests.console.screens import ESCAPE, Screen


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def counts(clock: Clock, **values: object) -> Progress:
    progress = Progress(clock=clock)
    for name, value in values.items():
        setattr(progress, name, value)
    return progress


def busy(clock: Clock) -> Progress:
    known = {"total": 5000, "captioned": 90, "failed": 3, "skipped": 7, "audio_s": 144.0}
    return counts(clock, **known, tokens=2500, rounds=500, escalations=60)


def test_the_pace_is_that_of_this_run() -> None:
    clock = Clock()
    progress = busy(clock)
    clock.now += 50
    assert progress.done == 100
    assert progress.tokens_per_s == 50
    assert progress.escalation_rate == 0.12
    assert progress.left_s == pytest.approx(4900 * 50 / 93)  # what was done before took no time
    progress.total = None
    assert progress.left_s is None


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_bar_of_a_batch_fits_and_is_erased(width: int, encoding: str) -> None:
    clock = Clock()
    screen = Screen(width, terminal=True, encoding=encoding)
    steps = Steps(screen, "bar")
    progress = busy(clock)
    clock.now += 50
    steps.update(progress)
    steps.update(progress)
    steps.finished(progress, "o.jsonl")
    drawn = ESCAPE.sub("", screen.output)
    bar, ended = drawn[: drawn.index("captioned")], " ".join(drawn.split())
    assert "100 of 5,000" in bar
    assert max(len(row) for row in bar.replace("\r", "\n").split("\n")) <= width
    assert ("tokens/s" in bar) == (width > 80)
    assert "\\u" not in screen.output
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")
    assert {"90 captioned", "3 failed", "7 done before"} <= {
        *re.findall(r"\d+ (?:captioned|failed|done before)", ended)
    }


def test_the_bar_says_that_it_is_ending() -> None:
    screen = Screen(100, terminal=True)
    steps = Steps(screen, "bar")
    steps.stopping()  # before anything is drawn
    steps.update(busy(Clock()))
    steps.stopping()
    steps.update(busy(Clock()))
    steps.close()
    steps.close()
    assert STOPPING in ESCAPE.sub("", screen.output)


def test_the_log_of_a_batch_has_a_line_every_ten_seconds_with_audio_in_minutes() -> None:
    clock = Clock()
    screen = Screen(60)
    steps = Steps(screen, "log", clock=clock)
    progress = busy(clock)
    for _ in range(300):
        clock.now += 0.1
        steps.update(progress)
    lines = [line for line in screen.lines if line]
    assert len(lines) == 2
    assert lines[0].startswith("100 of 5,000, ")
    assert " left, 3 failed, 2 min 24 s of audio, " in lines[0]
    assert lines[0].endswith("12% of blocks escalated")


def test_a_log_tells_how_far_it_is_and_how_long_it_takes() -> None:
    clock = Clock()
    screen = Screen(60)
    steps = Steps(screen, "log", clock=clock)
    steps.begin(100)
    for _ in range(50):
        clock.now += 1
        steps.step("edge a.wav")
        steps.advance()
    assert screen.lines[:2] == [
        "10 of 100, 10%, about 90.0 s left, 10.0 s",
        "20 of 100, 20%, about 80.0 s left, 20.0 s",
    ]
    assert len(screen.lines) == 6


@pytest.mark.parametrize("show", ["errors", "log", "bar"])
def test_errors_appear_in_every_display_and_progress_in_two(show: Show) -> None:
    screen = Screen(60, terminal=show == "bar")
    steps = Steps(screen, show)
    with steps.loading("models"):
        pass
    steps.begin(2)
    steps.step("edge a.wav")
    steps.failed("a.wav", AudioDecodeError("a.wav is no recording."))
    steps.advance()
    steps.close()
    steps.close()
    assert "a.wav is no recording." in " ".join(screen.lines)
    assert ("models" in screen.output) == (show != "errors")


@pytest.mark.parametrize("width", [30, 60, 200])
def test_the_bar_fits_its_terminal_and_leaves_nothing_behind(width: int) -> None:
    screen = Screen(width, terminal=True)
    steps = Steps(screen, "bar")
    steps.begin(8)
    for index in range(8):
        steps.step(f"lossless /a/rather/long/path/录音 {index}.wav")
        steps.advance()
    steps.close()
    assert "8 of 8" in screen.output
    assert screen.output.count("\x1b[?25l") == screen.output.count("\x1b[?25h") == 1
    assert screen.lines[-1] == ""
    assert max(map(cell_len, screen.lines)) <= width


def test_failures_are_listed_as_far_as_they_were_kept() -> None:
    screen = Screen(60)
    steps = Steps(screen, "errors")
    progress = counts(Clock(), failed=LISTED + 5)
    progress.failures = [(f"a{n}.wav", f"a{n}.wav is broken.") for n in range(LISTED - 1)]
    progress.failures.append(("\x1b[2J.wav", "odd"))
    steps.failures(progress, "out.jsonl")
    lines = [line for line in screen.lines if line]
    assert lines[0] == "error: a0.wav is broken."
    assert lines[LISTED - 1] == "error: \\x1b[2J.wav: odd"
    assert lines[LISTED] == "... and 5 more; every one has a line with `error` in out.jsonl"


@pytest.mark.parametrize("show", ["errors", "log", "bar"])
def test_the_end_of_a_batch_counts_captions_that_are_no_description(show: Show) -> None:
    screen = Screen(80)
    Steps(screen, show).finished(counts(Clock(), captioned=9, flags=Counter(no_speech=2, language=1)), "out.jsonl")
    assert "1 not in the language asked for, 2 without speech (may be invented)" in " ".join(screen.lines)


def test_quiet_does_not_hide_that_the_cloud_failed() -> None:
    screen = Screen(60)
    steps = Steps(screen, "errors")
    steps.update(busy(Clock()))
    steps.finished(busy(Clock()), "o.jsonl")
    assert screen.output == ""  # nor does it have totals
    steps.finished(counts(Clock(), captioned=9, degraded=2), "o.jsonl")
    assert screen.output == "warning: 2 captions degraded: the cloud failed\n"


def test_a_batch_without_a_caption_gets_no_tick_and_names_no_output() -> None:
    for captioned, told in ((0, "0 captioned\n"), (2, "✓ 2 captioned")):
        screen = Screen(60)
        Steps(screen, "log").finished(counts(Clock(), captioned=captioned), "o.jsonl")
        assert screen.output.startswith(told)
        assert screen.output.endswith("captions are in o.jsonl\n") == bool(captioned)
