"""Recordings that are wrong among a healthy one: a typed error for each, no traceback, and nothing healthy is lost."""

import os
from pathlib import Path

import pytest

from tests.audio.files import PLACES, REFUSED
from tests.mini_pair import write_voice
from tests.transcript.lines import read_transcripts


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_one_run_over_malformed_recordings_captions_the_healthy_one(specdec):
    """Every fifth kind; `tests.audio` has the error of each."""
    errors = {name: case.error.__name__ for name, case in list(REFUSED.items())[::5]}
    for name in errors:
        Path(name).write_bytes(REFUSED[name].make())
    for name, make in PLACES.items():
        make(Path(name))
        errors |= {} if Path(name).is_dir() else {name: "AudioNotFoundError"}  # folders are refused before loading
    assert len(errors) > 18
    write_voice(Path("healthy.wav"), 1)
    names = list(errors)
    names.insert(len(names) // 2, "healthy.wav")
    outcome = specdec("caption", *names, "--output", "out.jsonl", ends=1)  # a pipe among them must not block it

    found = {line.file: line for line in read_transcripts(Path("out.jsonl"))}
    assert list(found) == names
    healthy = found.pop("healthy.wav")
    assert {name: line.error.type for name, line in found.items()} == errors
    assert all(Path(name).name in line.error.message for name, line in found.items())
    assert outcome.lines == [f"healthy.wav\t{healthy.caption}"]
    assert outcome.err.count("\nerror: ") == len(errors)
    assert f"\n1 captioned  {len(errors)} failed  " in outcome.err
    for line in outcome.err.splitlines():  # nothing of what decoders write themselves
        begins = ("error: ", "hint: ", "loading ", "Captions are in ", "captions are in ", "healthy.wav", "1 captioned")
        assert line.startswith(begins), line
