"""Hints name settings; on the command line each is followed by its option."""

from __future__ import annotations

import pytest

from specdec_cli.console.plain import error_lines
from specdec_cli.errors import FLAGS, AudioContentError


def test_the_command_line_adds_its_options_to_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    error = AudioContentError("clip.wav is too long", hint="Lower audio.segment or decoding.loop_top_k.")
    monkeypatch.setitem(FLAGS, "audio.segment", "--segment")
    assert (
        "Lower audio.segment (--segment) or decoding.loop_top_k." in error_lines(error, file=None, width=None)[1].plain
    )
    monkeypatch.delitem(FLAGS, "audio.segment")
    assert "--segment" not in error_lines(error, file=None, width=None)[1].plain
