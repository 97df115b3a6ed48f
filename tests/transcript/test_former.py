"""What 0.1 wrote is read, validated and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from specdec_cli.compare.journal import Journal
from specdec_cli.compare.plan import in_mode, terms
from specdec_cli.config import load_config
from specdec_cli.errors import ConfigError
from specdec_cli.transcript.schema import Transcript, json_schema
from specdec_cli.transcript.terms import Terms, differing, recorded_settings
from specdec_cli.types import Mode
from tests.compare.fabricate import made
from tests.transcript.lines import read_transcripts

FORMER = Path(__file__).parent / "v0.1.jsonl"  # one clip in each mode, by `specdec caption --output` of 0.1.0
MODES: tuple[Mode, ...] = ("edge", "hybrid", "lossless", "cloud")


def test_lines_of_0_1_are_read_and_valid() -> None:
    transcripts = list(read_transcripts(FORMER))
    assert [transcript.mode for transcript in transcripts] == list(MODES)
    schema = json_schema()
    for transcript, line in zip(transcripts, FORMER.read_text(encoding="utf-8").splitlines(), strict=True):
        jsonschema.validate(json.loads(line), schema)
        assert transcript.totals is not None
        assert transcript.totals.near_ties is None
        assert Transcript.model_validate_json(transcript.to_json()) == transcript


def test_everything_that_0_1_required_is_still_there() -> None:
    written = json.loads(FORMER.read_text(encoding="utf-8").splitlines()[1])
    now = json.loads(made("a", "hybrid").to_json())
    assert written.keys() <= now.keys()
    for part in ("totals", "timing", "resources", "uplink"):
        assert written[part].keys() <= now[part].keys()
    assert written["rounds"][0].keys() <= now["rounds"][0].keys()


def test_a_comparison_goes_on_from_what_0_1_wrote(tmp_path: Path) -> None:
    chosen = {"gate.name": "entropy", "gate.threshold": 1.0, "decoding.k": 2}  # what the mini pair's were then
    config = load_config("mini", flags=chosen, environ={}).config
    path = Path(shutil.copy(FORMER, tmp_path))
    with Journal(path, terms({mode: in_mode(config, mode) for mode in MODES})) as journal:
        assert [transcript.mode for transcript in journal.transcripts] == list(MODES)


@pytest.mark.parametrize(
    ("name", "value", "then"), [("repetition_penalty", 1.1, "1.0"), ("no_repeat_ngram", 3, "0"), ("k", 3, "2")]
)
def test_a_setting_that_0_1_had_otherwise_is_refused(tmp_path: Path, name: str, value: object, then: str) -> None:
    config = load_config("mini", flags={f"decoding.{name}": value}, environ={}).config
    with pytest.raises(ConfigError, match=f"{name} was") as refused:
        Journal(Path(shutil.copy(FORMER, tmp_path)), terms({"hybrid": config}))
    assert f"{name} was {then} and is {value}" in refused.value.message


def test_lossless_lines_without_deferred_drafts_go_on() -> None:
    config = load_config("mini", flags={"decoding.mode": "lossless"}, environ={}).config
    former = next(line for line in read_transcripts(FORMER) if line.mode == "lossless").model_dump(mode="json")
    changed = [name for name, _, _ in Terms.of(config).changes(former, models=False)]
    assert recorded_settings(config)["defer"]
    assert "defer" not in changed
    assert "k" not in changed


def test_settings_that_do_nothing_equal_those_left_open() -> None:
    former = next(iter(read_transcripts(FORMER))).settings
    config = in_mode(load_config("mini", environ={}).config, "edge")
    assert former["repetition_penalty"] == 1.0
    assert recorded_settings(config)["repetition_penalty"] is None
    assert list(differing(former, recorded_settings(config))) == []
