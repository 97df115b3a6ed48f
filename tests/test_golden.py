"""What the shipped pair says: the captions and rounds of `golden.jsonl`, which `python -m tests.golden` writes."""

import json

import pytest

from tests.golden import GOLDEN, caption, sounds, weights
from tests.tiers import slow

HEAD, *ROWS = (json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines())


def test_it_is_of_the_weights_that_ship():
    assert {"weights": weights()} == HEAD


def test_samples_and_voices_are_in_it_and_their_captions_differ():
    hybrid = [row for row in ROWS if row["mode"] == "hybrid"]
    assert len(hybrid) >= 20
    assert sum(row["sound"].endswith(".flac") for row in hybrid) == 6
    assert len({row["caption"] for row in hybrid}) >= len(hybrid) / 2
    assert {escalated for row in hybrid for _, _, escalated, _ in row["rounds"]} == {True, False}


@pytest.mark.parametrize("mode", ["hybrid", slow("edge"), slow("cloud")])
def test_captions_and_rounds_are_those_of_the_file(mode):
    samples = {name: of for name, _, of in sounds()}
    for row in (row for row in ROWS if row["mode"] == mode):
        found = caption(samples[row["sound"]], row["language"], mode)
        assert found == {name: row[name] for name in found}, row["sound"]
