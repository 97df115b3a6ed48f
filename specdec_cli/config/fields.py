"""The kinds of values that settings take, each with the check of one value and how messages describe it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from specdec_cli.config.locate import PACKAGED_GATES, PACKAGED_MODELS
from specdec_cli.times import seconds

SPECIAL_TOKEN: Final = re.compile(r"<\|.*?\|>", re.DOTALL)
"""What the chat templates use for their own marks; a user's text must not hold one."""


def setting(default: Any, description: str, **bounds: Any) -> Any:
    """A setting with its default, its meaning and the bounds of its value, as pydantic's Field takes them."""
    return Field(default=default, description=description, **bounds)


def expected(phrase: str, choices: Sequence[str] = ()) -> Any:
    """Annotation: what a field takes, after "must be", and words that a slip of the pen may have meant."""
    return Field(json_schema_extra={"expected": phrase, "choices": list(choices)})


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode text") from None
    return text


def _instruction(text: str) -> str:
    _encodable(text)
    if not text.strip():
        raise ValueError("is empty: leave it out, or set it to null")
    if found := SPECIAL_TOKEN.search(text):
        raise ValueError(f"holds {found.group()[:40]!r}: marks of that form belong to the chat template")
    return text


def _name(takes: str, packaged: Sequence[str]) -> AfterValidator:
    """Annotation: a name of what is in the package, in a folder or on the hub."""

    def check(name: str) -> str:
        if not name.strip() or not name.isprintable():
            raise ValueError(f"is empty or holds a control character: it takes {takes}")
        if "://" in name:
            raise ValueError(f"is an address, but it takes {takes}; a server is named in cloud.url")
        if name.startswith("package:") and name not in packaged:
            raise ValueError(f"is {name[:60]!r}, but the package has {', '.join(packaged)}")
        return name

    return AfterValidator(check)


AT_PAUSES: Final = "pauses"
"""Value of `audio.segment` that cuts every recording at its pauses."""


def _moment(value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or (isinstance(value, str) and not value):
        return value
    if (found := seconds(value)) is None:
        raise ValueError(f"is {str(value)[:40]!r}, and no time in a recording: give seconds, or HH:MM:SS")
    return found


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no address: write it like https://host:8765") from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not plain:
        raise ValueError("is no address: write it like https://host:8765")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password: put a token into a variable and name it in token_env")
    if parts.query or parts.fragment:
        raise ValueError("holds a ? or a #: an address has neither")
    return url.rstrip("/")


PlainText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_encodable)]
_A_MODEL: Final = "a folder, a hub id or a packaged model"
ModelName = Annotated[PlainText, _name(_A_MODEL, PACKAGED_MODELS), expected(_A_MODEL)]
Instruction = Annotated[str, AfterValidator(_instruction)]
OwnInstruction = Annotated[str, AfterValidator(lambda text: text and _instruction(text))]
FamilyName = Literal[
    "auto",
    "qwen2.5-omni",
    "qwen2-audio",
    "qwen3-omni",
    "gemma4",
    "gemma4-unified",
    "voxtral",
    "audio-flamingo-3",
    "music-flamingo",
    "granite-speech",
]
GateFileName = Annotated[PlainText, _name("a file of specdec tune", PACKAGED_GATES), expected("a gate file")]
Segmenting = Annotated[
    Annotated[float, Field(ge=0.1)] | PlainText,
    expected("pauses, seconds (0.1 or more), or a file of cuts", (AT_PAUSES,)),
]
Moment = Annotated[float, BeforeValidator(_moment), expected("seconds, or HH:MM:SS")]
Url = Annotated[str, AfterValidator(_url), expected("an address")]
VariableName = Annotated[
    str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\z"), expected("a variable's name")
]
Device = Annotated[
    str,
    StringConstraints(pattern=r"\A(auto|cpu|mps|cuda(:[0-9]{1,3})?)\z"),
    expected("one of auto, cpu, mps, cuda, cuda:N", ("auto", "cpu", "mps", "cuda", "cuda:0")),
]


class Section(BaseModel):
    """Base of all sections: frozen, strict about types, no unknown fields, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
