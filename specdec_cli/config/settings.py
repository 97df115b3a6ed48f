"""The settings by dotted name (`decoding.k`), and the check of one value on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from specdec_cli.config.problems import nearest, show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it lives, what it takes and what it means.

    Attributes:
        section, field: the two halves of its dotted name.
        expected: what it takes, in words: "a whole number from 1 to 64".
        choices: the words it takes, if it takes only certain ones.
        description: meaning and unit.
        required: whether it has no default.
        default: value where no layer gives one; None if required.
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


def _phrase(schema: Mapping[str, Any]) -> str:
    """What a field of this JSON schema takes, in words."""
    if phrase := schema.get("expected"):
        return str(phrase)
    if "anyOf" in schema:
        return f"{_phrase(schema['anyOf'][0])}, or null"
    if words := _choices(schema):
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    noun = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(schema["type"], "text")
    if schema.keys() >= {"minimum", "maximum"}:
        return f"{noun} from {schema['minimum']:.12g} to {schema['maximum']:.12g}"
    bounds = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "up to"}
    return " ".join([noun, *(f"{word} {schema[bound]:.12g}" for bound, word in bounds.items() if bound in schema)])


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


def check_value(name: str, value: object, origin: str) -> Any:
    """The checked value of a setting; `origin`, for messages, is where it comes from ("mini.yaml:12").

    Raises:
        ConfigError: there is no such setting, or it does not take the value.
    """
    if name not in SETTINGS:
        raise _unknown(name, origin)
    setting = SETTINGS[name]
    required = {other.field: "-" for other in settings_of(setting.section) if other.required}
    try:
        checked = SECTIONS[setting.section].model_validate(required | {setting.field: value})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        reason = f"must be {setting.expected}, not {show(value)}"
        if detail["type"] == "value_error":
            reason = str(detail["ctx"]["error"])
        close = nearest(value, setting.choices) if isinstance(value, str) else None
        hint = f"Did you mean {close}?" if close else f"{name}: {setting.description}."
        raise ConfigError(f"{origin}: {name} {reason}.", hint=hint) from error
    return getattr(checked, setting.field)


def _unknown(name: str, origin: str) -> ConfigError:
    """The error about a dotted name that does not exist, or that is a section."""
    section, _, field = name.partition(".")
    known = [setting.field for setting in settings_of(section)]
    listed = f"Settings in {section}: {', '.join(known)}." if known else f"Sections: {', '.join(SECTIONS)}."
    if known and not field:
        return ConfigError(f"{origin}: {section} is a section, not a setting.", hint=listed)
    close = nearest(field, known)
    elsewhere = [setting.name for setting in SETTINGS.values() if setting.field == (field or section)]
    meant = f"{section}.{close}" if close else next(iter(elsewhere), None) or nearest(name, [*SETTINGS, *SECTIONS])
    hint = f"Did you mean {meant}? {listed}" if meant else listed
    return ConfigError(f"{origin}: there is no setting {show_name(name)}.", hint=hint)
