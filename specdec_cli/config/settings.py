"""The settings by dotted name (`decoding.k`), and the check of one value on its own."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from specdec_cli.config.problems import Problem, nearest, show, show_name
from specdec_cli.config.schema import SECTIONS, Expected, Section

_QUOTABLE: Final = (bool, int, float)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it lives, what it takes and what it means.

    Attributes:
        section, field: the two halves of its dotted name.
        expected: what it takes, in words: "a whole number from 1 to 64".
        choices: the words it takes, if it takes only certain ones.
        description: meaning and unit.
        required: whether it has no default.
        default: value when nobody gives one; None if required.
        takes_text: whether any text will do, so that an environment variable needs no quoting.
    """

    section: str
    field: str
    expected: str
    choices: tuple[str, ...]
    description: str
    required: bool
    default: object
    takes_text: bool

    @property
    def name(self) -> str:
        """The dotted name."""
        return f"{self.section}.{self.field}"


def _number(noun: str, metadata: Sequence[Any]) -> str:
    low = next((m.ge for m in metadata if isinstance(m, Ge)), None)
    above = next((m.gt for m in metadata if isinstance(m, Gt)), None)
    high = next((m.le for m in metadata if isinstance(m, Le)), None)
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if above is not None and high is not None:
        return f"{noun} above {above} and at most {high}"
    if low is not None:
        return f"{noun} of at least {low}"
    return noun if above is None else f"{noun} above {above}"


def _phrase(annotation: Any, metadata: Sequence[Any]) -> str:
    """What a field of this type takes, in words."""
    if said := next((m.phrase for m in metadata if isinstance(m, Expected)), None):
        return str(said)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        inner = next(a for a in arguments if a is not type(None))
        return f"{_phrase(inner, metadata)}, or null"
    if origin is Annotated:
        return _phrase(arguments[0], [*metadata, *arguments[1:]])
    if origin is Literal:
        return f"one of {', '.join(arguments)}" if len(arguments) > 1 else str(arguments[0])
    if annotation is bool:
        return "true or false"
    if annotation in (int, float):
        return _number("a whole number" if annotation is int else "a number", metadata)
    return "text"


def _choices(annotation: Any, metadata: Sequence[Any]) -> tuple[str, ...]:
    if said := next((m for m in metadata if isinstance(m, Expected)), None):
        return said.choices
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(word for argument in get_args(annotation) for word in _choices(argument, ()))


def _holds_str(annotation: Any) -> bool:
    if annotation is str:
        return True
    inner = get_args(annotation)
    return get_origin(annotation) in (Union, types.UnionType, Annotated) and any(map(_holds_str, inner))


def _setting(section: str, field: str, info: FieldInfo) -> Setting:
    return Setting(
        section=section,
        field=field,
        expected=_phrase(info.annotation, info.metadata),
        choices=_choices(info.annotation, info.metadata),
        description=info.description or "",
        required=info.is_required(),
        default=None if info.default is PydanticUndefined else info.default,
        takes_text=_holds_str(info.annotation),
    )


SETTINGS: Final[dict[str, Setting]] = {
    f"{section}.{field}": _setting(section, field, info)
    for section, model in SECTIONS.items()
    for field, info in model.model_fields.items()
}


REMOVED: Final[dict[str, str]] = {
    "link": "Links are not imitated any more: leave it out. For a slow link, start specdec serve and put a relay in "
    "front of it: python -m specdec_cli.serve.relay",
    "simulate": "Step costs are not imitated any more: leave it out, and measure with models of the wanted size. For "
    "a slow link, put a relay in front of specdec serve: python -m specdec_cli.serve.relay",
}
"""Sections of 0.1 that are gone -> what to do instead."""

_REMOVED_VALUES: Final = {
    ("compile", "off"): "Write null for a decoder that is not compiled.",
    ("compile", "reduce-overhead"): "CUDA graphs are not used any more: use default, or null for no compiling.",
    ("run_on", "auto"): "The number is not chosen any more: give one from 0 to 64; 0 is the default.",
}
"""(field, value) of 0.1 that is gone -> what to give instead."""


def settings_of(section: str) -> Iterator[Setting]:
    """The settings of one section, in the order of the schema."""
    return (setting for setting in SETTINGS.values() if setting.section == section)


def check_value(name: str, value: object, label: str) -> tuple[Any, Problem | None]:
    """The checked value of the setting `name`, or the problem with it.

    Args:
        name: dotted name of a setting that exists.
        value: what was given for it.
        label: where it was given, e.g. "mini.yaml:12".
    """
    setting = SETTINGS[name]
    model: type[Section] = SECTIONS[setting.section]
    filling = {s.field: "-" for s in settings_of(setting.section) if s.required}
    try:
        return getattr(model.model_validate(filling | {setting.field: value}), setting.field), None
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
    if detail["type"] == "value_error":
        reason = str(detail["ctx"]["error"])
        return None, Problem(f"{label}: {name} {reason}.", f"{name}: {setting.description}.")
    message = f"{label}: {name} must be {setting.expected}, not {show(value)}."
    return None, Problem(message, _value_hint(setting, value))


def _value_hint(setting: Setting, value: object) -> str:
    if isinstance(value, str) and (instead := _REMOVED_VALUES.get((setting.field, value))):
        return instead
    if isinstance(value, str) and (close := nearest(value, setting.choices)):
        return f"Did you mean {close}?"
    if setting.takes_text and not setting.choices and isinstance(value, _QUOTABLE):
        return f"Put quotes around it to make it text: {show(show(value))}."
    return f"{setting.name}: {setting.description}."


def unknown_setting(name: str, label: str) -> Problem:
    """The problem of a dotted name, or of a section, that does not exist."""
    section, _, field = name.partition(".")
    if section in REMOVED:
        return Problem(f"{label}: there is no setting {show_name(name)} any more.", REMOVED[section])
    if section in SECTIONS and field:
        valid = [setting.field for setting in settings_of(section)]
        listed = f"Settings in {section}: {', '.join(valid)}."
        close = nearest(field, valid)
        meant = f"{section}.{close}" if close else _elsewhere(field)
    else:
        listed = f"Sections: {', '.join(SECTIONS)}."
        close = nearest(section, SECTIONS)
        meant = f"{close}.{field}" if close and field else close or _elsewhere(field or section)
        meant = meant if "." not in (meant or "") or meant in SETTINGS else close
    asked = f"Did you mean {meant}? " if meant else ""
    return Problem(f"{label}: there is no setting {show_name(name)}.", asked + listed)


def _elsewhere(field: str) -> str | None:
    """A setting of the same field name in whatever section has it."""
    return next((setting.name for setting in SETTINGS.values() if setting.field == field), None)
