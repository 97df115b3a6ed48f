"""Which recordings, in which order, and what a later run goes on from."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.config import load_config
from specdec_cli.errors import ConfigError, WrongFileError
from specdec_cli.evaluate.modes import MODES, in_mode, parse_modes, richest, turns
from specdec_cli.evaluate.running import StoredRuns, accepting
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.records import Models
from specdec_cli.transcript.shared import SharedFields, loaded_changes
from tests.evaluate.fabricate import CLOUD, EDGE, SETTINGS, digest, failed, made
from tests.support.transcripts import append_transcript


def shared(**settings: object) -> dict[str, SharedFields]:
    flags = {"edge.model": EDGE["name"], "cloud.model": CLOUD["name"]}
    configs = {
        mode: load_config("mini", flags=flags | {"decoding.mode": mode}).config for mode in ("edge", "hybrid", "cloud")
    }
    return {
        mode: SharedFields(config, "en", "Describe the voice.", SETTINGS | settings) for mode, config in configs.items()
    }


def reopened(path: Path, *added: Transcript, **settings: object) -> StoredRuns:
    """A journal that has read these from its file, which is closed."""
    for transcript in added:
        append_transcript(path, transcript)
    with StoredRuns(path, accepting(shared(**settings))) as journal:
        return journal


def refused(made: Callable[[], object]) -> ConfigError:
    with pytest.raises(ConfigError, match="made with other settings") as caught:
        made()
    return caught.value


def test_modes_rotate_so_that_each_comes_first_equally_often():
    recordings = [InputFile(f"{index}.wav", digest(str(index))) for index in range(8)]
    order = list(turns(recordings, MODES, 2))
    assert [recording for recording, _ in order[::4]] == recordings * 2
    modes = [tuple(mode for _, mode in order[at : at + 4]) for at in range(0, len(order), 4)]
    assert all(sorted(each) == sorted(MODES) for each in modes)
    for place in range(4):
        assert Counter(each[place] for each in modes[:8]) == dict.fromkeys(MODES, 2)
    assert modes[0][0] != modes[8][0]  # the same clip begins with another mode the second time


def test_modes_are_parsed_into_the_order_of_tables():
    assert parse_modes("cloud, edge,cloud") == ("edge", "cloud")
    assert [richest(modes) for modes in (("edge", "cloud"), ("edge", "hybrid"), ("lossless", "cloud"))] == [
        "cloud", "hybrid", "lossless"
    ]  # fmt: skip


def test_a_lossy_rule_is_for_hybrid_and_lossless_keeps_its_promise():
    config = load_config("mini", flags={"decoding.acceptance": "rank:4"}, environ={}).config
    assert in_mode(config, "hybrid") == config
    lossless = in_mode(config, "lossless")
    assert (lossless.acceptance_rule, lossless.decoding.mode) == ("greedy", "lossless")
    assert lossless.decoding.k == config.decoding.k


def test_a_journal_knows_what_is_done(tmp_path):
    path = tmp_path / "t.jsonl"
    journal = StoredRuns(None, accepting({}))
    stored = StoredRuns(path, accepting({}))
    edge = made("b", "edge"), made("a", "edge"), made("b", "edge"), failed("c", "edge"), failed("c", "edge")
    for run in (*edge, made("d", "lossless")):
        journal.add(run)
        stored.add(run)
    stored.__exit__(None, None, None)
    again = reopened(path)
    assert [run.file for run in again.transcripts] == ["b", "a", "b", "c"]  # the same failure stands there once
    for known in (journal, again):
        assert known.captioned((digest("b"), None), "edge")
        assert not known.captioned((digest("b"), None), "cloud")
        assert known.refused((digest("c"), None), "edge")
        assert not known.refused((digest("b"), None), "edge")
    order = [InputFile(name, digest(name)) for name in "ab"]
    assert [run.file for run in again.of(order)] == ["a", "b", "b"]


def test_changed_settings_are_named_and_refused(tmp_path):
    """Which changes count is in `tests.captioning.test_output`."""
    path = tmp_path / "t.jsonl"
    append_transcript(path, made("a", "hybrid", settings={"threshold": 0.6}))
    before, error = path.read_bytes(), refused(lambda: reopened(path))
    assert "threshold was 0.6 and is 1.0" in error.message
    assert "--overwrite" in str(error.hint)
    assert path.read_bytes() == before


def test_other_modes_and_failures_under_other_settings_do_not_count(tmp_path):
    path = tmp_path / "t.jsonl"
    runs = made("a", "lossless", settings={"k": 9}), failed("a", "edge")
    assert reopened(path, *runs).transcripts == [runs[1]]
    assert reopened(path, k=3).transcripts == reopened(tmp_path / "none.jsonl").transcripts == []


def test_captions_of_other_models_are_not_mixed_in(tmp_path):
    def run(**changes: object) -> Transcript:
        models = Models.model_validate({"edge": EDGE | changes, "cloud": None})
        return made("a", "edge").model_copy(update={"models": models})

    journal = reopened(tmp_path / "t.jsonl", run(), made("a", "lossless"))
    journal.require(lambda held: loaded_changes(held, run()))
    error = refused(lambda: journal.require(lambda held: loaded_changes(held, run(device="cuda:0"))))
    assert "edge.device was 'cpu' and is 'cuda:0'" in error.message


def test_the_output_of_a_batch_gets_no_lines_of_other_modes(tmp_path):
    """Neither `batch`, `caption`, `review` nor `export` would read it any more."""
    path = tmp_path / "t.jsonl"
    with pytest.raises(WrongFileError, match="has captions of one mode, as caption and batch write them"):
        reopened(path, made("a", "hybrid"))
    assert not list(tmp_path.glob(".specdec-*"))
    with StoredRuns(path, accepting(shared()), overwrite=True) as journal:
        journal.add(made("a", "edge"))
    assert path.read_bytes().count(b"\n") == 1
