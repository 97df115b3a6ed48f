"""The JSON object of a caption: its properties, and which of them a request's JSON Schema wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import ApiError

_TYPES: Final = {str: "string", list: "array", type(None): "null"}


def object_schema(lexicon: Lexicon) -> dict[str, dict[str, Any]]:
    """The properties of a caption's JSON object, as JSON Schemas."""
    words = {"type": "array", "items": {"type": "string"}}
    classes = {name: {"type": ["string", "null"], "enum": [*found, None]} for name, found in lexicon.attributes.items()}
    return {"caption": {"type": "string"}, **classes, "emotions": words, "flags": words}


def wanted_properties(schema: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the properties that a JSON Schema of an object lists or requires.

    Raises ApiError if one is not `known`, or if a value of its could break the schema.
    """
    properties, required = schema.get("properties"), schema.get("required") or []
    if not isinstance(properties, dict) or not properties or not isinstance(required, list):
        raise _wrong_schema("needs `properties`", known)
    names = tuple(dict.fromkeys(map(str, (*properties, *required))))
    for name in names:
        if name not in known:
            raise _wrong_schema(f"has no property {name[:100]}", known)
        values = known[name].get("enum", [["a word"] if known[name]["type"] == "array" else "a text"])
        if not all(_allows(properties.get(name, {}), value) for value in values):
            raise _wrong_schema(f"has to allow for {name}: {json.dumps(known[name])}", known)
    return names


def _allows(schema: object, value: str | list[str] | None) -> bool:
    """Whether a value certainly fits a JSON Schema: one with other keywords than these might forbid it."""
    match schema:
        case {"anyOf": [*branches], **rest}:
            return any(_allows(branch, value) for branch in branches) and _allows(rest, value)
        case {"type": str() | [*_] as kinds, **rest}:
            return _TYPES[type(value)] in ([kinds] if isinstance(kinds, str) else kinds) and _allows(rest, value)
        case {"enum": [*values], **rest}:
            return value in values and _allows(rest, value)
        case {"items": dict(items), **rest}:
            return all(_allows(items, each) for each in value or ()) and _allows(rest, value)
    return isinstance(schema, dict) and schema.keys() <= {"title", "description", "default"}


def _wrong_schema(says: str, known: Mapping[str, Any]) -> ApiError:
    message = f"response_format: the object of a caption {says}. Its properties: {', '.join(known)} (docs/api.md)."
    return ApiError(400, message, "response_format", "invalid_json_schema")
