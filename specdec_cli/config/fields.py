"""The kinds of values that settings take, each with the check of one value."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from specdec_cli.config.locate import PACKAGED
from specdec_cli.times import EITHER, parse

SPECIAL_TOKEN: Final = re.compile(r"<\|.*?\|>", re.DOTALL)
"""Marks of the chat templates, which a user's text must not hold."""

AT_PAUSES: Final = "pauses"
"""Value of `audio.segment` that cuts every recording at its pauses."""


class Section(BaseModel):
    """Base of all sections: frozen, strict about types, no unknown fields, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def setting(default: Any, description: str, **bounds: Any) -> Any:
    """A setting with its default, its meaning and the bounds of its value, as pydantic's Field takes them."""
    return Field(default=default, description=description, **bounds)


def _instruction(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: leave it out, or set it to null")
    if found := SPECIAL_TOKEN.search(text):
        raise ValueError(f"holds {found.group()[:40]!r}: marks of that form belong to the chat template")
    return text


def _temperature(text: str) -> str:
    name, separator, value = text.partition("=")
    try:
        fits = bool(name.strip() and separator) and 0.05 <= float(value) <= 20.0
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"holds {text[:40]!r}, which is not of the form emotion=1.5, with a number from 0.05 to 20")
    return text


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        fits = False
    if not fits or not url.isascii() or not url.isprintable() or set(url) & set(" ?#@"):
        raise ValueError(
            "is not an address: write it like https://host:8765, and put an access token into the variable token_env"
        )
    return parts.scheme + url[len(parts.scheme) :].rstrip("/")  # https, however it was written


def _model_name(name: str) -> str:
    if "://" in name:
        return _url(name)
    known = not name.startswith("package:") or name in PACKAGED
    if not name.strip() or not name.isprintable() or not known:
        takes = "a folder, a hub id, package:mini/edge, package:mini/cloud or https://host:port"
        raise ValueError(f"is {name[:60]!r}, but it takes {takes}")
    return name


def _moment(value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or value == "":
        return value
    if isinstance(value, str) and EITHER.fullmatch(value):
        raise ValueError(f"is {value!r}, which may be {value.replace(',', '.')} s or {value.replace(',', '')} s")
    if (found := parse(value)) is None:
        raise ValueError(f"is {str(value)[:40]!r}, which is not a time in a recording: give seconds, or HH:MM:SS")
    return found


_Text = Annotated[str, StringConstraints(max_length=1 << 20)]  # any bound makes pydantic refuse invalid Unicode
PlainText = Annotated[_Text, StringConstraints(min_length=1)]
Texts = Annotated[tuple[PlainText, ...], Field(strict=False)]
Temperatures = Annotated[tuple[Annotated[PlainText, AfterValidator(_temperature)], ...], Field(strict=False)]
ModelName = Annotated[PlainText, AfterValidator(_model_name)]
Instruction = Annotated[_Text, AfterValidator(_instruction)]
OwnInstruction = Annotated[_Text, AfterValidator(lambda text: text and _instruction(text))]
SegmentAt = Annotated[float, Field(ge=0.2)] | PlainText  # equal pieces last half of it or more, and 0.1 s is the least
Number = Annotated[int, Field(ge=1, le=65_535)]
Tokens = Annotated[int, Field(ge=1, le=64)]
Flight = Annotated[int, Field(ge=1, le=1024)]
Toggle = Literal["auto", "on", "off"]
Moment = Annotated[float, BeforeValidator(_moment)]
VariableName = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\z")]
Device = Annotated[str, StringConstraints(pattern=r"\A(auto|balanced|sequential|cpu|mps|cuda(:[0-9]{1,3})?)\z")]
