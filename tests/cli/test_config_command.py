"""`specdec config`: what is in force and where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.config import SETTINGS, load_config
from tests.cli.conftest import Specdec


@pytest.mark.parametrize("name", ["mini", "qwen2.5-omni"])
def test_a_shipped_config_is_valid_and_its_yaml_loads_back(specdec: Specdec, tmp_path: Path, name: str) -> None:
    valid = specdec("config", "validate", name)
    assert (valid.code, valid.err) == (0, "")
    assert valid.out.endswith(f"{name}.yaml: valid\n")
    shown = specdec("config", "show", "-c", name, "--yaml", "--set", "decoding.k=9", "--set", "prompt.system=快吗：no?")
    assert (shown.code, shown.err) == (0, "")
    path = tmp_path / "shown.yaml"
    path.write_text(shown.out, "utf-8")
    expected = load_config(
        name, flags={"decoding.k": 9, "prompt.system": "快吗：no?"}, environ={"LANG": "zh_CN"}
    ).config
    assert load_config(path, environ={}).config == expected
    assert specdec("config", "validate", path).out == f"{path}: valid\n"
    assert specdec("config", "show", "-c", path, "--yaml").out == shown.out


def test_show_lists_every_setting_with_its_value_and_origin(specdec: Specdec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_GATE__THRESHOLD", "0.25")
    rows = {line.split()[0]: line.split()[1:] for line in specdec("config", "show", "--set", "decoding.k=9").lines}
    assert set(rows) == set(SETTINGS)
    assert rows["decoding.k"] == ["9", "flag", "--set"]
    assert rows["gate.threshold"] == ["0.25", "SPECDEC_GATE__THRESHOLD"]
    assert rows["edge.device"][1].startswith("mini.yaml:")


def test_show_without_a_cloud_says_so(specdec: Specdec) -> None:
    outcome = specdec("config", "show", "--set", "cloud=null", "--set", "decoding.mode=edge")
    (row,) = (line.split() for line in outcome.lines if line.startswith("cloud"))
    assert row[0] == "cloud"
