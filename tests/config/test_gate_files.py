"""A gate file in place of a gate's name: what it brings, what wins over it, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.config import ResolvedConfig, load_config
from specdec_cli.config.gate_file import tokenizer_fingerprint
from tests.config.conftest import assert_refused

ENTROPY: dict[str, Any] = {
    "format": "specdec gate", "version": 1, "gate": "entropy", "threshold": 0.85, "k": 3, "stop_drafting": True,
    "tokenizer": "sha256:0", "fitted_on": {"clips": 100},
}  # fmt: skip
LEARNED = {
    **ENTROPY,
    "gate": "learned",
    "threshold": 0.25,
    "learned": {"features": ["entropy", "id=3"], "weights": [1.0, -2.0], "bias": -1.0, "combination": "any"},
}
DEFERRING = {**ENTROPY, "stop_drafting": False, "defer": True, "wake": 0.7}


@pytest.fixture
def files(tmp_path) -> Path:
    for name, content in {"e": ENTROPY, "l": LEARNED, "d": DEFERRING}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def resolve(gate: Path | str, environ: dict[str, str] | None = None, **more: object) -> ResolvedConfig:
    flags = {"gate.name": str(gate)} | {name.replace("__", "."): value for name, value in more.items()}
    return load_config("mini", flags=flags, environ=environ or {})


def test_a_flag_brings_gate_threshold_k_and_stopping(files):
    resolved = resolve(files / "e.json")
    gate = resolved.config.gate
    assert (gate.name, gate.threshold, gate.stop_drafting, resolved.config.decoding.k) == ("entropy", 0.85, True, 3)
    assert resolved.origin["gate.threshold"] == "flag gate.name, e.json"


def test_what_is_given_beside_it_wins_and_what_is_given_below_does_not(files):
    config = resolve(files / "e.json", gate__threshold=1.5, decoding__k=8).config
    assert (config.gate.threshold, config.decoding.k, config.gate.stop_drafting) == (1.5, 8, True)
    assert resolve(files / "e.json", {"SPECDEC_DECODING__K": "7"}).config.decoding.k == 3


def test_deferral_and_its_threshold_give_way_to_blocks_and_to_a_threshold(files):
    for more, defers, wake in (
        ({}, True, 0.7),
        ({"decoding__k": 8}, False, 0.7),
        ({"decoding__defer": False}, False, 0.7),
        ({"gate__threshold": 1.5}, True, None),
    ):
        config = resolve(files / "d.json", **more).config
        assert (config.decoding.defers, config.gate.wake) == (defers, wake)


def test_a_config_file_names_one_relative_to_itself(files):
    own = files / "own.yaml"
    own.write_text("edge: {model: x}\ncloud: {model: y}\ngate: {name: e.json, threshold: null}\n", encoding="utf-8")
    resolved = load_config(own, environ={})
    assert (resolved.config.gate.name, resolved.config.gate.threshold) == ("entropy", 0.85)
    assert resolved.origin["decoding.k"].endswith("own.yaml:3, e.json")
    assert resolved.reads == [own]
    again = files / "again.yaml"
    again.write_text(resolved.to_yaml(), encoding="utf-8")
    assert load_config(again, environ={}).config == resolved.config


def test_another_gate_by_flag_leaves_the_files_threshold_behind(files):
    config = resolve("margin", {"SPECDEC_GATE__NAME": str(files / "e.json")}).config
    assert (config.gate.name, config.gate.threshold) == ("margin", None)


def test_the_learned_gate_and_its_weights_go_together(files):
    for flags in ({"gate.name": "learned"}, {"gate.file": str(files / "l.json")}):
        refused = assert_refused(lambda flags=flags: load_config("qwen2.5-omni", flags=flags, environ={}))
        assert {"gate.name", "gate.file"} <= set(refused.message.split())


def test_a_probability_is_between_0_and_1(files):
    for name in (files / "l.json", "random"):
        assert_refused(lambda name=name: resolve(name, gate__threshold=1.01), "gate.threshold", "from 0 to 1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version"),
        ({"k": 0}, "k"),
        ({"gate": "always"}, "gate"),
        ({"learned": None}, "and no other, has weights"),
        ({"gate": "margin"}, "and no other, has weights"),
        ({"learned": {**LEARNED["learned"], "weights": [1.0]}}, "2 features, but 1 weights"),
        ({"learned": {**LEARNED["learned"], "weights": [1e308, -1e308]}}, "learned.weights"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(tmp_path, change, said):
    path = tmp_path / "g.json"
    path.write_text(json.dumps({**LEARNED, **change}), encoding="utf-8")
    assert_refused(lambda: resolve(path), str(path), said)


def test_a_tokenizer_is_known_by_its_pieces_and_their_ids():
    one = {"a": 0, "b": 1}
    assert tokenizer_fingerprint(one) == tokenizer_fingerprint({"b": 1, "a": 0})
    assert len({tokenizer_fingerprint(v) for v in (one, {"a": 1, "b": 0}, {"a": 0}, {"a": 0, "c": 1})}) == 4
