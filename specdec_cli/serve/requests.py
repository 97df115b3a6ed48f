"""Requests of the OpenAI API as specdec takes them: their fields, and what of them is refused by name."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.exceptions import HTTPException

from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import choices

PREFIX: Final = "specdec/"
"""Begins the name of each model; the mode follows."""

SETTABLE: Final = frozenset(
    {
        *(f"decoding.{name}" for name in SECTIONS["decoding"].model_fields if name not in ("mode", "edge_failed")),
        *(f"gate.{name}" for name in ("name", "threshold", "wake", "stop_drafting")),
        *(f"acceptance.{name}" for name in SECTIONS["acceptance"].model_fields),
        *(f"prompt.{name}" for name in ("language", "style", "force")),
        *(f"audio.{name}" for name in SECTIONS["audio"].model_fields if name != "strict"),
    }
)
"""Settings that a request may change: none of models, devices, files, addresses or tokens."""

_INVALID: Final = "invalid_request_error"


class ApiError(HTTPException):
    """A request that is not answered, as the API says it: status, message, the parameter, a code."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, **headers: str
    ) -> None:
        super().__init__(status, message, {name.replace("_", "-"): value for name, value in headers.items()})
        self.param, self.code = param, code

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        return error_body(self.status_code, self.detail, self.param, self.code)


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error in the API's form."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, _INVALID if status < 500 else "server_error")
    return {"error": {"message": message[:2000], "type": kind, "param": param, "code": code}}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Sound(_Strict):
    """A recording's bytes in base64; they decide what it is, and `format` only has to be one that is taken."""

    data: str = Field(min_length=1)
    format: Literal["wav", "mp3", "flac", "ogg", "m4a"]


class Address(_Strict):
    """A recording as a URL: a data URL (data:audio/wav;base64,...)."""

    url: str = Field(min_length=1)


class SoundPart(_Strict):
    """The recording."""

    type: Literal["input_audio"]
    input_audio: Sound


class AddressPart(_Strict):
    """The recording, in the form that vLLM takes."""

    type: Literal["audio_url"]
    audio_url: Address


class TextPart(_Strict):
    """An instruction, for models that take one of your own."""

    type: Literal["text"]
    text: str


class ChatMessage(_Strict):
    """The user's message, or a system prompt."""

    role: Literal["user", "system", "developer"]
    content: str | list[Annotated[SoundPart | AddressPart | TextPart, Field(discriminator="type")]]

    @property
    def text(self) -> str:
        """All of its text."""
        if isinstance(self.content, str):
            return self.content.strip()
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart)).strip()


class StreamOptions(_Strict):
    """What a stream tells."""

    include_usage: bool = False


class PlainFormat(_Strict):
    """The caption as text, or an object of the caption, its classes, emotions and flags."""

    type: Literal["text", "json_object"]


class NamedSchema(_Strict):
    """A JSON Schema of an object with the properties that are wanted."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")


class SchemaFormat(_Strict):
    """The properties that are wanted of that object."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class ChatRequest(_Strict):
    """What POST /v1/chat/completions takes."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=16)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)
    stop: str | list[str] | None = Field(None, description="at most four texts; a caption ends before the first")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")] | None = None
    n: Literal[1] | None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    modalities: list[Literal["text"]] | None = None
    store: Literal[False] | None = None
    user: str | None = Field(None, description="ignored")
    specdec: dict[str, JsonValue] = Field({}, description="`language`, and settings by their names: decoding.k")

    @classmethod
    def read(cls, body: bytes) -> ChatRequest:
        """The request in a body. Raises ApiError, which names what is not taken."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"]) or None
            if first["type"] == "extra_forbidden":
                hint = "specdec/... models take the fields that /openapi.json lists; their settings stand in `specdec`."
                raise ApiError(400, f"{place} is not supported. {hint}", place, "unsupported_parameter") from None
            says = f"{place or 'The body'}: {first['msg']}."
            raise ApiError(400, says, place, "invalid_value" if place else "invalid_json") from None

    @property
    def settings(self) -> dict[str, object]:
        """The settings that it changes, by dotted name. Raises ApiError for one that it may not."""
        given: dict[str, object] = dict(self.specdec)
        if "language" in given:
            given["prompt.language"] = given.pop("language")
        for name, value in given.items():
            files = name == "gate.name" and value not in choices("gate.name")
            files |= name == "audio.segment" and isinstance(value, str) and value != "pauses"
            if name not in SETTABLE or files:
                says = (
                    f"specdec.{name} may not be set to that" if files else f"specdec.{name} cannot be set by a request"
                )
                hint = "docs/api.md lists the settings of a request; the server's own stand in its configuration."
                raise ApiError(400, f"{says}. {hint}", f"specdec.{name}", "unsupported_parameter")
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        if stop is not None and not (len(stop) <= 4 and all(each and len(each) <= 200 for each in stop)):
            raise ApiError(400, "stop takes at most four texts, of 1 to 200 characters.", "stop", "invalid_value")
        own = {
            "decoding.max_new_tokens": self.max_completion_tokens or self.max_tokens,
            "decoding.temperature": self.temperature,
            "decoding.top_p": self.top_p if self.temperature else None,  # 1 at greedy decoding: many clients send it
            "decoding.seed": self.seed,
            "decoding.stop_strings": stop,
        }
        return given | {name: value for name, value in own.items() if value is not None}

    @property
    def sound(self) -> bytes:
        """The recording's bytes. Raises ApiError where there is not exactly one."""
        parts = [part for message in self.messages if not isinstance(message.content, str) for part in message.content]
        found = [part for part in parts if not isinstance(part, TextPart)]
        if len(found) != 1:
            says = f"A request has one recording, and this one has {len(found)}."
            raise ApiError(400, f"{says} Send one input_audio or audio_url.", "messages", "invalid_audio")
        part = found[0]
        if isinstance(part, AddressPart):
            head, comma, data = part.audio_url.url.partition(",")
            if not (head.startswith("data:") and head.endswith(";base64") and comma):
                says = "audio_url takes a data URL (data:audio/wav;base64,...): this server fetches nothing."
                raise ApiError(400, says, "messages.audio_url.url", "unsupported_url")
        else:
            data = part.input_audio.data
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise ApiError(400, "The recording is not valid base64.", "messages", "invalid_audio") from None

    def instruction(self, *roles: str) -> str | None:
        """The text of the messages of these roles; None where there is none."""
        return "\n".join(message.text for message in self.messages if message.role in roles).strip() or None
