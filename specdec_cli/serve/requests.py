"""Requests of the OpenAI API as specdec takes them: their fields, and what of them is refused by name."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator
from starlette.exceptions import HTTPException

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Message
from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import choices
from specdec_cli.errors import (
    AudioError,
    CloudError,
    ConfigError,
    ContextError,
    EdgeError,
    ScoresError,
    TooLongError,
    typed,
)
from specdec_cli.labels import Lexicon

PREFIX: Final = "specdec/"
"""Begins the name of each model; the mode follows."""

SETTABLE: Final = frozenset(
    {
        *(f"decoding.{name}" for name in SECTIONS["decoding"].model_fields if name != "edge_failed"),
        *(f"gate.{name}" for name in SECTIONS["gate"].model_fields if name != "file"),
        *(f"acceptance.{name}" for name in SECTIONS["acceptance"].model_fields),
        *(f"prompt.{name}" for name in ("language", "style", "force")),
        *(f"audio.{name}" for name in SECTIONS["audio"].model_fields if name != "strict"),
    }
)
"""Settings that a request may change: none of models, devices, files, addresses or tokens."""

_KINDS: Final = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_STATUS: Final = {
    ContextError: 400,
    ScoresError: 400,  # of a model that passed its self-test: a request's settings banned all tokens
    TooLongError: 413,
    AudioError: 400,
    ConfigError: 400,
    CloudError: 503,
    EdgeError: 503,
}
_TYPES: Final = {str: "string", list: "array", type(None): "null"}
_OF_OBJECT: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$defs", "$schema"}
)
"""What a schema may say of the whole object: others than these the answer may break."""


class ApiError(HTTPException):
    """A request that is not answered, as the API says it: a status, a sentence, the parameter, and a code."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message[:2000], headers)
        self.param, self.code = param, code

    @classmethod
    def of(cls, error: BaseException) -> ApiError:
        """What is answered where an error ends a request: specdec's sentence and hint."""
        if isinstance(error, cls):
            return error
        if isinstance(error, HTTPException):
            return cls(error.status_code, error.detail, headers=error.headers)
        if isinstance(error, MalformedError):
            return cls(422, str(error))
        known = typed(error)
        status = next((code for kind, code in _STATUS.items() if isinstance(known, kind)), 500)
        says = known.message if known.hint is None else f"{known.message.removesuffix('.')}. {known.hint}"
        about = "messages" if isinstance(known, AudioError | ContextError) else None
        code = "context_length_exceeded" if isinstance(known, ContextError) else type(known).__name__
        return cls(status, says, about, code)

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """The answer's JSON."""
        kind = _KINDS.get(self.status_code, "invalid_request_error" if self.status_code < 500 else "server_error")
        return {"error": {"message": self.detail, "type": kind, "param": self.param, "code": self.code}}


class SoundData(Message):
    """A recording's bytes in base64, or its address as in `audio_url`; the bytes decide what it is, not `format`."""

    data: str = Field(min_length=1)
    format: str | None = Field(None, description="ignored")


class Address(Message):
    """A recording as a data URL (data:audio/wav;base64,...), or at a host that the server fetches from."""

    url: str = Field(min_length=1)


class SoundPart(Message):
    """The recording."""

    type: Literal["input_audio"]
    input_audio: SoundData


class AddressPart(Message):
    """The recording, in the form that vLLM takes."""

    type: Literal["audio_url"]
    audio_url: Address


class TextPart(Message):
    """An instruction, for models that take one of your own."""

    type: Literal["text"]
    text: str


class ChatMessage(Message):
    """The user's message, or a system prompt."""

    role: Literal["user", "system", "developer"]
    name: str | None = Field(None, description="ignored")
    content: str | list[Annotated[SoundPart | AddressPart | TextPart, Field(discriminator="type")]]

    @property
    def parts(self) -> list[SoundPart | AddressPart | TextPart]:
        """What it says, in parts."""
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class StreamOptions(Message):
    """What a stream tells."""

    include_usage: bool = False


class NamedSchema(Message):
    """A JSON Schema of an object with the properties that are wanted."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")


class Format(Message):
    """The caption as text, an object of it, its classes, emotions and flags, or the wanted properties of that."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(Message):
    """What POST /v1/chat/completions takes."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=16)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: Format | None = None
    n: Literal[1] | None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    modalities: list[Literal["text"]] | None = None
    store: Literal[False] | None = None
    user: str | None = Field(None, description="ignored")
    metadata: dict[str, JsonValue] | None = Field(None, description="ignored")
    safety_identifier: str | None = Field(None, description="ignored")
    prompt_cache_key: str | None = Field(None, description="ignored")
    service_tier: str | None = Field(None, description="ignored")
    parallel_tool_calls: bool | None = Field(None, description="ignored: there are no tools")
    specdec: dict[str, JsonValue] = Field({}, description="`language`, and settings by their names: decoding.k")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """In the API null is the same as no field, also of what is not supported."""
        return {name: each for name, each in given.items() if each is not None} if isinstance(given, dict) else given

    @classmethod
    def read(cls, body: bytes) -> ChatRequest:
        """The request in a body. Raises ApiError, which names what is not taken."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            # of the forms that a field may have, the one that fits furthest
            first = max(error.errors(include_url=False, include_input=False), key=lambda each: len(each["loc"]))
        steps = [str(step) for step in first["loc"] if step != "str" and "[" not in str(step)]
        once = (step for step, before in zip(steps, [None, *steps], strict=False) if step != before)
        place = ".".join(once) or None
        if first["type"] == "extra_forbidden":
            says = f"{place} is not supported; /openapi.json lists what is, and settings stand in specdec."
            raise ApiError(400, says, place, "unsupported_parameter")
        code = "invalid_value" if place else "invalid_json"
        raise ApiError(400, f"{place or 'The body'}: {first['msg']}.", place, code)

    def settings(self, most: int) -> dict[str, object]:
        """The settings that it changes, by dotted name; at most `most` tokens. Raises ApiError for one that it may not.

        A larger `max_tokens` means `most`: clients send what their other models can take.
        """
        given: dict[str, object] = dict(self.specdec)
        if "language" in given:
            given["prompt.language"] = given.pop("language")
        for name, value in given.items():
            files = name == "gate.name" and value not in choices("gate.name")
            files |= name == "audio.segment" and isinstance(value, str) and value != AT_PAUSES
            if name not in SETTABLE or files:
                says = f"specdec.{name[:100]} {'takes no file' if files else 'is no setting of a request'}"
                says = f"{says}; docs/api.md lists those, and the server's configuration has the others."
                raise ApiError(400, says, f"specdec.{name[:100]}", "unsupported_parameter")
        length = self.max_completion_tokens or self.max_tokens
        own = {
            "decoding.max_new_tokens": length and min(length, most),
            "decoding.temperature": self.temperature,
            "decoding.top_p": self.top_p if self.temperature else None,  # many clients send one with greedy decoding
            "decoding.seed": self.seed,
            "decoding.stop_strings": [self.stop] if isinstance(self.stop, str) else self.stop,
        }
        return given | {name: value for name, value in own.items() if value is not None}

    def sound(self, fetch: Callable[[str], bytes]) -> bytes:
        """The recording's bytes, which `fetch` gets of an address. Raises ApiError where there is not exactly one."""
        parts = [part for message in self.messages for part in message.parts if not isinstance(part, TextPart)]
        if len(parts) != 1:
            says = f"A request has one recording, and this one has {len(parts)}: send one input_audio or audio_url."
            raise ApiError(400, says, "messages", "invalid_audio")
        data = part.input_audio.data if isinstance(part := parts[0], SoundPart) else part.audio_url.url
        if isinstance(part, AddressPart) or ":" in data:
            head, _, coded = data.partition(",")
            if not head.lower().startswith("data:"):
                return fetch(data)
            if not head.lower().endswith(";base64"):
                says = "A recording in a data URL has to be in base64: data:audio/wav;base64,..."
                raise ApiError(400, says, "messages", "invalid_audio")
            data = coded
        try:
            return base64.b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:
            raise ApiError(400, "The recording is not valid base64.", "messages", "invalid_audio") from None

    @property
    def texts(self) -> dict[str, str]:
        """The user's instruction and the system prompt, by the names of their settings, where there are such."""
        found = defaultdict[str, list[str]](list)
        for message in self.messages:
            name = "prompt.text" if message.role == "user" else "prompt.system"
            found[name] += [part.text.strip() for part in message.parts if isinstance(part, TextPart)]
        return {name: text for name, lines in found.items() if (text := "\n".join(lines).strip())}

    def wanted(self, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """The properties of the JSON object that is asked for, of those that are `known`; none: the caption as text.

        Raises ApiError where the object could break the given schema.
        """
        form = self.response_format
        if form is None or form.type == "text":
            return ()
        if form.type == "json_object":
            return tuple(known)
        schema = {} if form.json_schema is None else form.json_schema.schema_
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


def object_schema(lexicon: Lexicon) -> dict[str, dict[str, Any]]:
    """The properties of a caption's JSON object, as JSON Schemas."""
    words = {"type": "array", "items": {"type": "string"}}
    classes = {name: {"type": ["string", "null"], "enum": [*found, None]} for name, found in lexicon.attributes.items()}
    return {"caption": {"type": "string"}, **classes, "emotions": words, "flags": words}


def _allows(schema: object, value: str | list[str] | None, shared: object = None) -> bool:
    """Whether a JSON Schema lets a value pass; one with other keywords than these, which may forbid it, does not.

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
