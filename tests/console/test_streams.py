"""What goes where, with real pipes and a real pseudo-terminal."""

from __future__ import annotations

import json
import os
import sys

import pytest

from specdec_cli.console.live import LiveView, choose_view
from specdec_cli.console.view import PlainView, View
from tests.cli.harness import Fork, on_terminal
from tests.console import play
from tests.console.screens import COLOUR, ESCAPE
from tests.console.script import EN, ZH

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def piped(*arguments: str) -> tuple[str, str]:
    outcome = Fork(arguments, command=play.main).wait()
    assert outcome.code == 0, outcome.err
    return outcome.out, outcome.err


def shown(*arguments: str, stdout: bool = True, **environment: str) -> tuple[str, str]:
    """Run on a pseudo-terminal; returns what a piped stdout got, if it was piped, and what the terminal showed."""
    outcome, screen = on_terminal(arguments, width=100, piped=not stdout, command=play.main, **environment)
    assert outcome.code == 0, screen
    return outcome.out, screen


def test_into_pipes_stdout_is_the_caption_alone() -> None:
    out, err = piped("zh", "en", "--fail")
    assert out == f"{ZH.caption}\n{EN.caption}\n"
    assert "\x1b" not in err
    assert "the cloud verified 3 of 7 rounds" in err
    assert "error: no such file: nowhere.wav\nhint: Check the path.\n" in err
    assert err.endswith("2 captioned, 1 failed\n")


def test_quiet_says_only_captions_and_errors() -> None:
    out, err = piped("zh", "--quiet", "--fail")
    assert out == f"{ZH.caption}\n"
    assert err == "error: no such file: nowhere.wav\nhint: Check the path.\n"


def test_no_live_writes_rows_into_a_pipe() -> None:
    out, err = piped("zh", "--no-live")
    assert out == f"{ZH.caption}\n"
    assert "✓，" in err
    assert "\x1b" not in err


def test_json_is_one_readable_object_a_line() -> None:
    out, _ = piped("zh", "en", "--json")
    assert [json.loads(line)["caption"] for line in out.splitlines()] == [ZH.caption, EN.caption]
    assert "说话人" in out


def test_on_a_terminal_the_finished_caption_is_shown_once() -> None:
    _, screen = shown("zh")
    after = ESCAPE.sub("", screen[screen.rindex("\x1b[?25h") :])
    assert after.count(ZH.caption) == 1
    assert COLOUR.search(screen)


def test_a_piped_stdout_gets_the_caption_while_the_terminal_shows_the_run() -> None:
    out, screen = shown("zh", stdout=False)
    assert out == f"{ZH.caption}\n"
    assert "✗" in screen


def test_no_color_has_no_colours_on_a_terminal() -> None:
    _, screen = shown("zh", NO_COLOR="1")
    assert not COLOUR.search(screen)
    assert "✗慢" in ESCAPE.sub("", screen)


def test_a_dumb_terminal_gets_plain_lines() -> None:
    _, screen = shown("zh", TERM="dumb")
    assert "\x1b" not in screen
    assert screen.count(ZH.caption) == 1
    assert screen.rstrip().endswith(ZH.caption)


def test_json_on_the_same_terminal_stands_alone() -> None:
    _, screen = shown("zh", "--json")
    assert json.loads(screen)["caption"] == ZH.caption


def test_a_reader_that_leaves_ends_the_run_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    fork = Fork(["zh", "--quiet"], stdout=writing, command=play.main)
    os.close(writing)
    outcome = fork.wait()
    assert (outcome.code, outcome.err) == (141, "")


class Stream:
    """A stream that is a terminal or not."""

    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "options", "kind"),
    [
        (True, {}, {}, "live"),
        (True, {}, {"no_live": True}, "rows"),
        (True, {}, {"debug": True}, "rows"),
        (True, {"CI": "true"}, {}, "rows"),
        (True, {"TERM": "dumb"}, {}, "rows"),
        (True, {"TERM": ""}, {}, "rows"),
        (True, {}, {"quiet": True}, "errors"),
        (True, {}, {"json": True}, "errors"),
        (False, {}, {}, "plain"),
        (False, {}, {"json": True}, "plain"),
        (False, {}, {"no_live": True}, "rows"),
        (False, {}, {"quiet": True, "no_live": True}, "errors"),
    ],
)
def test_the_display_fits_the_place(
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    environment: dict[str, str],
    options: dict[str, bool],
    kind: str,
) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", Stream(terminal))
    monkeypatch.setattr(sys, "stdout", Stream(terminal))
    view = choose_view(**options)
    if isinstance(view, LiveView):
        assert (view.redraws, view.shows_caption) == (kind == "live",) * 2
        assert kind in ("live", "rows")
    else:
        assert type(view) is {"errors": View, "plain": PlainView}[kind]
