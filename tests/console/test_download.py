"""A download is shown with its size and how far it is, in a terminal and in a log."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.console.live import LiveView
from specdec_cli.console.view import PlainView, View
from specdec_cli.models.download import Download
from tests.console.screens import ESCAPE, Screen

OMNI = Download("acme/omni", 3, 8_000_000_000, 9_000_000_000, 2, Path("/cache"), 50_000_000_000)
SAID = "acme/omni: 3 files of weights, 8.0 GB to download (2 of its files are not needed); 50.0 GB free in /cache"


def _play(view: View) -> None:
    with view.loading("edge: acme/omni") as watch:
        assert watch is not None
        for done in range(0, OMNI.bytes, OMNI.bytes // 40):
            watch(OMNI, done)


def test_a_terminal_shows_a_bar_and_the_rate_and_keeps_what_was_downloaded() -> None:
    screen = Screen(120, 24, terminal=True)
    view = LiveView(screen, clock=iter(range(100_000)).__next__)
    with view.loading("edge: acme/omni") as watch:
        watch(OMNI, 0)
        watch(OMNI, 2_000_000_000)
        assert view._region is not None
        region = "".join(part.text for line in screen.render_lines(view._region, pad=False) for part in line)
        assert "\u2501\u2501\u2501" in region
        assert "2.0 GB of 8.0 GB" in region
        assert "/s" in region
    assert SAID in " ".join(ESCAPE.sub(" ", screen.output).split())
    assert "\u2713 loaded edge: acme/omni" in "\n".join(screen.lines)


def test_a_log_gets_a_line_for_every_tenth() -> None:
    screen = Screen(200, 24)
    _play(PlainView(screen))
    assert screen.lines[:3] == [
        "loading edge: acme/omni ...",
        f"downloading {SAID}",
        "acme/omni: 10% of 8.0 GB downloaded",
    ]
    assert len([line for line in screen.lines if line]) == 2 + 9
