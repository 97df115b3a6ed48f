"""Reference tables: what is known of a clip, in the columns that `specdec compare` reads."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import typer

from training.labels import Measures, Row, read_rows
from training.references import COLUMNS, Split, main, record, rows_of, write_references


def _row(**changes: object) -> Row:
    values: dict[str, object] = {
        "file": "cremad/a.ogg",
        "corpus": "cremad",
        "language": "en",
        "speaker": "cremad_1006",
        "emotion": "anger",
        "duration_s": 2.0,
        "text": "it is eleven",
        "caption": "",
        "heard": "anger",
        "heard_share": 0.8,
        "measures": Measures(),
        "classes": {"emotion": "angry", "pitch": "high"},
    }
    return Row(**{**values, **changes})  # type: ignore[arg-type]


def test_a_record_leaves_empty_what_is_not_known_or_not_heard(tmp_path: Path) -> None:
    agreed, other = record(_row(), tmp_path), record(_row(heard="neutral"), tmp_path)
    assert (agreed["emotion"], agreed["pitch"], agreed["rate"]) == ("angry", "high", "")
    assert (other["emotion"], other["pitch"]) == ("", "high")
    assert agreed["file"] == str(tmp_path / "cremad/a.ogg")
    assert "it is eleven" not in agreed.values()  # a transcript is no description


def test_quotes_in_a_caption_survive(tmp_path: Path) -> None:
    path = tmp_path / "references.tsv"
    write_references(path, [_row(caption='语气"强硬"')], tmp_path)
    with path.open(encoding="utf-8", newline="") as stream:
        (found,) = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert found["text"] == '语气"强硬"'
    assert tuple(found) == COLUMNS


def test_splits_share_no_speaker(data: Path) -> None:
    rows = read_rows(data)
    speakers = {split: {row.speaker for row in rows_of(rows, split) if row.speaker} for split in Split}
    assert not (speakers[Split.DEV] | speakers[Split.REPORT]) & speakers[Split.TRAIN]
    assert not speakers[Split.DEV] & speakers[Split.REPORT]
    assert speakers[Split.DEV]
    assert speakers[Split.REPORT]
    assert all(row.caption for row in rows_of(rows, Split.SECAP))


def test_a_choice_of_clips_is_for_withheld_speakers_only(tmp_path: Path) -> None:
    known = ("gender", "dur", "heard", "heard_share", "f0_hz", "f0_range_st", "level_dbfs", "rate_syl_s", "pause_ratio")
    names = ("file", "corpus", "lang", "speaker", "emotion", "text", "caption", *known)
    (tmp_path / "labels.tsv").write_text("\t".join(names) + "\n", encoding="utf-8")
    with pytest.raises(typer.BadParameter, match="dev or report clips"):
        main(tmp_path, tmp_path / "x.tsv", Split.SECAP, clips=3)
