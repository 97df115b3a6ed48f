"""Defaults < file < environment < flags, and where each value says it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.config import SETTINGS, load_config
from specdec_cli.errors import ConfigError
from tests.config.conftest import BASE, Load, Refusal, assert_refused


def test_each_layer_wins_over_the_one_before(load: Load) -> None:
    text = "decoding:\n  k: 2\n"
    env = {"SPECDEC_DECODING__K": "3"}
    seen = [
        load(),
        load(text),
        load(text, env=env),
        load(text, env=env, decoding__k=4),
    ]
    assert [resolved.config.decoding.k for resolved in seen] == [5, 2, 3, 4]
    labels = [resolved.origin["decoding.k"].rpartition("/")[2] for resolved in seen]
    assert labels == ["default", "my.yaml:6", "SPECDEC_DECODING__K", "flag decoding.k"]


def test_flag_is_named_as_the_user_spells_it() -> None:
    resolved = load_config("mini", flags={"decoding.k": 3}, environ={}, flag_names={"decoding.k": "-k"})
    assert resolved.origin["decoding.k"] == "flag -k"
    with pytest.raises(ConfigError, match=r"flag -k: decoding\.k must be auto, or a whole number from 1 to 64, not 0"):
        load_config("mini", flags={"decoding.k": 0}, environ={}, flag_names={"decoding.k": "-k"})


@pytest.mark.parametrize("name", ["default.yaml", "flag x.yaml"])
def test_a_file_is_a_file_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(f"{BASE}prompt:\n  language: zh\ndecoding:\n  mode: edge\ngate:\n  threshold: 0.2\n", "utf-8")
    config = load_config(name, environ={"LANG": "en_US.UTF-8"}).config  # mode edge ignores the threshold of a file
    assert (config.prompt.language, config.decoding.mode) == ("zh", "edge")
    Path(name).write_text("edge:\n  dtype: float32\n", "utf-8")
    assert_refused(lambda: load_config(name, environ={}), "edge.model is not given", f"{name}:2")


def test_file_origins_are_line_numbers(load: Load) -> None:
    resolved = load("# a comment\n\ngate: {name: margin,\n  threshold: 0.2}\n")
    assert resolved.origin["edge.model"].endswith("my.yaml:2")
    assert resolved.origin["gate.name"].endswith("my.yaml:7")
    assert resolved.origin["gate.threshold"].endswith("my.yaml:8")


def test_shipped_origin_is_the_bare_file_name() -> None:
    resolved = load_config("mini", environ={})
    number = resolved.origin["decoding.k"].removeprefix("mini.yaml:")
    line = resolved.path.read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert f"k: {resolved.config.decoding.k}," in line


def test_rows_are_every_setting_in_order(load: Load) -> None:
    rows = list(load().rows())
    assert [name for name, _, _ in rows] == list(SETTINGS)
    assert all(origin for _, _, origin in rows)


def test_rows_without_a_cloud(load: Load) -> None:
    rows = list(load(cloud=None, decoding__mode="edge").rows())
    assert [row[1:] for row in rows if row[0].startswith("cloud")] == [(None, "flag cloud")]


def test_cloud_comes_back_in_a_stronger_layer(load: Load) -> None:
    text = "decoding: {mode: edge}\n"
    resolved = load(text, env={"SPECDEC_CLOUD": "null"}, cloud__model="package:mini/cloud", decoding__mode="hybrid")
    assert resolved.config.cloud is not None
    assert resolved.origin["cloud.dtype"] == "default"


def test_cloud_null_and_a_cloud_setting_in_one_layer(refusal: Refusal) -> None:
    error = refusal(cloud=None, cloud__model="package:mini/cloud")
    assert "cloud is null, but cloud.model is given" in error.message


def test_all_problems_are_reported_together(refusal: Refusal) -> None:
    error = refusal("decoding: {k: 0, mode: fast}\n", env={"SPECDEC_CLOUD__TIMEOUT_S": "soon"}, gate__name="x")
    assert "decoding.k" in error.message
    assert "3 more problems" in error.message
    assert error.hint is not None
    for name in ("decoding.mode", "SPECDEC_CLOUD__TIMEOUT_S", "gate.name"):
        assert name in error.hint


@pytest.mark.parametrize(
    ("text", "flags", "reset", "value"),
    [
        ("gate: {name: entropy, threshold: 2.0}\n", {"gate__name": "margin"}, "gate.threshold", 0.3),
        ("gate: {name: entropy, threshold: 2.0}\n", {"gate__name": "entropy"}, "gate.threshold", 2.0),
        ("gate: {threshold: 2.0}\n", {"gate__name": "margin", "gate__threshold": 0.5}, "gate.threshold", 0.5),
        ("prompt: {text: Hello}\n", {"prompt__style": "default"}, "prompt.text", None),
        ("decoding: {temperature: 1.0, top_p: 0.9}\n", {"decoding__temperature": 0.5}, "decoding.top_p", 0.9),
    ],
)
def test_a_choice_resets_what_was_written_for_another(
    load: Load, text: str, flags: dict[str, object], reset: str, value: object
) -> None:
    _, found, origin = next(row for row in load(text, **flags).rows() if row[0] == reset)
    assert found == value
    assert origin.startswith("default") == (value in (None, 0.3))


def test_another_model_forgets_the_revision(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("edge: {model: owner/one, revision: abc, device: cpu}\ndecoding: {mode: edge}\n")
    edge = load_config(path, flags={"edge.model": "owner/two"}, environ={}).config.edge
    assert edge is not None
    assert (edge.model, edge.revision, edge.device) == ("owner/two", None, "cpu")


def test_unknown_flag_names_the_nearest(refusal: Refusal) -> None:
    assert "Did you mean decoding.max_new_tokens?" in str(refusal(decoding__max_new_token=3).hint)


def test_paths_are_accepted_as_flag_values(load: Load, tmp_path: Path) -> None:
    assert load(edge__model=tmp_path).config.edge.model == str(tmp_path)
