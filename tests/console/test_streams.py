"""Which display is chosen where, and what stdout gets beside it."""

import io
import json
import subprocess
import sys

import pytest

from specdec_cli.console.plain import print_caption
from specdec_cli.console.view import choose_view


class Stream:
    """A stream that is a terminal or not."""

    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "options", "form"),
    [
        (True, {}, {}, "live"),
        (True, {}, {"no_live": True}, "rows"),
        (True, {}, {"debug": True}, "rows"),
        (True, {"CI": "true"}, {}, "rows"),
        (True, {"TERM": "dumb"}, {}, "rows"),
        (True, {}, {"quiet": True}, "errors"),
        (True, {}, {"json": True}, "errors"),
        (False, {}, {}, "lines"),
        (False, {}, {"json": True}, "lines"),
        (False, {}, {"no_live": True}, "rows"),
        (False, {}, {"quiet": True, "no_live": True}, "errors"),
        (True, {}, {"steps": True}, "live"),
        (True, {"CI": "true"}, {"steps": True}, "lines"),
        (False, {}, {"steps": True}, "lines"),
        (True, {}, {"steps": True, "quiet": True}, "errors"),
    ],
)
def test_the_display_fits_the_place(monkeypatch, terminal, environment, options, form):
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", Stream(terminal))
    monkeypatch.setattr(sys, "stdout", Stream(terminal))
    assert choose_view(**options).form == form


@pytest.mark.parametrize(
    ("terminal", "shown", "printed"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_a_caption_is_not_printed_on_the_screen_that_shows_it(monkeypatch, terminal, shown, printed):
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="utf-8")
    monkeypatch.setattr(stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    print_caption("一 calm\x1b[2J\nvoice", before=["a b.wav"], shown=shown)
    assert written.getvalue().decode() == ("a b.wav\t一 calm\\x1b[2J voice\n" if printed else "")


def test_importing_the_console_loads_no_torch():
    code = "import json, sys, specdec_cli.console.view; print(json.dumps([*{'torch', 'numpy'} & {*sys.modules}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []
