"""Nothing but a ConfigError comes out of a malformed config, and it says where."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdec_cli.config import SETTINGS, load_config
from specdec_cli.config.settings import Setting
from specdec_cli.errors import ConfigError
from tests.config.conftest import BASE, assert_refused

SYNTAX = [
    "decoding: {k: [1, 2\n",
    "decoding: }\n",
    "prompt: {text: 'so on\n",
    'prompt: {text: "\\q"}\n',
    "decoding:\n\tk: 3\n",
    "decoding:\n  k: 3\n mode: edge\n",
    "decoding: k: 3\n",
    "decoding\n",
    "decoding: {mode: @edge}\n",
    "---\nedge: {model: a/b}\n---\nedge: {model: a/b}\n",
    "decoding: *nothing\n",
    "runtime: &a {threads: 1}\ndecoding: *a\n",
    "decoding: &a {k: *a}\n",
    "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else 'lol'] * 9)}]\n" for i in range(12)),
    "runtime: &a {threads: 1}\ndecoding: {<<: *a}\n",
    "decoding: !!python/object/apply:os.getcwd []\n",
    "decoding: {k: !!int many}\n",
    "prompt: {text: !!binary '===='}\n",
    "decoding: " + "[" * 5000 + "\n",
    "".join(f"{'  ' * i}a:\n" for i in range(300)),
    "prompt: {text: \x07}\n",
    "decoding: {k: \x00}\n",
    "decoding: !x!y {k: 3}\n",
    "? {a: b}\n: c\n",
    "decoding: {[a]: 3}\n",
    "<<<<<<< HEAD\ndecoding: {k: 3}\n=======\n",
    "[decoding]\nk = 3\n",
    "<!doctype html><title>404</title>\n",
    "decoding: {k: 1, k: 2}\n",
    "edge: {model: x}\n",
]
FILES = [
    b"",
    b"\xef\xbb\xbf",
    b"# edge:\n#   model: x\n",
    b"null\n",
    b"qwen\n",
    b"42\n",
    b"- edge\n- cloud\n",
    BASE.encode("utf-16"),
    BASE.encode() + "prompt: {text: 说话人}\n".encode("gbk"),
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00",
    BASE.encode() + b"# padding\n" * 120_000,
]
OUT_OF_RANGE: dict[str, tuple[Any, ...]] = {
    "runtime.threads": (0,),
    "edge.model": ("", "  ", "package:mini", "a\nb", "a\x00b"),
    "edge.revision": ("",),
    "edge.device": ("gpu", "cuda:x", "CPU", "cuda:1\n"),
    "decoding.k": (0, 65, 10**30),
    "decoding.max_new_tokens": (0,),
    "decoding.sentences": (0,),
    "decoding.stop_strings": ([""], ["a", ""]),
    "decoding.temperature": (-0.1, float("inf"), float("nan")),
    "decoding.top_p": (0, 1.01),
    "decoding.seed": (-1, 2**64),
    "decoding.repetition_penalty": (0,),
    "decoding.loop_repeats": (1,),
    "edge.graphs": ("never", True, None),
    "gate.threshold": (float("nan"),),
    "acceptance.prob": (-0.1, 1.1),
    "prompt.text": ("", " \n", "<|AUDIO|>", "a<|im_end|>b", "<|\n|>"),
    "audio.segment": (0, 0.09, -1),
}
WRONG_TYPES = (True, 3, 2.5, "a word", [1, [2]], [{"a": 1}], {"a": 1}, [None])


def written(settings: dict[str, Any]) -> bytes:
    """A config of both models with some settings."""
    values: dict[str, dict[str, Any]] = {"edge": {"model": "owner/edge"}, "cloud": {"model": "owner/cloud"}}
    for name, value in settings.items():
        section, _, field = name.partition(".")
        values.setdefault(section, {})[field] = value
    return yaml.safe_dump(values, allow_unicode=True, sort_keys=False).encode()


def might_take(setting: Setting, value: Any) -> bool:
    if isinstance(value, bool):
        return setting.expected.startswith("true")
    if isinstance(value, str):
        return ("text" in setting.expected and not setting.expected.startswith("a list")) or "file" in setting.expected
    if isinstance(value, int):
        return "number" in setting.expected or "seconds" in setting.expected
    return isinstance(value, float) and (setting.expected.startswith("a number") or "seconds" in setting.expected)


def misspelt(name: str, rng: random.Random) -> str:
    section, _, field = name.partition(".")
    while True:
        place = rng.randrange(len(field))
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz_-0A")
        wrong = rng.choice((field[:place] + field[place + 1 :], field[:place] + letter + field[place:], field.upper()))
        if wrong and f"{section}.{wrong}" not in SETTINGS:
            return f"{section}.{wrong}"


@pytest.mark.parametrize("content", [*((BASE + text).encode() for text in SYNTAX), *FILES], ids=repr)
def test_a_file_that_is_no_config_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "my.yaml"
    path.write_bytes(content)
    error = assert_refused(lambda: load_config(path, environ={}))
    assert str(path) in error.message


@pytest.mark.parametrize("name", SETTINGS)
def test_a_misspelt_setting_a_wrong_type_and_a_value_out_of_range_are_refused_with_their_line(
    tmp_path: Path, name: str
) -> None:
    path, rng = tmp_path / "my.yaml", random.Random(name)
    wrong = [value for value in WRONG_TYPES if not might_take(SETTINGS[name], value)]
    for settings in (
        {misspelt(name, rng): 1},
        {name: rng.choice(wrong)},
        *({name: value} for value in OUT_OF_RANGE.get(name, ())),
    ):
        path.write_bytes(written(settings))
        error = assert_refused(lambda: load_config(path, environ={}), *settings)
        assert f"{path}:" in error.message
        assert "Input should" not in error.message


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    for name in ("folder.yaml", "loop.yaml", "missing.yaml", "no/such/folder.yaml", "long" * 100 + ".yaml"):
        assert_refused(lambda path=tmp_path / name: load_config(path, environ={}))


def test_random_damage_never_escapes_as_another_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = load_config("mini", environ={}).to_yaml().encode()
    path = tmp_path / "damaged.yaml"
    refused = 0
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(3)] = bytes(
                rng.choices(b"{}[]:,-#&*!|>'\"%@`\t\n ?a0.\x00\xff", k=rng.randrange(3))
            )
        path.write_bytes(bytes(data))
        try:
            load_config(path, environ={})
        except ConfigError:
            refused += 1
    assert refused > 30
