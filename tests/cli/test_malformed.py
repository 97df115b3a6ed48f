"""Dozens of recordings that are wrong: a typed error for each, no traceback, and nothing healthy is lost."""

import os

import pytest

from tests.audio.files import refused_files
from tests.cli.harness import Fork
from tests.mini_pair import write_voice
from tests.transcript.lines import read_transcripts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
def test_one_run_over_every_malformed_recording_captions_the_healthy_one(tmp_path):
    files = {path: error for path, error in refused_files(tmp_path / "in").items() if not path.is_dir()}
    healthy = write_voice(tmp_path / "healthy.wav", 1)
    output = tmp_path / "out.jsonl"
    names = [str(path) for path in files]
    names.insert(len(names) // 2, str(healthy))
    outcome = Fork(["caption", *names, "--output", str(output)]).wait()  # a pipe among them must not block it

    assert outcome.code == 1
    assert len(files) >= 77  # the folders are refused as inputs, before anything is loaded
    transcripts = list(read_transcripts(output))
    assert [t.file for t in transcripts] == names
    errors = {t.file: t.error for t in transcripts}
    assert errors.pop(str(healthy)) is None
    for path, expected in files.items():
        error = errors[str(path)]
        assert (path.name, error.type) == (path.name, expected.__name__)
        assert path.name in error.message
    ((label, caption),) = (line.split("\t") for line in outcome.lines)
    assert label == str(healthy)
    assert caption == transcripts[names.index(str(healthy))].caption
    assert "Traceback" not in outcome.err
    assert "UnexpectedError" not in outcome.err
    assert outcome.err.count("\nerror: ") == len(files)
    assert f"\n1 captioned  {len(files)} failed  " in outcome.err
    for line in outcome.err.splitlines():  # nothing of what decoders write themselves
        assert line.startswith(
            ("error: ", "hint: ", "loading ", "Captions are in ", "captions are in ", str(healthy), "1 captioned")
        ), line
