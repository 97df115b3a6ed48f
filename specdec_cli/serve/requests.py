"""The requests of the OpenAI API that specdec takes. Anything else in a request is refused by name."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from specdec_cli.cloud.protocol import Message
from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.schema import SECTIONS
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.caption_object import wanted_properties

PREFIX: Final = "specdec/"
"""Beginning of each model's name; the mode follows."""

SETTABLE: Final = frozenset(
    {
        *(f"decoding.{name}" for name in SECTIONS["decoding"].model_fields if name != "edge_failed"),
        *(f"gate.{name}" for name in SECTIONS["gate"].model_fields if name != "file"),
        *(f"acceptance.{name}" for name in SECTIONS["acceptance"].model_fields),
        *(f"prompt.{name}" for name in ("language", "instruction", "force")),
        *(f"audio.{name}" for name in SECTIONS["audio"].model_fields if name != "strict"),
    }
)
"""Settings that a request may change: none of models, devices, files, addresses or tokens."""


class SoundData(Message):
    """A recording's bytes in base64, or its address as in `audio_url`; the bytes decide what it is, not `format`."""

    data: str
    format: str | None = Field(None, description="ignored")


class Address(Message):
    """A recording as a data URL (data:audio/wav;base64,...), or at a host that the server fetches from."""

    url: str


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
        """The content in parts."""
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class StreamOptions(Message):
    """What a stream adds at its end."""

    include_usage: bool = False


class NamedSchema(Message):
    """A JSON Schema of an object with the wanted properties."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")


class Format(Message):
    """The caption as text, as an object with classes, emotions and flags, or as wanted properties of that object."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(Message):
    """The body of POST /v1/chat/completions."""

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
        """In the API null means no field, even for fields that are not supported."""
        return {name: each for name, each in given.items() if each is not None} if isinstance(given, dict) else given

    @classmethod
    def read(cls, body: bytes) -> ChatRequest:
        """The request in a body. Raises ApiError, which names the field that is not taken."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            # a field may have several forms: the error of the form that fits furthest
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
        """The settings that the request changes, by dotted name. Raises ApiError for one that it may not change.

        A `max_tokens` above `most` means `most`: clients send what their other models can take.
        """
        given: dict[str, object] = dict(self.specdec)
        if "language" in given:
            given["prompt.language"] = given.pop("language")
        for name, value in given.items():
            files = name == "audio.segment" and isinstance(value, str) and value != AT_PAUSES
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
        """The recording's bytes; `fetch` gets those at a URL. Raises ApiError if there is not exactly one recording."""
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
        """The user's instruction and the system prompt, if the request has them, by the names of their settings."""
        found = defaultdict[str, list[str]](list)
        for message in self.messages:
            name = "prompt.instruction" if message.role == "user" else "prompt.system"
            found[name] += [part.text.strip() for part in message.parts if isinstance(part, TextPart)]
        return {name: text for name, lines in found.items() if (text := "\n".join(lines).strip())}

    def wanted(self, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """The properties of the JSON object that the request wants, all of them `known`; none: the caption as text.

        Raises ApiError if the object could break the given schema.
        """
        form = self.response_format
        if form is None or form.type == "text":
            return ()
        if form.type == "json_object":
            return tuple(known)
        return wanted_properties({} if form.json_schema is None else form.json_schema.schema_, known)
