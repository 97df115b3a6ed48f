"""`--labels` and `--lexicon`: classes in transcripts and totals, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.transcript import json_schema
from tests.cli.conftest import Specdec
from tests.transcript.lines import read_transcripts


@pytest.mark.parametrize("language", ["zh", "en"])
def test_labels_stand_in_the_transcript_and_are_what_the_caption_says(
    specdec: Specdec, recordings: list[str], tmp_path: Path, language: str
) -> None:
    output = tmp_path / "out.jsonl"
    outcome = specdec("caption", "--labels", "--json", "-o", output, "-l", language, recordings[0])
    assert outcome.code == 0
    value = json.loads(outcome.out)
    jsonschema.Draft202012Validator(json_schema()).validate(value)
    assert value["labels"] == Lexicon.load().labels(value["caption"], language)
    assert value["labels"]["voice"] in ("male", "female")
    assert next(read_transcripts(output)).labels == value["labels"]


def test_a_lexicon_of_ones_own_turns_labels_on(specdec: Specdec, recordings: list[str], tmp_path: Path) -> None:
    words = tmp_path / "words.yaml"
    words.write_text("schema: 1\nattributes: {kind: {classes: [speech], en: {alone: {speech: [speaker]}}}}\n")
    outcome = specdec("caption", "--json", "-l", "en", "--lexicon", words, recordings[0])
    assert json.loads(outcome.out)["labels"] == {"kind": "speech"}
