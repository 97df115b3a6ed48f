"""The layout of a line: what the shipped JSON Schema says, and what every mode writes."""

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specdec_cli import Transcript
from specdec_cli.errors import AudioDecodeError
from specdec_cli.transcript import error_transcript, json_schema
from specdec_cli.transcript.records import Models
from tests.mini_pair import MODES
from tests.tiers import named

EVERY = [f"{mode}-{language}" for mode in MODES for language in ("zh", "en")]
CASES = named(EVERY, "hybrid-zh", "lossless-en", "edge-zh", "cloud-en")


def check(line: str) -> dict[str, Any]:
    """The object in a line, once it is known to fit the schema."""
    value: dict[str, Any] = json.loads(line)
    jsonschema.Draft202012Validator(json_schema()).validate(value)
    return value


def failed(message: str = "clip.wav is silent.", file: str = "clip.wav", **places: float) -> Transcript:
    return error_transcript(
        file, AudioDecodeError(message), language="zh", prompt="描述", mode="hybrid",
        models=Models(edge=None, cloud=None), settings={}, **places,
    )  # fmt: skip


def test_the_page_has_every_field():
    page = (Path(__file__).parents[2] / "docs" / "transcripts.md").read_text("utf-8")
    named = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert {field for row in named for field in re.findall(r"`(\w+)", row)} == set(json_schema()["properties"])


def test_the_shipped_file_is_the_schema_of_the_code():
    shipped = files("specdec_cli.transcript").joinpath("schema-1.json").read_text("utf-8")
    assert json.loads(shipped) == json_schema(), "run: python -m tools.reference"


def test_the_schema_is_a_valid_one_and_closed():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(part["additionalProperties"] is False for part in (schema, *schema["$defs"].values()))


@pytest.mark.parametrize("case", CASES)
def test_every_mode_writes_valid_lines(transcripts, case):
    value, (mode, language) = check(transcripts[case].to_json()), case.split("-")
    assert value["schema"] == 1
    assert (value["mode"], value["language"]) == (mode, language)
    assert value["caption"]
    assert "error" not in value
    assert (value["models"]["edge"] is None) == (mode == "cloud")
    assert (value["models"]["cloud"] is None) == (mode == "edge")


def test_an_error_line_is_valid_and_has_no_caption():
    line = failed("clip.wav is\nsilent.", start_s=10.0, end_s=20.0).to_json()
    value = check(line)
    assert "\n" not in line
    assert value["error"] == {"type": "AudioDecodeError", "message": "clip.wav is\nsilent."}
    assert (value["caption"], value["totals"], value["finish_reason"]) == (None, None, None)
    assert (value["start_s"], value["end_s"]) == (10.0, 20.0)
    assert set(value["timing"].values()) == {None}


def test_a_line_is_one_line_of_readable_utf8(transcripts):
    line = transcripts["hybrid-zh"].to_json()
    assert "\n" not in line
    assert "\\u" not in line
    assert transcripts["hybrid-zh"].prompt in line
    assert any("\u4e00" <= character <= "\u9fff" for character in json.loads(line)["caption"])


def test_the_bytes_of_a_file_name_come_back():
    name = "语音/中文.wav".encode("gbk")
    line = failed(f"{os.fsdecode(name)} is empty.", os.fsdecode(name)).to_json()
    line.encode("utf-8")
    value = check(line)
    assert os.fsencode(value["file"]) == name
    assert "\\udc" in value["error"]["message"]  # a sentence, which can be printed
    again = Transcript.from_json(line)
    assert os.fsencode(again.file) == name
    assert again.to_json() == line


@pytest.mark.parametrize("name", ["nul\0.wav", "half\ud83d.wav"])
def test_what_no_file_is_called_is_written_out(name):
    assert check(failed(file=name).to_json())["file"].isprintable()
