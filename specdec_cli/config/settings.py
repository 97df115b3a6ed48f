"""The settings by dotted name (`decoding.k`), those with an option of their own, and error messages about values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from specdec_cli.config.schema import SECTIONS
from specdec_cli.errors import ConfigError
from specdec_cli.text import nearest, show, show_name

SETTINGS: Final[dict[str, FieldInfo]] = {
    f"{section}.{field}": info for section, model in SECTIONS.items() for field, info in model.model_fields.items()
}
"""Dotted name -> type, default and meaning, in the order of the schema."""
FLAGS: Final[Mapping[str, str]] = {
    "edge.model": "--edge",
    "cloud.model": "--cloud",
    "prompt.language": "--language",
    "prompt.instruction": "--prompt",
    "audio.segment": "--segment",
    "audio.start_s": "--start",
    "audio.end_s": "--end",
    "audio.channel": "--channel",
    "audio.strict": "--strict",
    "decoding.mode": "--mode",
    "decoding.k": "-k",
    "gate.name": "--gate",
    "gate.threshold": "--threshold",
}
"""Setting -> its option."""


def _kinds(name: str) -> list[Any]:
    """The types that a setting takes, without their bounds."""
    given: Any = SETTINGS[name].annotation
    kinds = get_args(given) if get_origin(given) in (Union, UnionType) else [given]
    return [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds]


def choices(name: str) -> tuple[str, ...]:
    """The words that a setting takes; none if it takes other values only."""
    return next((get_args(kind) for kind in _kinds(name) if get_origin(kind) is Literal), ())


def takes_text(name: str) -> bool:
    """Whether a setting takes any text, so that it needs no quotes in a variable or an option."""
    return _kinds(name)[0] is str


def takes(name: str) -> str:
    """What a setting takes, in words: "auto or a whole number from 1 to 64"."""
    section, _, field = name.partition(".")
    return _in_words(SECTIONS[section].model_json_schema()["properties"][field])


def _in_words(schema: Mapping[str, Any]) -> str:
    """What a field of this JSON schema takes."""
    if "anyOf" in schema:
        *kinds, last = map(_in_words, schema["anyOf"])
        return f"{', '.join(kinds)} or {last}"
    if words := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(words)
    nouns = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    nouns |= {"array": "a list of texts", "object": "a mapping in a file"}
    bounds = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to" if "minimum" in schema else "up to"}
    limits = [f"{word} {_figure(schema[bound])}" for bound, word in bounds.items() if bound in schema]
    if "minimum" in schema and "maximum" not in schema:
        limits[0] = f"of at least {_figure(schema['minimum'])}"
    return " ".join([nouns.get(schema["type"], schema["type"].replace("string", "text")), *limits])


def _figure(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"


def check_value(name: str, value: object, origin: str) -> None:
    """Raises ConfigError for a value that a setting does not take; `origin` is where it is from ("list.tsv:12")."""
    section, _, field = name.partition(".")
    try:
        SECTIONS[section].model_validate({field: value})
    except ValidationError as error:
        raise next(wrong_values(error, lambda _: origin, section)) from error


def wrong_values(error: ValidationError, origin: Callable[[str], str], *section: str) -> Iterator[ConfigError]:
    """An error for each setting that pydantic refuses in a `section`, or in all; `origin`: the place of a name."""
    found = [(".".join(map(str, (*section, *each["loc"])[:2])), each) for each in error.errors(include_url=False)]
    for name, group in groupby(found, key=lambda pair: pair[0]):
        details = [each for _, each in group]
        value = details[0]["input"]
        if details[0]["type"] == "value_error":  # of a check in `fields`
            reason = str(details[0]["ctx"]["error"])
        else:
            known = {"missing": "is not given", "string_unicode": f"is {show(value)}, which is not valid unicode"}
            reason = known.get(details[0]["type"], f"takes {takes(name)}, not {show(value)}")
        close = nearest(value, choices(name)) if isinstance(value, str) else None
        hint = f"Did you mean {close}?" if close else f"{name}: {SETTINGS[name].description}."
        yield ConfigError(f"{origin(name)}: {name} {reason}.", hint=hint)


def unknown(name: str, origin: str) -> ConfigError:
    """The error about a dotted name that does not exist, or that is a section."""
    section, _, field = name.partition(".")
    known = SECTIONS[section].model_fields if section in SECTIONS else SECTIONS
    listed = f"{f'Settings in {section}' if section in SECTIONS else 'Sections'}: {', '.join(known)}."
    if section in SECTIONS and not field:
        return ConfigError(f"{origin}: {section} is a section, not a setting.", hint=listed)
    elsewhere = [setting for setting in SETTINGS if setting.endswith(f".{field or section}")]
    meant = next(iter(elsewhere), None) or nearest(name, [*SETTINGS, *SECTIONS])
    hint = f"Did you mean {meant}? {listed}" if meant else listed
    return ConfigError(f"{origin}: there is no setting {show_name(name)}.", hint=hint)


def with_flags(text: str) -> str:
    """A text in which the option of every setting follows its name, but not in `decoding.mode=edge`."""
    options = {name: f"{name} ({flag})" for name, flag in FLAGS.items()}
    return re.sub(r"\b[a-z]+\.[a-z_]+\b(?!=)", lambda name: options.get(name[0], name[0]), text)
