"""Nothing but a ConfigError comes out of a malformed config, and it says where."""

import random
from typing import Any

import pytest
import yaml

from specdec_cli.config import SETTINGS, load_config
from specdec_cli.errors import ConfigError
from tests.config.conftest import BASE, assert_refused

SYNTAX = [
    "decoding: {k: [1, 2\n",
    "prompt: {text: 'so on\n",
    'prompt: {text: "\\q"}\n',
    "decoding:\n  k: 3\n mode: edge\n",
    "---\nedge: {model: a/b}\n---\nedge: {model: a/b}\n",
    "decoding: *nothing\n",
    "runtime: &a {threads: 1}\ndecoding: {<<: *a}\n",
    "decoding: !!python/object/apply:os.getcwd []\n",
    "decoding: {k: !!int many}\n",
    "decoding: " + "[" * 5000 + "\n",
    "decoding: {k: \x00}\n",
    "decoding: {[a]: 3}\n",
    "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else 'x'] * 9)}]\n" for i in range(12)),
]
FILES = [
    b"",
    b"qwen\n",
    b"- edge\n- cloud\n",
    BASE.encode("utf-16"),
    BASE.encode() + "prompt: {text: 说话人}\n".encode("gbk"),
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00",
]
WRONG: dict[str, tuple[Any, ...]] = {
    "runtime.threads": (0, True, 2.5),
    "edge.model": ("", "  ", "package:mini", "a\nb", "a\x00b", 3),
    "edge.device": ("gpu", "cuda:1\n"),
    "decoding.k": (0, 65, "3"),
    "decoding.stop_strings": ([""], ["a", 1], "a"),
    "decoding.temperature": (-0.1, float("inf"), float("nan"), "hot", True),
    "decoding.top_p": (0, 1.01),
    "prompt.instruction": ("", " \n", "<|AUDIO|>", "a<|im_end|>b", "<|\n|>", ["a"]),
    "audio.segment": (0, 0.19, -1, True, "", "０．１"),
    "audio.start_s": (-1, "soon", True, "", "1,500"),
}

_MAPPING: dict[str, tuple[Any, ...]] = {"edge.quantization": (5,), "cloud.quantization": (5,)}
"""Settings that take a mapping -> what is wrong in its place."""


@pytest.mark.parametrize(
    "content", [*((BASE + text).encode() for text in SYNTAX), *FILES], ids=lambda content: repr(content)[:80]
)
def test_a_file_that_is_no_config_is_refused_by_name(tmp_path, content):
    path = tmp_path / "my.yaml"
    path.write_bytes(content)
    error = assert_refused(lambda: load_config(path, environ={}))
    assert str(path) in error.message


def test_a_misspelt_setting_and_a_wrong_value_are_refused_with_their_line(tmp_path):
    path = tmp_path / "my.yaml"
    wrong_values = [
        (name, value) for name in SETTINGS for value in (*_MAPPING.get(name, ({"a": 1},)), *WRONG.get(name, ()))
    ]
    for wrong, value in (("decoding.kx", 1), *wrong_values):
        values: dict[str, dict[str, Any]] = {"edge": {"model": "owner/edge"}, "cloud": {"model": "owner/cloud"}}
        section, _, field = wrong.partition(".")
        values.setdefault(section, {})[field] = value
        path.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False))
        assert f"{path}:" in assert_refused(lambda: load_config(path, environ={}), wrong).message


def test_what_is_no_readable_file_is_refused(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    for name in ("folder.yaml", "loop.yaml", "missing.yaml", "long" * 100 + ".yaml"):
        assert_refused(lambda path=tmp_path / name: load_config(path, environ={}))


def test_random_damage_never_escapes_as_another_error(tmp_path):
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
