"""The requests of the OpenAI API that specdec takes. Anything else in a request is refused by name."""

from __future__ import annotations

import binascii
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from specdec_cli.cloud.http import MalformedError, require_few
from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.config.schema import SECTIONS
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.caption_object import wanted_properties
from specdec_cli.text import show

PREFIX: Final = "specdec/"
"""Beginning of each model's name; the mode follows."""

SETTABLE: Final = frozenset(
    {
        *(f"decoding.{name}" for name in SECTIONS["decoding"].model_fields),
        *(f"gate.{name}" for name in SECTIONS["gate"].model_fields),
        *(f"prompt.{name}" for name in ("language", "instruction", "force")),
        *(f"audio.{name}" for name in SECTIONS["audio"].model_fields if name != "strict"),
    }
)
"""Settings that a request may change; models, devices, files, addresses and access tokens are not among them."""

_MOST_SIGNS: Final = 1 << 15  # commas and brackets of a body: a value of its JSON takes up to a kB
_MARK: Final = b"\xef\xbb\xbf"  # a byte order mark, which some editors put before a text
_URL_SAFE: Final = str.maketrans("-_", "+/")


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _in_parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def _uncalled(choice: object) -> object:
    if choice not in (None, "none", "auto"):
        raise ValueError("a caption calls no tool; ask for JSON with response_format (in instructor: Mode.JSON_SCHEMA)")
    return choice


def _empty(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if value:
        raise ValueError("no token is favoured here: leave it out, or empty")
    return value


Count = Annotated[int, BeforeValidator(_whole, json_schema_input_type=float)]


class Lenient(BaseModel):
    """ContentPart of a request. Null means no field, even for fields that are not supported."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {name: each for name, each in given.items() if each is not None} if isinstance(given, dict) else given


class SoundData(Lenient):
    """A recording's bytes in base64, or as a data URL; the bytes decide what it is, not `format`."""

    data: str
    format: str | None = Field(None, description="ignored")


class Address(Lenient):
    """A recording as a data URL: data:audio/wav;base64,..."""

    url: str


class SoundPart(Lenient):
    """The recording."""

    type: Literal["input_audio"]
    input_audio: SoundData


class AddressPart(Lenient):
    """The recording, in the form that vLLM takes."""

    type: Literal["audio_url"]
    audio_url: Address


class TextPart(Lenient):
    """An instruction, for models that take one of your own."""

    type: Literal["text"]
    text: str


ContentPart = Annotated[SoundPart | AddressPart | TextPart, Field(discriminator="type")]


class Asking(Lenient):
    """The user's message, or a system prompt."""

    role: Literal["user", "system", "developer"]
    name: str | None = Field(None, description="ignored")
    content: Annotated[
        list[ContentPart],
        Field(fail_fast=True, max_length=64),
        BeforeValidator(_in_parts, json_schema_input_type=str | list[ContentPart]),
    ]


class Earlier(Lenient):
    """An earlier answer, which is left out."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["assistant", "tool", "function"]


class StreamOptions(Lenient):
    """What a stream adds at its end."""

    include_usage: bool = False
    include_obfuscation: bool = Field(False, description="ignored")


class NamedSchema(Lenient):
    """A JSON Schema of an object with the wanted properties."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")


class Format(Lenient):
    """The caption as text, as an object with classes, emotions and flags, or as wanted properties of that object."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(Lenient):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: list[Annotated[Asking | Earlier, Field(discriminator="role")]] = Field(
        min_length=1, max_length=256, fail_fast=True
    )
    max_tokens: Count | None = Field(None, ge=1)
    max_completion_tokens: Count | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: Count | None = Field(None, ge=0, le=2**63 - 1)
    stop: (
        Annotated[
            list[str],
            Field(max_length=4, fail_fast=True),
            BeforeValidator(_listed, json_schema_input_type=str | list[str]),
        ]
        | None
    ) = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = Field(None, ge=0, le=20)
    response_format: Format | None = None
    n: Count | None = Field(None, ge=1, le=1)
    frequency_penalty: float | None = Field(None, ge=0, le=0)
    presence_penalty: float | None = Field(None, ge=0, le=0)
    logit_bias: Annotated[dict[str, JsonValue], AfterValidator(_empty)] | None = None
    modalities: list[Literal["text"]] | None = Field(None, max_length=4, fail_fast=True)
    store: Literal[False] | None = None
    tools: list[dict[str, JsonValue]] | None = Field(
        None, max_length=1024, fail_fast=True, description="ignored: a caption calls none"
    )
    tool_choice: Annotated[Literal["none", "auto"], BeforeValidator(_uncalled)] | None = None
    parallel_tool_calls: bool | None = Field(None, description="ignored")
    user: str | None = Field(None, description="ignored")
    metadata: dict[str, JsonValue] | None = Field(None, description="ignored")
    safety_identifier: str | None = Field(None, description="ignored")
    prompt_cache_key: str | None = Field(None, description="ignored")
    service_tier: str | None = Field(None, description="ignored")
    specdec: dict[str, JsonValue] = Field({}, description="`language`, and settings by their names: decoding.k")

    @classmethod
    def read(cls, body: bytes | bytearray) -> ChatRequest:
        """The request in a body. Raises ApiError, which names the first field that is not taken.

        A wrong body costs no more than its size: its values are few, and reading a list ends at its first wrong item.
        """
        try:
            require_few(body, _MOST_SIGNS)
            whole = body[len(_MARK) :] if body.startswith(_MARK) else body  # a copy only if there is a mark
            return cls.model_validate(from_json(whole, allow_inf_nan=False))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        except MalformedError as error:
            raise ApiError(400, f"The body {error}.", code="invalid_value") from None
        except ValueError as error:
            raise ApiError(400, f"The body is not valid JSON: {error}.", code="invalid_json") from None
        place = _place(first["loc"])
        if first["type"] == "extra_forbidden":
            says = f"{place} is not supported; /openapi.json lists what is, and settings go into specdec."
            raise ApiError(400, says, place, "unsupported_parameter")
        says = first["msg"].removeprefix("Value error, ").replace("after validation, ", "")
        raise ApiError(400, f"{place or 'The body'}: {says}.", place, "invalid_value")

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
                says = f"specdec.{name[:100]} {'takes no file' if files else 'is not a setting of a request'}"
                says = f"{says}; docs/api.md lists those, and the server's configuration has the others."
                raise ApiError(400, says, f"specdec.{name[:100]}", "unsupported_parameter")
            if isinstance(value, list) and len(value) > 16:
                raise ApiError(400, f"specdec.{name} may list 16 values.", f"specdec.{name}", "invalid_value")
        lengths = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(lengths) > 1:
            says = f"max_tokens is {self.max_tokens} and max_completion_tokens {self.max_completion_tokens}: give one."
            raise ApiError(400, says, "max_completion_tokens", "invalid_value")
        length = next(iter(lengths), None)
        own = {
            "decoding.max_new_tokens": length and min(length, most),
            "decoding.temperature": self.temperature,
            "decoding.top_p": self.top_p if self.temperature else None,  # many clients send one with greedy decoding
            "decoding.seed": self.seed,
            "decoding.stop_strings": self.stop,
        }
        own = {name: value for name, value in own.items() if value is not None}
        for name in own.keys() & given.keys():
            both = [[*value] if isinstance(value, list | tuple) else value for value in (given[name], own[name])]
            if both[0] != both[1]:
                says = f"specdec.{name} is {show(both[0])}, and another field of the request says {show(both[1])}"
                raise ApiError(400, f"{says}: give one.", f"specdec.{name}", "invalid_value")
        return given | own

    @property
    def asked(self) -> list[Asking]:
        """The system's messages, and the user's behind the last earlier answer; all if no recording is among them."""
        answers = [at for at, message in enumerate(self.messages) if isinstance(message, Earlier)]
        asked = [(at, message) for at, message in enumerate(self.messages) if isinstance(message, Asking)]
        last = [message for at, message in asked if message.role != "user" or at > max(answers, default=-1)]
        return last if _sounds(last) else [message for _, message in asked]

    def sound(self) -> bytes:
        """The recording's bytes. Raises ApiError if there is not exactly one recording."""
        parts = _sounds(self.asked)
        if len(parts) != 1:
            says = f"A request has one recording, and this one has {len(parts)}: send one input_audio or audio_url."
            raise ApiError(400, says, "messages", "invalid_audio")
        data = part.input_audio.data if isinstance(part := parts[0], SoundPart) else part.audio_url.url
        if isinstance(part, AddressPart) or ":" in data[:64]:
            head, _, data = data.partition(",")
            if not head.lower().startswith("data:"):
                says = "Recordings are not fetched from addresses: send a data URL (data:audio/wav;base64,...)."
                raise ApiError(400, says, "messages", "unsupported_url")
            if not head.lower().endswith(";base64"):
                says = "A recording in a data URL has to be in base64: data:audio/wav;base64,..."
                raise ApiError(400, says, "messages", "invalid_audio")
        try:
            return _decoded(data)
        except ValueError:
            raise ApiError(400, "The recording is not valid base64.", "messages", "invalid_audio") from None

    @property
    def texts(self) -> dict[str, str]:
        """The user's instruction and the system prompt, if the request has them, by the names of their settings."""
        found = defaultdict[str, list[str]](list)
        for message in self.asked:
            name = "prompt.instruction" if message.role == "user" else "prompt.system"
            found[name] += [part.text.strip() for part in message.content if isinstance(part, TextPart)]
        return {name: text for name, lines in found.items() if (text := "\n".join(lines).strip())}

    def left_out(self) -> list[str]:
        """Sentences about fields that do not change the caption."""
        found = ["The tools were left out: a caption calls none."] if self.tools else []
        if any(isinstance(message, Earlier) for message in self.messages):
            found.append("Earlier answers were left out: a caption describes one recording.")
        return found

    def wanted(self, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """The properties of the JSON object that the request names, all of them `known`; empty: the caption as text.

        Raises ApiError if the object could break the given schema.
        """
        form = self.response_format
        if form is None or form.type == "text":
            return ()
        if form.type == "json_object":
            return tuple(known)
        return wanted_properties({} if form.json_schema is None else form.json_schema.schema_, known)


def _sounds(messages: list[Asking]) -> list[SoundPart | AddressPart]:
    return [part for message in messages for part in message.content if not isinstance(part, TextPart)]


def _decoded(data: str) -> bytes:
    """The bytes in base64, padded or not, URL-safe or not, in one line or several. Raises ValueError."""
    if "-" in data or "_" in data:
        data = data.translate(_URL_SAFE)
    if "\n" in data or "\r" in data:
        data = "".join(data.split())
    return binascii.a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True)


def _place(steps: tuple[int | str, ...]) -> str | None:
    """Where an error is, as in messages[0].content[1].text. The item's kind follows its place in a list."""
    found = ""
    for before, step in zip((None, *steps), steps, strict=False):
        if isinstance(step, int):
            found += f"[{step}]"
        elif not isinstance(before, int):
            found += f".{step}"
    return found.removeprefix(".")[:200] or None
