"""The document at /openapi.json: the requests and answers of the OpenAI API here."""

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


def document(modes: Iterable[str]) -> dict[str, Any]:
    """The OpenAPI document of a server that offers these modes."""
    request = ChatRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    error = _object(error=_object(message=_TEXT, type=_TEXT, param=_MAYBE, code=_MAYBE))
    names = {"enum": [PREFIX + mode for mode in modes]}
    model = _object(id=names, object={"const": "model"}, created=_COUNT, owned_by=_TEXT)
    models = _object(object={"const": "list"}, data={"type": "array", "items": model})
    schemas = request.pop("$defs") | {"Request": request, "Error": error}
    refused = {"default": _answer("a refusal; docs/api.md has the statuses", _ref("Error"))}
    caption = _answer("the caption", _completion())
    caption["content"]["text/event-stream"] = {"schema": _TEXT}  # with `stream`: a chunk per block, then [DONE]
    body = {"required": True, "content": {"application/json": {"schema": _ref("Request")}}}
    chat = {"operationId": "caption", "requestBody": body, "responses": {"200": caption} | refused}
    every = {"operationId": "models", "responses": {"200": _answer("the models", models)} | refused}
    name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    one = {"operationId": "model", "parameters": [name], "responses": {"200": _answer("the model", model)} | refused}
    return {
        "openapi": "3.1.0",
        "info": {"title": "specdec serve", "version": __version__},
        "security": [{"token": []}, {}],
        "paths": {CHAT: {"post": chat}, MODELS: {"get": every}, f"{MODELS}/{{name}}": {"get": one}},
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _answer(says: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": says, "content": {"application/json": {"schema": schema}}}


def _completion() -> dict[str, Any]:
    message = _object(role={"const": "assistant"}, content=_TEXT, refusal={"type": "null"})
    reason, logprobs = {"enum": ["stop", "length"]}, {"type": ["object", "null"]}
    choice = _object(index={"const": 0}, message=message, finish_reason=reason, logprobs=logprobs)
    usage = _object(prompt_tokens=_COUNT, completion_tokens=_COUNT, total_tokens=_COUNT)
    own = {"type": "object", "description": "docs/api.md describes its fields"}
    head = {"id": _TEXT, "object": {"const": "chat.completion"}, "created": _COUNT, "model": _TEXT}
    return _object(**head, choices={"type": "array", "items": choice}, usage=usage, specdec=own)
