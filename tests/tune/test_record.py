"""Recordings of clips: their texts are those of the decoding loop; their file is read back, or refused."""

import pytest

from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.tune.recording import StoredRecordings, record, record_tracks
from tests.mini_pair import captioner, write_voice
from tests.table import table_prompt
from tests.tiny import collect, settings
from tests.tune.recorded import GROUPS, table_pair, trace_of


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


SETUP: dict[str, object] = {"prompt": "p", "language": "en", "models": {}}


def test_recordings_made_otherwise_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    with StoredRecordings(SETUP, path) as journal:
        journal.add(trace_of(0))
    with pytest.raises(ConfigError, match=r"r\.jsonl:1 was made with other settings: language was .en. and is .zh."):
        StoredRecordings({**SETUP, "language": "zh"}, path)
    with StoredRecordings(SETUP, path) as journal:
        assert list(journal.recordings) == [trace_of(0).sha256]


@pytest.mark.parametrize("line", ['{"recording": 1}', '{"recording":1,"file":"a', '{"schema":1,"file":"/a.wav"}', "[]"])
def test_a_damaged_line_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text(before := f"{trace_of(0).model_dump_json()}\n{line}\n", encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"r.jsonl:2 (was not recorded|is not a transcript)"):
        StoredRecordings(SETUP, path)
    assert path.read_text("utf-8") == before
