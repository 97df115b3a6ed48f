"""Defaults < file < environment < flags, and where each value says it came from."""

import pytest

from specdec_cli.config import SETTINGS, load_config
from specdec_cli.decoding.gate import Gate
from tests.config.conftest import assert_refused


def test_each_layer_wins_over_the_one_before(load):
    text = "decoding:\n  k: 2\n"
    env = {"SPECDEC_DECODING__K": "3"}
    seen = [load(), load(text), load(text, env=env), load(text, env=env, decoding__k=4)]
    assert [resolved.config.decoding.k for resolved in seen] == [5, 2, 3, 4]
    labels = [resolved.origin["decoding.k"].rpartition("/")[2] for resolved in seen]
    assert labels == ["default", "my.yaml:6", "SPECDEC_DECODING__K", "flag decoding.k"]


def test_a_flag_is_named_as_the_user_spells_it():
    assert (
        load_config("mini", flags={"decoding.k": 3}, flag_names={"decoding.k": "-k"}).origin["decoding.k"] == "flag -k"
    )
    said = "flag -k: decoding.k takes auto, whole or a whole number from 1 to 64, not 0."
    assert_refused(lambda: load_config("mini", flags={"decoding.k": 0}, flag_names={"decoding.k": "-k"}), said)


def test_file_origins_are_line_numbers(load):
    origin = load("# a comment\n\ngate: {name: margin,\n  threshold: 0.2}\n").origin
    names = ("edge.model", "gate.name", "gate.threshold")
    assert [origin[name].rpartition("/")[2] for name in names] == ["my.yaml:2", "my.yaml:7", "my.yaml:8"]
    assert load_config("mini", environ={}).origin["decoding.k"].startswith("mini.yaml:")


def test_rows_are_every_setting_in_order(load):
    rows = list(load().rows())
    assert [name for name, _, _ in rows] == list(SETTINGS)
    assert all(origin for _, _, origin in rows)
    rows = list(load(cloud=None, decoding__mode="edge").rows())
    assert [row for row in rows if row[0].startswith("cloud")] == [("cloud", None, "flag cloud")]


def test_all_problems_are_reported_together(refusal):
    error = refusal("decoding: {k: 0, mode: fast}\n", env={"SPECDEC_REMOTE__TIMEOUT_S": "soon"}, gate__name="x")
    assert "(3 more)" in error.message
    for name in ("my.yaml:5: decoding.k", "decoding.mode", "SPECDEC_REMOTE__TIMEOUT_S", "gate.name"):
        assert name in f"{error.message} {error.hint}"


@pytest.mark.parametrize("gate", ["entropy", "never"])
def test_a_threshold_stays_with_its_gate(gate):
    given = {"SPECDEC_GATE__NAME": "entropy", "SPECDEC_GATE__THRESHOLD": "1.7", "SPECDEC_GATE__WAKE": "2.5"}
    config = load_config("mini", flags={"gate.name": gate}, environ=given).config
    assert config.gate.wake == 2.5
    assert gate == "never" or Gate.of(config).threshold == 1.7


@pytest.mark.parametrize(
    ("variable", "text", "flags", "refused"),
    [
        ("SPECDEC_GATE__THRESHOLD", "2.0", {"gate__name": "margin"}, "gate.threshold"),
        ("SPECDEC_GATE__THRESHOLD", "2.0", {"gate__name": "margin", "gate__threshold": 0.5}, None),
        ("SPECDEC_GATE__THRESHOLD", "2.0", {"gate__name": "class-entropy"}, None),
        ("SPECDEC_GATE__WAKE", "2.0", {"gate__name": "entropy"}, "gate.wake"),
        ("SPECDEC_GATE__WAKE", "2.0", {"gate__threshold": 0.3}, None),
        ("SPECDEC_CLOUD__INSTRUCTION", "Hm?", {"cloud__model": "owner/two"}, "cloud.instruction"),
        ("SPECDEC_CLOUD__INSTRUCTION", "Hm?", {"cloud__model": "owner/two", "cloud__instruction": None}, None),
        ("SPECDEC_EDGE__DTYPE", "bfloat16", {"edge__model": "owner/two"}, None),
    ],
)
def test_a_setting_that_was_given_for_another_choice_is_refused(load, refusal, variable, text, flags, refused):
    """A stronger place changes one setting at a time: what was given for its earlier value is neither dropped nor
    applied."""
    if refused is None:
        load(env={variable: text}, **flags)
        return
    message = refusal(env={variable: text}, **flags).message
    choice = next(iter(flags)).replace("__", ".")
    assert message.startswith(f"{refused} is ")
    assert f"({variable}), which was given for {choice} " in message


def test_who_chooses_blocks_does_not_defer():
    """The shipped configuration drafts whole captions, to which k does not apply."""
    lossless = {"decoding.mode": "lossless"}
    for flags, defers in (
        ({}, True),
        ({"decoding.k": 2}, False),
        (lossless, True),
        ({**lossless, "decoding.k": 2}, False),
        ({**lossless, "decoding.temperature": 0.5}, False),
    ):
        assert load_config("mini", flags=flags, environ={}).config.decoding.defers == defers
    lower = load_config("mini", flags={"gate.threshold": 0.2}, environ={}).config
    assert Gate.of(lower).wake == 0.2


@pytest.mark.parametrize(
    ("flags", "edge", "cloud", "mode"),
    [
        ({"edge": "mine"}, True, False, "edge"),
        ({"cloud": "mine"}, False, True, "cloud"),
        ({"edge": "mine", "cloud": "package:mini/cloud"}, True, True, "hybrid"),
        ({"edge": "mine", "cloud.model": "http://127.0.0.1:1"}, True, True, "hybrid"),
        ({"edge": "package:mini/edge"}, True, True, "hybrid"),
        ({"edge": "mine", "decoding.mode": "edge"}, True, False, "edge"),
    ],
)
def test_a_model_in_a_folder_stands_alone_as_one_on_the_hub_does(tmp_path, monkeypatch, flags, edge, cloud, mode):
    """Also where its folder declares the mini pair's prompts: the mini pair's other model is none of its pair."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"specdec_prompts": "shipped"}')
    monkeypatch.chdir(tmp_path)
    config = load_config(flags=flags, environ={}).config
    assert (config.edge is not None, config.cloud is not None, config.decoding.mode) == (edge, cloud, mode)
