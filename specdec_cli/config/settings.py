"""The settings by dotted name (`decoding.k`), and the check of one value on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from specdec_cli.config.problems import Problem, nearest, show, show_name
from specdec_cli.config.schema import SECTIONS, Section

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


def _number(noun: str, schema: Mapping[str, Any]) -> str:
    bounds = (schema.get(bound) for bound in ("minimum", "exclusiveMinimum", "maximum"))
    low, above, high = (bound if bound is None or bound % 1 else int(bound) for bound in bounds)
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if above is not None and high is not None:
        return f"{noun} above {above} and at most {high}"
    if low is not None:
        return f"{noun} of at least {low}"
    return noun if above is None else f"{noun} above {above}"


def _phrase(schema: Mapping[str, Any]) -> str:
    """What a field of this JSON schema takes, in words."""
    if said := schema.get("expected"):
        return str(said)
    if "anyOf" in schema:
        return f"{_phrase(schema['anyOf'][0])}, or null"
    if words := _choices(schema):
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if schema["type"] in ("integer", "number"):
        return _number("a whole number" if schema["type"] == "integer" else "a number", schema)
    return "true or false" if schema["type"] == "boolean" else "text"


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if "anyOf" in schema and "choices" not in schema:
        return _choices(schema["anyOf"][0])
    words = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return tuple(schema.get("choices", words))


def _setting(section: str, field: str, schema: Mapping[str, Any], info: FieldInfo) -> Setting:
    inner = schema.get("anyOf", [schema])[0]
    return Setting(
        section=section,
        field=field,
        expected=_phrase(schema),
        choices=_choices(schema),
        description=info.description or "",
        required=info.is_required(),
        default=None if info.is_required() else info.default,
        takes_text=inner.get("type") == "string" and not inner.keys() & {"enum", "const"},
    )


SETTINGS: Final[dict[str, Setting]] = {
    f"{section}.{field}": _setting(section, field, schema, model.model_fields[field])
    for section, model in SECTIONS.items()
    for field, schema in model.model_json_schema()["properties"].items()
}


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
    if isinstance(value, str) and (close := nearest(value, setting.choices)):
        return f"Did you mean {close}?"
    if setting.takes_text and not setting.choices and isinstance(value, _QUOTABLE):
        return f"Put quotes around it to make it text: {show(show(value))}."
    return f"{setting.name}: {setting.description}."


def unknown_setting(name: str, label: str) -> Problem:
    """The problem of a dotted name, or of a section, that does not exist."""
    section, _, field = name.partition(".")
    if section in SECTIONS:
        valid = [setting.field for setting in settings_of(section)]
        listed = f"Settings in {section}: {', '.join(valid)}."
        if not field:
            return Problem(f"{label}: {section} is a section, not a setting.", listed)
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
