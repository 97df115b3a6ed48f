"""What a batch shows: a bar that fits, a log that stays short, totals and failures."""

from __future__ import annotations

import pytest

from specdec_cli.batch.progress import LISTED, Failed, Progress
from specdec_cli.console import QuietView
from specdec_cli.console.batch import STOPPING, BarView, BatchView, LogView
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
    known = {"total": 5000, "captioned": 90, "failed": 3, "skipped": 7, "audio_s": 360.0}
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


def test_nothing_is_said_that_nobody_knows() -> None:
    progress = Progress(clock=Clock())
    assert progress.tokens_per_s is None
    assert progress.escalation_rate is None
    assert progress.left_s is None


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_bar_fits_and_is_erased(width: int, encoding: str) -> None:
    clock = Clock()
    screen = Screen(width, terminal=True, encoding=encoding)
    view = BarView(screen, QuietView(screen))
    progress = busy(clock)
    clock.now += 50
    view.update(progress)
    view.update(progress)
    view.finished(progress)
    drawn = ESCAPE.sub("", screen.output)
    bar = drawn[: drawn.index("captioned")]
    assert "100/5000" in bar
    assert max(len(row) for row in bar.replace("\r", "\n").split("\n")) <= width
    assert ("tokens/s" in bar) == (width > 80)
    assert "\\u" not in screen.output
    assert screen.output.rindex("\x1b[?25h") > screen.output.rindex("\x1b[?25l")
    assert "90 captioned" in drawn
    assert "3 failed" in drawn
    assert "7 done before" in drawn


def test_the_bar_says_that_it_is_ending() -> None:
    screen = Screen(100, terminal=True)
    view = BarView(screen, QuietView(screen))
    view.stopping()  # before anything is drawn
    view.update(busy(Clock()))
    view.stopping()
    view.update(busy(Clock()))
    view.close()
    view.close()
    assert STOPPING in ESCAPE.sub("", screen.output)


def test_a_log_has_a_line_every_ten_seconds() -> None:
    clock = Clock()
    screen = Screen(60)
    view = LogView(screen, QuietView(screen), clock)
    progress = busy(clock)
    for _ in range(300):
        clock.now += 0.1
        view.update(progress)
    lines = [line for line in screen.lines if line]
    assert len(lines) == 2
    assert lines[0].startswith("100/5000, 0.10 h audio, ")
    assert "12% escalated, 3 failed, " in lines[0]
    assert lines[0].endswith(" left")


def test_failures_are_listed_as_far_as_they_were_kept() -> None:
    screen = Screen(60)
    view = BatchView(screen, QuietView(screen))
    progress = counts(Clock(), failed=LISTED + 5)
    progress.failures = [Failed(f"a{n}.wav", "AudioDecodeError", f"a{n}.wav is broken.") for n in range(LISTED - 1)]
    progress.failures.append(Failed("\x1b[2J.wav", "AudioDecodeError", "odd"))
    view.failures(progress, "out.jsonl")
    lines = [line for line in screen.lines if line]
    assert lines[0] == "error: a0.wav is broken."
    assert lines[LISTED - 1] == "error: \\x1b[2J.wav: odd"
    assert lines[LISTED] == "... and 5 more; every one has a line with `error` in out.jsonl"


def test_quiet_has_no_totals() -> None:
    screen = Screen(60)
    view = BatchView(screen, QuietView(screen))
    view.update(busy(Clock()))
    view.finished(busy(Clock()))
    assert screen.output == ""


def test_quiet_does_not_hide_that_the_cloud_failed() -> None:
    screen = Screen(60)
    BatchView(screen, QuietView(screen)).finished(counts(Clock(), captioned=9, degraded=2))
    assert screen.output == "warning: 2 captions degraded: the cloud failed\n"
