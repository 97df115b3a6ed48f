"""Every flag reaches its setting, and wins over variables and files; `specdec config` says where each comes from."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.cli.app import command_named
from specdec_cli.config import SETTINGS, Config, load_config, shipped_configs
from specdec_cli.config import settings as known
from specdec_cli.errors import CheckpointError

FLAGS: list[tuple[list[str], str, object]] = [
    (["--mode", "lossless"], "decoding.mode", "lossless"),
    (["-k", "3"], "decoding.k", 3),
    (["--gate", "margin"], "gate.name", "margin"),
    (["--threshold", "0.25"], "gate.threshold", 0.25),
    (["-k", "whole"], "decoding.k", "whole"),
    (["--set", "decoding.max_new_tokens=40"], "decoding.max_new_tokens", 40),
    (["--set", "decoding.stop_strings=[a, ，]"], "decoding.stop_strings", ("a", "，")),
    (["--edge", "package:mini/edge", "--cloud", "package:mini/cloud"], "edge.model", "package:mini/edge"),
    (["--set", "decoding.fallback=on"], "decoding.fallback", "on"),
    (["--language", "en"], "prompt.language", "en"),
    (["--style", "concise"], "prompt.instruction", "concise"),
    (
        ["--set", "prompt.force=true", "--prompt", "How do they speak: fast?"],
        "prompt.instruction",
        "How do they speak: fast?",
    ),
    (["--segment", "pauses"], "audio.segment", "pauses"),
    (["--segment", "３０"], "audio.segment", 30.0),
    (["--segment", "0,5"], "audio.segment", 0.5),
    (["--start", "１：３０．５"], "audio.start_s", 90.5),
    (["--start", "1:30"], "audio.start_s", 90.0),
    (["--end", "01:00:00.5"], "audio.end_s", 3600.5),
    (["--channel", "each"], "audio.channel", "each"),
    (["--channel", "2"], "audio.channel", 2),
    (["--set", "judging.temperatures=[emotion=1.5]"], "judging.temperatures", ("emotion=1.5",)),
    (["--strict"], "audio.strict", True),
    (["--set", "prompt.force=true", "--set", "prompt.instruction=a: b, c=d"], "prompt.instruction", "a: b, c=d"),
    (["--mode", "edge", "--set", "cloud=null"], "cloud", None),
    (["--config", "mini", "-k", "2"], "decoding.k", 2),
    (["-c", "qwen2.5-omni"], "edge.model", "Qwen/Qwen2.5-Omni-3B"),
]


def value_of(config: Config, name: str) -> object:
    section, _, field = name.partition(".")
    return getattr(getattr(config, section), field) if field else getattr(config, section)


@pytest.fixture
def config_of(monkeypatch, specdec, recordings) -> Callable[..., Config]:
    """The configuration that the models would be loaded with."""

    def run(*arguments: str) -> Config:
        loaded: list[Config] = []

        def load(config: Config, **_: object) -> Captioner:
            loaded.append(config)
            raise CheckpointError("far enough")

        monkeypatch.setattr(Captioner, "load", load)
        outcome = specdec("caption", *arguments, recordings[0])
        assert (outcome.code, outcome.err.splitlines()[-1]) == (3, "error: far enough"), outcome.err
        (config,) = loaded
        return config

    return run


@pytest.mark.parametrize(("arguments", "name", "value"), FLAGS, ids=[" ".join(flag) for flag, _, _ in FLAGS])
def test_a_flag_reaches_its_setting(config_of, arguments, name, value):
    assert value_of(config_of(*arguments), name) == value


def test_every_flag_is_tried_and_sets_what_exists():
    tried = {argument.partition("=")[0] for flags, _, _ in FLAGS for argument in flags}
    taken = {flag for parameter in command_named("caption").params for flag in parameter.opts}
    assert taken & set(known.FLAGS.values()) <= tried
    assert set(known.FLAGS) <= set(SETTINGS)


def test_flags_may_stand_behind_the_files_and_before_them(specdec, recordings, tmp_path):
    outcome = specdec("caption", recordings[0], "-q", "--mode", "edge", recordings[1])
    assert (outcome.code, len(outcome.lines)) == (0, 2)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.wav").write_bytes(Path(recordings[0]).read_bytes())
    outcome = specdec("caption", "-qr", "--mode", "edge", tmp_path)
    assert (outcome.code, len(outcome.lines)) == (0, 1)


def test_variables_reach_their_settings_and_flags_win(config_of, monkeypatch):
    monkeypatch.setenv("SPECDEC_DECODING__K", "7")
    assert config_of().decoding.k == 7
    assert config_of("-k", "2").decoding.k == 2
    monkeypatch.setenv("SPECDEC_CONFIG", "qwen2.5-omni")
    assert config_of().edge.model == "Qwen/Qwen2.5-Omni-3B"


# --- specdec config ---


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
