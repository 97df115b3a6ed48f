"""The layout of a line: what the shipped JSON Schema says, and what every mode writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from specdec_cli import Transcript
from specdec_cli.errors import AudioDecodeError
from specdec_cli.transcript import error_transcript, json_schema
from specdec_cli.transcript.records import Models
from specdec_cli.transcript.terms import suggestions_in_words
from tests.mini_pair import MODES

Transcripts = dict[str, Transcript]


def check(line: str) -> dict[str, Any]:
    """The object in a line, once it is known to fit the schema."""
    value: dict[str, Any] = json.loads(line)
    jsonschema.Draft202012Validator(json_schema()).validate(value)
    return value


def failed(message: str = "clip.wav is silent.", file: str = "clip.wav", **places: float) -> Transcript:
    return error_transcript(
        file,
        AudioDecodeError(message),
        language="zh",
        prompt="描述",
        mode="hybrid",
        models=Models(edge=None, cloud=None),
        settings={},
        **places,
    )


def test_the_shipped_file_is_the_schema_of_the_code() -> None:
    shipped = files("specdec_cli.transcript").joinpath("schema-1.json").read_text("utf-8")
    assert json.loads(shipped) == json_schema(), "run: python -m tools.reference"


def test_the_schema_is_a_valid_one_and_describes_every_field() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    undescribed = [
        f"{owner}.{name}"
        for owner, part in {"Transcript": schema, **schema["$defs"]}.items()
        for name, field in part["properties"].items()
        if "description" not in field and "$ref" not in json.dumps(field) and owner != "EncoderPasses"
    ]
    assert set(undescribed) <= {
        "Transcript.language",
        "Transcript.mode",
        "Transcript.finish_reason",
        "Totals.tokens",
        "Totals.rounds",
        "Uplink.bytes",
    }


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_writes_valid_lines(transcripts: Transcripts, mode: str, language: str) -> None:
    value = check(transcripts[f"{mode}-{language}"].to_json())
    assert value["schema"] == 1
    assert (value["mode"], value["language"]) == (mode, language)
    assert value["caption"]
    assert "error" not in value
    assert (value["models"]["edge"] is None) == (mode == "cloud")
    assert (value["models"]["cloud"] is None) == (mode == "edge")


def test_an_error_line_is_valid_and_has_no_caption() -> None:
    value = check(failed(start_s=10.0, end_s=20.0).to_json())
    assert value["error"] == {"type": "AudioDecodeError", "message": "clip.wav is silent."}
    assert (value["caption"], value["totals"], value["finish_reason"]) == (None, None, None)
    assert (value["start_s"], value["end_s"]) == (10.0, 20.0)
    assert set(value["timing"].values()) == {None}


def test_a_line_is_one_line_of_readable_utf8(transcripts: Transcripts) -> None:
    line = transcripts["hybrid-zh"].to_json()
    assert "\n" not in line
    assert "\\u" not in line
    assert transcripts["hybrid-zh"].prompt in line
    assert any("\u4e00" <= character <= "\u9fff" for character in json.loads(line)["caption"])


def test_line_breaks_inside_a_text_are_escaped() -> None:
    assert "\n" not in failed("two\nlines\r").to_json()


def test_the_bytes_of_a_file_name_come_back() -> None:
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
def test_what_no_file_is_called_is_written_out(name: str) -> None:
    assert check(failed(file=name).to_json())["file"].isprintable()


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_cannot_be_written(transcripts: Transcripts, figure: float) -> None:
    whole = transcripts["hybrid-zh"].model_dump(by_alias=True)
    whole["timing"]["ttft_ms"] = figure
    with pytest.raises(ValidationError, match="finite"):
        Transcript.model_validate(whole)


def test_unknown_fields_and_other_versions_are_refused(transcripts: Transcripts) -> None:
    whole = json.loads(transcripts["hybrid-zh"].to_json())
    for change in ({"mood": "calm"}, {"schema": 2}, {"language": "fr"}):
        with pytest.raises(ValidationError):
            Transcript.model_validate(whole | change)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(json_schema()).validate(whole | change)


def test_the_package_loads_no_torch() -> None:
    code = "import sys, specdec_cli.transcript; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "found", [None, 5, [1], {"edge": 5}, {"x": {}, "y": {"k": 1}}, {"edge": None, "cloud": {"k": [1]}}]
)
def test_damaged_suggestions_are_shown_as_far_as_they_go(found: object) -> None:
    assert all(value.endswith("checkpoint)") for _, value in suggestions_in_words(found))
