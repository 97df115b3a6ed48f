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
        ("caption", SAMPLE, "--lexicon", "PIPE"),
        ("caption", SAMPLE, "--gate", "PIPE"),
        ("caption", SAMPLE, "--labels", "--calibration", "PIPE"),
        ("caption", SAMPLE, "--config", "PIPE"),
        ("caption", SAMPLE, "--output", "PIPE"),
        ("batch", SAMPLE, "--output", "PIPE"),
        ("batch", "--manifest", "PIPE", "--output", "out.jsonl"),
        ("compare", SAMPLE, "--references", "PIPE"),
        ("compare", SAMPLE, "--output", "PIPE"),
        ("export", "PIPE", "--to", "srt"),
        ("plot", "PIPE"),
        ("review", "PIPE", "--output", "page.html"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(SAMPLE, "FILE"),
)
def test_a_pipe_is_not_waited_for(specdec: Specdec, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ending = {"export": "jsonl", "plot": "jsonl", "review": "jsonl", "batch": "jsonl"}.get(arguments[0], "json")
    ending = (
        {"--references": "tsv", "--output": "jsonl", "--config": "yaml", "--lexicon": "yaml"}.get(arguments[2], ending)
        if len(arguments) > 2
        else ending
    )
    pipe = tmp_path / f"pipe.{ending}"
    os.mkfifo(pipe)
    outcome = specdec(*(str(pipe) if argument == "PIPE" else argument for argument in arguments))
    assert outcome.code in (2, 3)
    assert "regular file" in outcome.err
