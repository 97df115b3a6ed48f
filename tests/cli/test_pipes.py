"""A pipe in the place of a file is refused at once: opening one would wait for its other end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Specdec

SAMPLE = str(Path(__file__).parents[2] / "samples" / "en_male_pauses.flac")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("caption", SAMPLE, "--lexicon", "PIPE.yaml"),
        ("caption", SAMPLE, "--gate", "PIPE.json"),
        ("caption", SAMPLE, "--calibration", "PIPE.json"),
        ("caption", SAMPLE, "--config", "PIPE.yaml"),
        ("caption", SAMPLE, "--output", "PIPE.jsonl"),
        ("batch", "--manifest", "PIPE.jsonl", "--output", "out.jsonl"),
        ("compare", SAMPLE, "--references", "PIPE.tsv"),
        ("export", "PIPE.jsonl", "--to", "srt"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(SAMPLE, "FILE"),
)
def test_a_pipe_is_not_waited_for(specdec: Specdec, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    pipe = next(argument for argument in arguments if argument.startswith("PIPE"))
    os.mkfifo(tmp_path / pipe)
    outcome = specdec(*(str(tmp_path / pipe) if argument == pipe else argument for argument in arguments))
    assert outcome.code in (2, 3)
    assert "regular file" in outcome.err
