"""Label rules, speaker splits, and reference tables in the columns that `specdec compare` reads."""

from collections import Counter

import pytest

from training.labels import (
    DEV_SPEAKERS,
    EVALUATION_ONLY,
    REPORT_SPEAKERS,
    dev_rows,
    read_rows,
    report_rows,
    training_rows,
)
from training.references import Split, main


@pytest.mark.data
def test_no_withheld_speaker_and_no_evaluation_corpus_is_trained_on(data):
    rows = read_rows(data)
    training = training_rows(rows)
    assert training
    assert not {row.speaker for row in training} & (DEV_SPEAKERS | REPORT_SPEAKERS)
    assert not {row.corpus for row in training} & set(EVALUATION_ONLY)
    assert {row.speaker for row in dev_rows(rows)} == DEV_SPEAKERS
    assert {row.speaker for row in report_rows(rows)} == REPORT_SPEAKERS
    assert not DEV_SPEAKERS & REPORT_SPEAKERS


@pytest.mark.data
def test_report_speakers_are_women_and_men_in_equal_parts(data):
    voices = {(row.corpus, row.speaker, row.measures.gender) for row in report_rows(read_rows(data))}
    counts = Counter((corpus, gender) for corpus, _, gender in voices)
    each = {"ravdess": 1, "emodb": 1, "nemo": 1, "cremad": 3}
    assert counts == {(corpus, gender): number for corpus, number in each.items() for gender in "mf"}


def test_a_second_sample_holds_no_clip_of_the_first(data, tmp_path):
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    main(data, first, Split.REPORT, clips=40)
    main(data, second, Split.REPORT, clips=40, seed=1, without=first)
    files = [{line.split("\t")[0] for line in path.read_text().splitlines()[1:]} for path in (first, second)]
    assert [len(found) for found in files] == [40, 40]
    assert not files[0] & files[1]
