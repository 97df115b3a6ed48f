"""Reference tables: what is known of a clip, in the columns that `specdec compare` reads."""

from __future__ import annotations

from pathlib import Path

from training.labels import read_rows
from training.references import Split, rows_of


def test_splits_share_no_speaker(data: Path) -> None:
    rows = read_rows(data)
    speakers = {split: {row.speaker for row in rows_of(rows, split) if row.speaker} for split in Split}
    assert not (speakers[Split.DEV] | speakers[Split.REPORT]) & speakers[Split.TRAIN]
    assert not speakers[Split.DEV] & speakers[Split.REPORT]
    assert speakers[Split.DEV]
    assert speakers[Split.REPORT]
    assert all(row.caption for row in rows_of(rows, Split.SECAP))
