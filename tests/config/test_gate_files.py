"""A gate file in place of a gate's name: what it brings, what wins over it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.config import load_config
from specdec_cli.config.gate_file import GateFile, read_gate_file, tokenizer_fingerprint
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


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "e.json").write_text(json.dumps(ENTROPY), encoding="utf-8")
    (tmp_path / "l.json").write_text(json.dumps(LEARNED), encoding="utf-8")
    return tmp_path


def test_a_flag_brings_gate_threshold_k_and_stopping(files: Path) -> None:
    resolved = load_config("mini", flags={"gate.name": str(files / "e.json")}, environ={})
    gate = resolved.config.gate
    assert (gate.name, gate.threshold, gate.stop_drafting, resolved.config.decoding.k) == ("entropy", 0.85, True, 3)
    assert resolved.origin["gate.threshold"] == "flag gate.name, e.json"


def test_the_weights_of_a_learned_one_are_named(files: Path) -> None:
    gate = load_config("mini", flags={"gate.name": str(files / "l.json")}, environ={}).config.gate
    assert (gate.name, gate.threshold, gate.weights_path) == ("learned", 0.25, files / "l.json")


def test_what_is_given_beside_it_wins_and_what_is_given_below_does_not(files: Path) -> None:
    flags: dict[str, object] = {"gate.name": str(files / "e.json"), "gate.threshold": 1.5, "decoding.k": 8}
    config = load_config("mini", flags=flags, environ={}).config
    assert (config.gate.threshold, config.decoding.k, config.gate.stop_drafting) == (1.5, 8, True)
    environ = {"SPECDEC_DECODING__K": "7"}
    assert load_config("mini", flags={"gate.name": str(files / "e.json")}, environ=environ).config.decoding.k == 3


def test_a_config_file_names_one_relative_to_itself(files: Path) -> None:
    own = files / "own.yaml"
    own.write_text("edge: {model: x}\ncloud: {model: y}\ngate: {name: e.json, threshold: null}\n", encoding="utf-8")
    resolved = load_config(own, environ={})
    assert (resolved.config.gate.name, resolved.config.gate.threshold) == ("entropy", 0.85)
    assert resolved.origin["decoding.k"].endswith("own.yaml:3, e.json")
    assert set(resolved.reads) >= {own, files / "e.json"}, "files that no command may write over"
    again = files / "again.yaml"
    again.write_text(resolved.to_yaml(), encoding="utf-8")
    assert load_config(again, environ={}).config == resolved.config


def test_another_gate_by_flag_leaves_the_files_threshold_behind(files: Path) -> None:
    environ = {"SPECDEC_GATE__NAME": str(files / "e.json")}
    config = load_config("mini", flags={"gate.name": "margin"}, environ=environ).config
    assert (config.gate.name, config.gate.threshold) == ("margin", None)


def test_the_learned_gate_needs_its_weights(files: Path) -> None:
    for flags in ({"gate.name": "learned"}, {"gate.file": str(files / "l.json")}):
        assert_refused(
            lambda flags=flags: load_config("qwen2.5-omni", flags=flags, environ={}), "gate.name", "gate.file"
        )


@pytest.mark.parametrize("gate", ["learned", "random"])
@pytest.mark.parametrize("threshold", [-0.01, 1.01, 20])
def test_a_probability_is_between_0_and_1(files: Path, gate: str, threshold: float) -> None:
    name = str(files / "l.json") if gate == "learned" else gate
    flags = {"gate.name": name, "gate.threshold": threshold}
    assert_refused(lambda: load_config("mini", flags=flags, environ={}), "gate.threshold", "from 0 to 1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version"),
        ({"format": "other"}, "format"),
        ({"k": 0}, "k"),
        ({"gate": "always"}, "gate"),
        ({"threshold": "high"}, "threshold"),
        ({"learned": None}, "and no other, has weights"),
        ({"gate": "margin"}, "and no other, has weights"),
        ({"learned": {**LEARNED["learned"], "weights": [1.0]}}, "2 features, but 1 weights"),
        ({"learned": {**LEARNED["learned"], "features": ["a", "a"]}}, "named twice"),
        ({"learned": {**LEARNED["learned"], "combination": "sum"}}, "combination"),
        ({"learned": {**LEARNED["learned"], "weights": [1e308, -1e308]}}, "learned.weights"),
        ({"learned": {**LEARNED["learned"], "bias": 1e308}}, "learned.bias"),
        ({"learned": {**LEARNED["learned"], "slope": -1e308}}, "learned.slope"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps({**LEARNED, **change}), encoding="utf-8")
    assert_refused(lambda: read_gate_file(path), str(path), said)
    assert_refused(lambda: load_config("mini", flags={"gate.name": str(path)}, environ={}), str(path))


@pytest.mark.parametrize("text", ["", "[]", "not json", "\x00", '{"gate": NaN}', None])
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "g.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert_refused(lambda: load_config("mini", flags={"gate.name": str(path)}, environ={}), str(path))


def test_a_file_reads_back_as_it_was_written() -> None:
    for content in (ENTROPY, LEARNED):
        file = GateFile.model_validate(content)
        assert GateFile.model_validate_json(file.to_json()) == file


def test_a_tokenizer_is_known_by_its_pieces_and_their_ids() -> None:
    one = {"a": 0, "b": 1}
    assert tokenizer_fingerprint(one) == tokenizer_fingerprint({"b": 1, "a": 0})
    assert len({tokenizer_fingerprint(v) for v in (one, {"a": 1, "b": 0}, {"a": 0}, {"a": 0, "c": 1})}) == 4
