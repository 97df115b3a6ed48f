"""Reading a lexicon file: YAML with the line of every mistake, and nearest names for slips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from specdec_cli.config.problems import Problem, nearest, raise_if_any, show, show_name
from specdec_cli.config.yaml_file import read_yaml
from specdec_cli.errors import ConfigError, LexiconError
from specdec_cli.labels.lexicon_schema import (
    Attribute,
    Fit,
    LanguageWords,
    LexiconFile,
    Markers,
    MarkersByLanguage,
    Near,
    Span,
    WheelGroup,
    Words,
)

SHIPPED: Final = Path(__file__).with_name("default.yaml")
_HELP: Final = "A lexicon holds `schema: 1` and `attributes:`; the head of the shipped one explains every part."
_REASONS: Final = {
    "extra_forbidden": "is not a part of a lexicon",
    "missing": "is missing",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names",
    "model_type": "must be a mapping of names",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
    "too_long": "is too long",
    "too_short": "must not be empty",
    "string_pattern_mismatch": "must be a plain name: lower-case letters, digits and underscores",
}
_Place = tuple[str | int, ...]


def read_lexicon(path: Path | None) -> list[LexiconFile]:
    """The files that make a lexicon, the shipped one first where it is extended.

    Args:
        path: a lexicon file, or None for the shipped one.

    Raises:
        LexiconError: it cannot be read, is malformed, or contradicts itself; names the line, all problems at once.
    """
    if path is None:
        return [_shipped()]
    try:
        own = _read(path)
    except LexiconError:
        raise
    except ConfigError as error:
        hint = error.hint and error.hint.replace("config file", "lexicon")
        raise LexiconError(error.message, hint=hint) from error
    return [_shipped(), own] if own.extends else [own]


@cache
def _shipped() -> LexiconFile:
    return _read(SHIPPED)


def _read(path: Path) -> LexiconFile:
    label = str(path)
    tree, lines = read_yaml(path, label)
    if not isinstance(tree, dict):
        raise LexiconError(f"{label} is no lexicon: it holds {show(tree)}.", hint=_HELP)
    try:
        file = LexiconFile.model_validate(tree)
    except ValidationError as error:
        # a slip in a name is often also a name that is missing: the slip explains it, so it comes first
        found = sorted(error.errors(include_url=False), key=lambda details: details["type"] != "extra_forbidden")
        raise_if_any([_problem(details, label, lines) for details in found])
        raise  # never reached: there was at least one problem
    below = [_shipped()] if file.extends else []
    raise_if_any(
        [Problem(f"{label}:{_line(lines, place)}: {what}", hint) for place, what, hint in _contradictions(file, below)]
    )
    if not file.attributes and not file.extends:
        raise LexiconError(f"{label} has no attributes.", hint=_HELP)
    return file


def _line(lines: dict[_Place, int], place: _Place) -> int:
    """The line of `place`, or of the nearest part around it."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


def _problem(details: ErrorDetails, label: str, lines: dict[_Place, int]) -> Problem:
    place = tuple(part for part in details["loc"] if part != "[key]")
    where = f"{label}:{_line(lines, place)}"
    name = ".".join(str(part) for part in place)
    kind = details["type"]
    if kind == "extra_forbidden":
        known = _names_at(place[:-1])
        hint = _suggestion(str(place[-1]), known) + f"Possible here: {', '.join(known)}."
        return Problem(f"{where}: {show_name(name)} is not a part of a lexicon.", hint)
    reason = _REASONS.get(kind) or details["msg"].removeprefix("Value error, ")
    if kind == "literal_error":
        reason = f"must be {details['ctx']['expected']}, not {show(details['input'])}"
    elif kind in ("string_type", "list_type", "dict_type", "model_type"):
        reason += f", not {show(details['input'])}"
    return Problem(f"{where}: {show_name(name)}: {reason}.", _HELP)


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    return f"Did you mean {close}? " if close else ""


def _names_at(place: _Place) -> list[str]:
    """Names that a file may use at `place`."""
    model: type[BaseModel] = LexiconFile
    if len(place) >= 2 and place[0] == "attributes":
        model = Near if "near" in place else Attribute if len(place) == 2 else LanguageWords
        if place[2:3] == ("wheel",):
            model = WheelGroup
        if place[2:3] == ("measured",):
            model = Span if "classes" in place else Fit
    elif place[:1] == ("markers",):
        model = MarkersByLanguage if len(place) == 1 else Markers
    return [field.alias or name for name, field in model.model_fields.items()]


def _contradictions(file: LexiconFile, below: Sequence[LexiconFile]) -> Iterator[tuple[_Place, str, str]]:
    """Place, message and hint of classes that do not exist, and of words that would mean two classes at once."""
    for name, attribute in file.attributes.items():
        classes = _classes(name, (*below, file))
        place = ("attributes", name)
        if not classes:
            hint = _suggestion(name, [known for other in below for known in other.attributes])
            yield (*place, "classes"), f"attribute {name} has no classes.", hint + "List them: classes: [low, high]."
            continue
        for where, used in _classes_used(attribute):
            if used not in classes:
                hint = _suggestion(used, classes) + f"Its classes: {', '.join(classes)}."
                yield (*place, *where), f"{name} has no class {used}.", hint
        for index, fit in enumerate(attribute.measured):
            for other, used in fit.where.items():
                if used not in _classes(other, (*below, file)):
                    where = (*place, "measured", index, "where", other)
                    yield where, f"{other} has no class {used}.", "Name an attribute and one of its classes."
        for where, words in _word_lists(attribute):
            yield from _doubles((*place, *where), words)
        for language in ("zh", "en"):
            groups: Words = {
                name: [form for forms in getattr(group, language) for form in forms]
                for name, group in attribute.wheel.items()
            }
            for where, message, hint in _doubles((), groups):
                yield (*place, "wheel", where[0], language), message, hint


def _classes(name: str, files: Sequence[LexiconFile]) -> list[str]:
    """Classes of an attribute, none if there is no such attribute."""
    parts = [part for file in files if (part := file.attributes.get(name))]
    return list(dict.fromkeys(known for part in parts for known in part.classes))


def _classes_used(attribute: Attribute) -> Iterator[tuple[_Place, str]]:
    yield from ((("aliases", name), name) for name in attribute.aliases)
    yield from ((("negated", name), used) for name, other in attribute.negated.items() for used in (name, other))
    if attribute.absent is not None:
        yield ("absent",), attribute.absent
    yield from ((("yields", index), name) for index, name in enumerate(attribute.yields))
    groups = attribute.wheel.items()
    yield from ((("wheel", name, "class"), group.class_) for name, group in groups if group.class_ is not None)
    for index, fit in enumerate(attribute.measured):
        yield from ((("measured", index, "classes", name), name) for name in fit.classes)
    yield from (((*where, name), name) for where, words in _word_lists(attribute) for name in words)


def _word_lists(attribute: Attribute) -> Iterator[tuple[_Place, Words]]:
    for language in ("zh", "en"):
        words: LanguageWords = getattr(attribute, language)
        yield (language, "alone"), words.alone
        yield (language, "weak"), words.weak
        for index, group in enumerate(words.near):
            yield (language, "near", index, "words"), group.words


def _doubles(place: _Place, words: Words) -> Iterator[tuple[_Place, str, str]]:
    """Phrases that one list gives to two classes."""
    first: dict[str, str] = {}
    for name, phrases in words.items():
        for index, phrase in enumerate(phrases):
            if (other := first.setdefault(phrase.casefold(), name)) != name:
                message = f"{show(phrase)} stands under {other} and under {name}."
                yield (*place, name, index), message, "Keep one of them."
