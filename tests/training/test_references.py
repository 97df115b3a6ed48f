"""Reference tables: what is known of a clip, in the columns that `specdec compare` reads."""

from training.labels import read_rows, training_rows
from training.references import Split, main, rows_of


def test_splits_share_no_speaker(data):
    rows = read_rows(data)
    speakers = {split: {row.speaker for row in rows_of(rows, split) if row.speaker} for split in Split}
    assert not (speakers[Split.DEV] | speakers[Split.REPORT]) & {row.speaker for row in training_rows(rows)}
    assert not speakers[Split.DEV] & speakers[Split.REPORT]
    assert speakers[Split.DEV]
    assert speakers[Split.REPORT]
    assert all(row.caption for row in rows_of(rows, Split.SECAP))


def test_a_second_sample_holds_no_clip_of_the_first(data, tmp_path):
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    main(data, first, Split.REPORT, clips=40)
    main(data, second, Split.REPORT, clips=40, seed=1, without=first)
    files = [{line.split("\t")[0] for line in path.read_text().splitlines()[1:]} for path in (first, second)]
    assert [len(found) for found in files] == [40, 40]
    assert not files[0] & files[1]
