"""The document at /openapi.json: what the OpenAI API takes and answers here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from specdec_cli import __version__
from specdec_cli.serve.requests import PREFIX, ChatRequest

MODELS: Final = "/v1/models"
CHAT: Final = "/v1/chat/completions"

_TEXT: Final = {"type": "string"}
_MAYBE: Final = {"type": ["string", "null"]}
_COUNT: Final = {"type": "integer", "minimum": 0}
_REFUSED: Final = {
    400: "a field, a setting or a recording is not taken",
    401: "the token is missing or wrong",
    403: "a page of another site asks",
    404: "no such model",
    408: "the body did not arrive in time",
    413: "the body or the recording is too long",
    429: "as many recordings wait as may: see Retry-After",
    500: "a model failed",
    503: "a model elsewhere does not answer, or the server is full",
}


def document(modes: Iterable[str]) -> dict[str, Any]:
    """The OpenAPI document of a server with models of these modes."""
    request = ChatRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = request.pop("$defs") | {"Request": request, "Error": _error(), "Model": _model(modes)}
    schemas |= {"Completion": _completion()}
    ref = {name: {"$ref": f"#/components/schemas/{name}"} for name in schemas}
    listed = _object(object={"const": "list"}, data={"type": "array", "items": ref["Model"]})
    refused = {str(code): _answer(says, ref["Error"]) for code, says in _REFUSED.items()}
    found = {
        "200": {
            "description": "the caption",
            "content": {
                "application/json": {"schema": ref["Completion"]},
                "text/event-stream": {
                    "schema": _TEXT | {"description": "with `stream`: a chunk per block, then [DONE]"}
                },
            },
        }
    }
    name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    return {
        "openapi": "3.1.0",
        "info": {"title": "specdec serve", "version": __version__},
        "security": [{"token": []}, {}],
        "paths": {
            CHAT: {
                "post": {
                    "operationId": "caption",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": ref["Request"]}}},
                    "responses": found | refused,
                }
            },
            MODELS: {"get": {"operationId": "models", "responses": {"200": _answer("the models", listed)} | refused}},
            MODELS + "/{name}": {
                "get": {
                    "operationId": "model",
                    "parameters": [name],
                    "responses": {"200": _answer("one model", ref["Model"])} | refused,
                }
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _answer(says: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": says, "content": {"application/json": {"schema": schema}}}


def _error() -> dict[str, Any]:
    return _object(error=_object(message=_TEXT, type=_TEXT, param=_MAYBE, code=_MAYBE))


def _model(modes: Iterable[str]) -> dict[str, Any]:
    names = {"enum": [PREFIX + mode for mode in modes]}
    return _object(id=names, object={"const": "model"}, created=_COUNT, owned_by=_TEXT)


def _completion() -> dict[str, Any]:
    message = _object(role={"const": "assistant"}, content=_TEXT, refusal={"type": "null"})
    logprobs = {"type": ["object", "null"], "description": "of committed tokens; -9999: not among the likeliest"}
    choice = _object(index={"const": 0}, message=message, finish_reason={"enum": ["stop", "length"]}, logprobs=logprobs)
    details = _object(audio_tokens=_COUNT, cached_tokens=_COUNT)
    return _object(
        id=_TEXT,
        object={"const": "chat.completion"},
        created=_COUNT,
        model=_TEXT,
        choices={"type": "array", "items": choice, "minItems": 1, "maxItems": 1},
        usage=_object(
            prompt_tokens=_COUNT, completion_tokens=_COUNT, total_tokens=_COUNT, prompt_tokens_details=details
        ),
        specdec={"type": "object", "description": "docs/api.md describes its fields"},
    )
