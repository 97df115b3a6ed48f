"""The JSON object of a caption: its properties, and which of them a request's JSON Schema names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import ApiError

_TYPES: Final = {str: "string", list: "array", type(None): "null"}
_OF_OBJECT: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$defs", "$schema"}
)
"""Keywords for the whole object; the answer might break any other."""


def object_schema(lexicon: Lexicon) -> dict[str, dict[str, Any]]:
    """The properties of a caption's JSON object, as JSON Schemas."""
    words = {"type": "array", "items": {"type": "string"}}
    classes = {name: {"type": ["string", "null"], "enum": [*found, None]} for name, found in lexicon.attributes.items()}
    return {"caption": {"type": "string"}, **classes, "emotions": words, "flags": words}


def wanted_properties(schema: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the properties that a JSON Schema of an object lists or requires.

    Raises ApiError if one is not `known`, or if a value of its could break the schema.
    """
    properties, required, shared = schema.get("properties"), schema.get("required") or [], schema.get("$defs")
    if not isinstance(properties, dict) or not properties or not isinstance(required, list):
        raise _wrong_schema("needs `properties`", known)
    if beyond := sorted(schema.keys() - _OF_OBJECT):
        raise _wrong_schema(f"may break {beyond[0][:100]}", known)
    names = tuple(dict.fromkeys(map(str, (*properties, *required))))
    for name in names:
        if name not in known:
            raise _wrong_schema(f"has no property {name[:100]}", known)
        values = known[name].get("enum", [["a word"] if known[name]["type"] == "array" else "a text"])
        if not all(_allows(properties.get(name, {}), value, shared) for value in values):
            raise _wrong_schema(f"has to allow for {name}: {json.dumps(known[name])}", known)
    return names


def _allows(schema: object, value: str | list[str] | None, shared: object = None) -> bool:
    """Whether a value certainly fits a JSON Schema: a schema with other keywords might forbid it.

    `shared` are the schemas under `$defs`, which may not refer to others.
    """
    match schema:
        case {"$ref": str() as ref, **rest}:
            name = ref.removeprefix("#/$defs/")
            found = isinstance(shared, dict) and name in shared and _allows(shared[name], value)
            return found and _allows(rest, value, shared)
        case {"anyOf": [*branches], **rest}:
            return any(_allows(branch, value, shared) for branch in branches) and _allows(rest, value, shared)
        case {"type": str() | [*_] as kinds, **rest}:
            fits = _TYPES[type(value)] in ([kinds] if isinstance(kinds, str) else kinds)
            return fits and _allows(rest, value, shared)
        case {"enum": [*values], **rest}:
            return value in values and _allows(rest, value, shared)
        case {"items": dict(items), **rest}:
            return all(_allows(items, each, shared) for each in value or ()) and _allows(rest, value, shared)
    return isinstance(schema, dict) and schema.keys() <= {"title", "description", "default"}


def _wrong_schema(says: str, known: Mapping[str, Any]) -> ApiError:
    message = f"response_format: the object of a caption {says}. Its properties: {', '.join(known)} (docs/api.md)."
    return ApiError(400, message, "response_format", "invalid_json_schema")
