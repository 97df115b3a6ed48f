"""Recordings of clips: their texts are those of the decoding loop."""

import pytest

from specdec_cli.decoding.pair import Pair
from specdec_cli.tune.recording import record, record_tracks
from tests.mini_pair import captioner, write_voice
from tests.table import table_prompt
from tests.tiny import collect, settings
from tests.tune.recorded import GROUPS, table_pair


@pytest.mark.parametrize("seed", range(6))
def test_texts_of_models_that_end_with_other_ids_are_those_of_the_loop(seed):
    edge, cloud = table_pair(seed)
    edge.processor.eos_ids, cloud.processor.eos_ids = (3, 4, 5), (5, 6)
    pair, prompts = Pair.of(edge, cloud), (table_prompt(edge), lambda: table_prompt(cloud))
    config = settings(mode="hybrid", max_new_tokens=24, min_new_tokens=6, loop_period=0)
    tracks = record_tracks(pair, config, *prompts, GROUPS)
    for gate, track in zip(("never", "always"), tracks, strict=True):
        given = settings(mode="hybrid", max_new_tokens=24, min_new_tokens=6, loop_period=0, gate=gate)
        _, finished = collect(pair.new_loop(given, prompts).events())
        assert finished.token_ids == track.ids


def test_the_part_that_is_recorded_is_the_part_that_is_captioned(tmp_path):
    path = str(write_voice(tmp_path / "a.wav", 3, 3.0))
    part = {"audio__start_s": 1.5, "audio__end_s": 2.5}
    pair = captioner(**part)
    trace = record(pair, path)
    for mode, track in (("edge", trace.edge), ("cloud", trace.cloud)):
        assert pair.decode(track.ids) == captioner(decoding__mode=mode, **part).caption(path).caption
    assert trace.duration_s == 1.0
