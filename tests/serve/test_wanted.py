"""Which JSON Schemas a caption's object keeps, whatever the caption says."""

import json
from typing import Any

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.caption_object import object_schema
from specdec_cli.serve.requests import ChatRequest

KNOWN = object_schema(Lexicon.shipped())
PITCH = [*Lexicon.shipped().attributes["pitch"], None]


def wanted(schema: dict[str, Any]) -> tuple[str, ...]:
    form = {"type": "json_schema", "json_schema": {"name": "voice", "schema": schema}}
    body = {"model": "specdec/edge", "messages": [{"role": "user", "content": "x"}], "response_format": form}
    return ChatRequest.read(json.dumps(body).encode()).wanted(KNOWN)


@pytest.mark.parametrize(
    "pitch",
    [
        {},
        {"enum": PITCH},
        {"type": ["string", "null"], "enum": [*PITCH, "another"]},
        {"anyOf": [{"type": "string", "enum": PITCH[:-1]}, {"type": "null"}], "title": "Pitch", "default": None},
        {"anyOf": [{"$ref": "#/$defs/Pitch"}, {"type": "null"}]},  # as pydantic writes an Enum
    ],
)
def test_what_allows_every_class_is_kept(pitch):
    words = {"type": "array", "items": {"type": "string"}}
    properties = {"pitch": pitch, "emotions": words, "caption": {"type": "string", "description": "all of it"}}
    shared = {"Pitch": {"type": "string", "enum": PITCH[:-1]}}
    asked = {"type": "object", "properties": properties, "required": ["pitch", "flags"], "$defs": shared}
    assert wanted(asked | {"additionalProperties": False}) == (*properties, "flags")


BROKEN = [
    ("pitch", {"enum": PITCH[1:]}),
    ("pitch", {"type": "string", "enum": PITCH}),  # null is possible
    ("pitch", {"anyOf": [{"type": "string"}]}),
    ("pitch", {"anyOf": []}),
    ("pitch", {"anyOf": {}}),
    ("pitch", {"enum": "low"}),
    ("pitch", {"type": {"a": 1}}),
    ("pitch", True),
    ("pitch", {"$ref": "#/$defs/Pitch"}),
    ("caption", {"type": "string", "maxLength": 10}),
    ("caption", {"type": "array"}),
    ("emotions", {"type": "array", "items": {"enum": ["happy"]}}),
    ("emotions", {"type": "array", "minItems": 1}),
    ("age", {"type": "integer"}),
]
"""A property, and what a caption may break of it."""
REFUSED = [
    *(({"type": "object", "properties": {name: schema}}, name) for name, schema in BROKEN),
    *(
        ({"type": "object", "properties": {"pitch": {}}, name: value}, f"may break {name}")
        for name, value in {"oneOf": [{"required": ["age"]}], "maxProperties": 0, "not": {}}.items()
    ),
    *(
        (schema, "needs `properties`")
        for schema in ({}, {"properties": []}, {"properties": {}}, {"properties": {"pitch": {}}, "required": 1})
    ),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED)
def test_what_a_caption_may_break_is_refused_by_name(schema, said):
    with pytest.raises(ApiError, match=said) as refused:
        wanted(schema)
    assert (refused.value.status_code, refused.value.code) == (400, "invalid_json_schema")
