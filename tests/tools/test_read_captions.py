"""Texts read as captions, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.read_captions import main

Run = Callable[..., list[str]]

TEXTS = [
    {"id": 1, "lang": "zh", "text": "说话人语速很快，听起来很生气。你觉得呢？"},
    {"id": "b", "lang": "en", "text": "I'm sorry, but I can't hear anything. Could you try again?"},
    {"id": "c", "lang": "en", "text": "声音很低。"},
    {"id": "d", "lang": "zh", "text": ""},
    {"id": "e", "lang": "en", "text": "\ud800\u0000<|im_end|> \u202e ???"},
]


@pytest.fixture
def run(capsys) -> Run:
    """Runs the command in this process; the lines that it prints."""

    def command(*paths: Path) -> list[str]:
        main(*paths)
        return capsys.readouterr().out.splitlines()

    return command


def write(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_readings_and_their_score(run, tmp_path):
    texts = write(tmp_path / "texts.jsonl", *TEXTS)
    readings = [json.loads(line) for line in run(texts)]
    assert [list(reading) for reading in readings] == [["id", "caption", "labels", "emotions", "flags"]] * 5
    assert readings[0]["caption"] == "说话人语速很快，听起来很生气。"
    assert (readings[0]["labels"]["rate"], readings[0]["labels"]["emotion"]) == ("fast", "angry")
    assert [reading["flags"] for reading in readings[:4]] == [[], ["refusal"], ["language"], ["no_description"]]

    found = write(
        tmp_path / "found.jsonl",
        {
            "id": 1,
            "caption": readings[0]["caption"],
            "refusal": False,
            "language": "zh",
            "labels": {"emotion": ["angry", "sad"], "rate": ["fast"], "pitch": [None]},
        },
        {"id": "b", "caption": "", "refusal": True, "language": "en"},
    )
    assert run(texts, found) == [
        "caption ends where it should: 1 of 2 (50.0%)", "  of those that go on: 1 of 2 (50.0%)",
        "cut short: 0 of 2 (0.0%)", "refusals found: 1 of 1 (100.0%)", "refusals made up: 0 of 1 (0.0%)",
        "language right: 2 of 2 (100.0%)", "emotion right: 1 of 1 (100.0%)", "  none read: 0 of 1 (0.0%)",
        "rate right: 1 of 1 (100.0%)", "  none read: 0 of 1 (0.0%)", "  made up: 0 of 1 (0.0%)",
    ]  # fmt: skip
