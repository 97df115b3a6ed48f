"""What a config file may hold, how its errors read, and that a dump loads back."""

import pytest

from specdec_cli.config import load_config
from specdec_cli.config.yaml_file import read_value
from tests.config.conftest import BASE, assert_refused


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"decoding.mode": "edge", "cloud": None},
        {"decoding.temperature": 0.7, "decoding.top_p": 1e-7, "decoding.stop_strings": ["1e-3", "yes", "\n", "null"]},
        {"prompt.force": True, "prompt.instruction": "冒号: 与 # 号 \u0085 \x07 'quotes' \"too\" 😀\n"},
        {"edge.model": "owner/one@0123", "cloud.model": "https://cloud.example.org:8765", "cloud.token_env": "TOKEN"},
    ],
)
def test_dump_loads_back_to_the_same(tmp_path, flags):
    first = load_config("mini", flags=flags, environ={})
    path = tmp_path / "dump.yaml"
    path.write_text(first.to_yaml(), encoding="utf-8")
    assert load_config(path, environ={}).config == first.config


def test_bare_name_path_variable_and_default(tmp_path, monkeypatch):
    own = tmp_path / "own.yaml"
    own.write_text(BASE)
    monkeypatch.chdir(tmp_path)
    assert load_config(environ={}).path.name == "mini.yaml"
    assert load_config("own.yaml", environ={"SPECDEC_CONFIG": "mini"}).path == own
    assert load_config(environ={"SPECDEC_CONFIG": "own.yaml"}).path == own
    assert load_config(environ={"SPECDEC_CONFIG": ""}).path.name == "mini.yaml"


def test_missing_file_lists_the_shipped_names():
    error = assert_refused(lambda: load_config(environ={"SPECDEC_CONFIG": "qwen2.5-omny"}), "SPECDEC_CONFIG")
    assert str(error.hint).startswith("Did you mean qwen2.5-omni?")
    assert_refused(lambda: load_config("", environ={}), "no config file ''")


def test_model_folders_count_from_the_place_that_names_them(tmp_path, monkeypatch):
    for folder in ("conf/weights", "here/weights"):
        (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / "conf" / "a.yaml"
    path.write_text("edge: {model: weights}\ncloud: {model: ../x/y/z}\n")
    monkeypatch.chdir(tmp_path / "here")
    config = load_config(path, environ={}).config
    assert config.edge.model == str(tmp_path / "conf" / "weights")
    assert config.cloud.model == str(tmp_path / "x" / "y" / "z")
    flags = {"edge.model": "weights", "cloud.model": "owner/name"}
    config = load_config(path, flags=flags, environ={}).config
    assert config.edge.model == str(tmp_path / "here" / "weights")
    assert config.cloud.source == "owner/name"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("decoding:\n  kk: 3\n", "my.yaml:6: there is no setting decoding.kk", "Did you mean decoding.k?"),
        ("decodin: {}\n", "my.yaml:5: there is no setting decodin", "Did you mean decoding?"),
        (
            "gate: {zzz: 3}\n",
            "no setting gate.zzz",
            "Settings in gate: name, threshold, wake, stop_drafting.",
        ),
        ("decoding: {k: 1, k: 2}\n", "my.yaml:5:18: not valid YAML: 'k' is given twice", ""),
        ("decoding: {mode: hybird}\n", "takes hybrid, lossless, edge, cloud, not 'hybird'", "hybrid?"),
        ("runtime: {offline: yes}\n", "my.yaml:5: runtime.offline takes true or false, not", "never download"),
        ("prompt: {system: 5}\n", "prompt.system takes text or null, not 5", ""),
        ("decoding: {kk: 3, mod: edge}\n", "no setting decoding.kk. (1 more)", "there is no setting decoding.mod."),
        ("decoding: 5\n", "my.yaml:5: decoding is a section", "Settings in decoding: mode, k"),
        ('"\\e[31m": 1\n', "no setting '\\x1b[31m'", ""),
    ],
)
def test_errors_in_a_file(refusal, text, message, hint):
    error = refusal(text)
    assert message in error.message
    assert hint in (error.hint or "")


def test_a_model_needs_a_name(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("decoding: {mode: edge}\n")
    assert_refused(lambda: load_config(path, environ={}), "edge.model", "decoding.mode", "a.yaml:1")
    assert load_config(path, flags={"edge.model": "a/b"}, environ={}).config.cloud is None
    path.write_text("edge: {model: a/b}\ncloud: {dtype: float16}\n")
    assert_refused(lambda: load_config(path, environ={}), "a.yaml:2: cloud.model is not given")
    path.write_text("edge: {dtype: float16}\n")
    assert_refused(lambda: load_config(path, environ={}), "edge.model is not given", "a.yaml:1")


def test_a_file_of_windows_and_sections_without_values(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode() + b"gate:\r\ndecoding: {k: 2}\r\n")
    resolved = load_config(path, environ={})
    assert resolved.config.decoding.k == 2
    assert resolved.origin["decoding.k"].endswith("a.yaml:6")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2024-13-45", "2024-13-45"),
        ("no", "no"),
        ("~", None),
        ("'5'", "5"),
        ("[a, 2]", ["a", 2]),
        ("{a: 1}", "{a: 1}"),
        ("", None),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    read = read_value(text)
    assert read == value
    assert type(read) is type(value)
