"""`specdec config`: what is in force and where it comes from."""

import re

import pytest

from specdec_cli.config import SETTINGS, load_config, shipped_configs


@pytest.mark.parametrize("name", ["mini", "qwen2.5-omni"])
def test_a_shipped_config_is_valid_and_its_yaml_loads_back(specdec, tmp_path, name):
    shown = specdec("config", "show", "-c", name, "--yaml", "-k", "9", "--set", "prompt.system=快吗：no?")
    assert (shown.code, shown.err) == (0, "")
    path = tmp_path / "shown.yaml"
    path.write_text(shown.out, "utf-8")
    expected = load_config(
        name, flags={"decoding.k": 9, "prompt.system": "快吗：no?"}, environ={"LANG": "zh_CN"}
    ).config
    assert load_config(path, environ={}).config == expected
    assert specdec("config", "show", "-c", path, "--yaml").out == shown.out


def test_show_lists_settings_with_their_values_and_origins(specdec, monkeypatch):
    monkeypatch.setenv("SPECDEC_GATE__THRESHOLD", "0.25")
    given = ("config", "show", "-k", "9")
    every, chosen = (
        {line.split()[0]: line.split()[1:] for line in specdec(*given, *more).lines} for more in (["--all"], [])
    )
    assert set(every) == set(SETTINGS)
    assert chosen == {name: row for name, row in every.items() if row[1:] != ["default"]}
    assert 5 < len(chosen) < 40
    rows = every
    assert rows["decoding.k"] == ["9", "flag", "-k"]
    assert rows["gate.threshold"] == ["0.25", "SPECDEC_GATE__THRESHOLD"]
    assert rows["edge.device"][1].startswith("mini.yaml:")


def test_show_explains_a_section(specdec):
    lines = specdec("config", "show", "decoding").lines
    assert [line.split()[0] for line in lines] == [name for name in SETTINGS if name.startswith("decoding.")]
    for line in lines:
        assert str(SETTINGS[line.split()[0]].description) in line
    wrong = specdec("config", "show", "gat")
    assert (wrong.code, "Did you mean gate?" in wrong.err) == (2, True)


def test_show_names_the_shipped_configurations_and_explains_a_run(specdec):
    """Of the options of a run, so that it explains the command that they would be given to."""
    last = specdec("config", "show").err
    assert re.findall(r"[\w.-]+", last.partition(": ")[2]) == list(shipped_configs())
    rows = {
        line.split()[0]: line.split()[1:] for line in specdec("config", "show", "--gate", "margin", "-l", "zh").lines
    }
    assert rows["gate.name"] == ["margin", "flag", "--gate"]
    assert rows["prompt.language"] == ["zh", "flag", "--language"]
    assert specdec("config", "show", "--set", "serve.idle_s=3").code == 0  # of any command
    assert specdec("config", "show", "--start", "3", "--end", "2", ends=2).err.startswith("error: ")
