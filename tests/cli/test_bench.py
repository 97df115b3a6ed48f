"""`specdec bench` on the mini pair: the object, the page, and what is refused."""

import json
from functools import partial
from pathlib import Path

from specdec_cli.bench.contenders import Bench
from specdec_cli.console.pages import bench_page
from specdec_cli.console.tables import print_page
from tests.console.screens import Screen

SAMPLE = Path(__file__).parents[2] / "samples" / "en_male_pauses.flac"
SHORT = ("--repeat", "1", "--set", "decoding.max_new_tokens=12")
OURS = {"edge", "cloud", "lossless", "hybrid"}
PEERS = {"generate-edge", "generate-cloud"}


def test_one_round_as_json_and_its_page(specdec):
    outcome = specdec("bench", SAMPLE, *SHORT, "--set", "decoding.defer=true", "--json", ends=0)
    assert json.loads(outcome.out)["schema"] == 5
    found = Bench.model_validate_json(outcome.out)
    contenders = {contender.name: contender for contender in found.contenders}
    assert contenders.keys() == OURS | PEERS
    for name in ("edge", "cloud", "lossless"):
        assert contenders[name].equal is True, name
    assert contenders["hybrid"].equal is None
    assert all(contender.tokens == 12 for contender in found.contenders)
    assert found.k == "deferred"
    assert contenders["lossless"].woken == contenders["lossless"].escalated == contenders["cloud"].cloud_time == 1
    assert contenders["edge"].cloud_time == 0
    assert contenders["cloud"].to_cloud.value == 1
    assert contenders["hybrid"].to_generate is not None
    assert [note for note in found.notes if not note.startswith("An edge step takes ")] == []
    assert (found.clips, found.rounds) == ([str(SAMPLE)], 1)
    screen = Screen(100)
    print_page(partial(bench_page, found), screen)
    page = " ".join(screen.bytes.getvalue().decode().split())
    assert "whole captions drafted" in page
    assert "k 2" not in page


def test_a_clip_that_cannot_be_read_ends_it(specdec, tmp_path):
    (tmp_path / "no.wav").write_bytes(b"no sound")
    assert specdec("bench", tmp_path / "no.wav").code == 1
