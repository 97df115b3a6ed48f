"""What a lexicon file may hold, and reading one; the shipped one, default.yaml, explains every part at its head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from specdec_cli.config.problems import nearest, raise_if_any, show, show_name
from specdec_cli.config.yaml_file import Place, read_yaml
from specdec_cli.errors import ConfigError, LexiconError
from specdec_cli.labels.units import GAP, units

SHIPPED: Final = Path(__file__).with_name("default.yaml")
_HELP: Final = "A lexicon holds `schema: 1` and `attributes:`; the head of the shipped one explains every part."


def _phrase(text: str) -> str:
    """The phrase with its parts apart: 提高...音量 and "raises … voice" are written without or with spaces."""
    parts = text.replace("…", GAP).replace(GAP, f" {GAP} ").split()
    if not any(unit.isalnum() for unit in units(text)):
        raise ValueError("a phrase needs a letter or a character")
    if GAP in parts and (parts.count(GAP) > 1 or GAP in (parts[0], parts[-1])):
        raise ValueError(f"a phrase may hold one {GAP}, between two words")
    if any("*" in part[:-1] or part == "*" for part in parts):
        raise ValueError("a * stands at the end of a word")
    return " ".join(parts)


def _forms(value: object) -> object:
    """The forms of one word: "angry/angrily/anger", the first for all."""
    return value.split("/") if isinstance(value, str) else value


def _spelled(value: object) -> object:
    """Truth values are words too where words are listed, as numbers are."""
    return str(value).lower() if isinstance(value, bool) else value


Phrase = Annotated[str, BeforeValidator(_spelled), StringConstraints(max_length=60), AfterValidator(_phrase)]
Word = Annotated[str, BeforeValidator(_spelled), StringConstraints(min_length=1, max_length=60)]
Name = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,39}$")]
Words = dict[Name, list[Phrase]]
"""Class -> phrases."""
Forms = Annotated[list[Phrase], BeforeValidator(_forms), Field(min_length=1)]
Figure = Literal["f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"]
"""A field of `Measured`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Near(_Part):
    """Words that mean a class only beside one of the nouns in `about`."""

    about: list[Phrase] = Field(min_length=1)
    words: Words


class LanguageWords(_Part):
    """How one language names the classes of one attribute."""

    near: list[Near] = []
    alone: Words = {}
    weak: Words = {}


class Span(_Part):
    """Values of a measured figure that fit a class, both ends included; None: any."""

    least: FiniteFloat | None = None
    most: FiniteFloat | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Span:
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least {self.least:g} is above most {self.most:g}")
        return self


class Fit(_Part):
    """Which values of a measured figure fit which class, for captions that name the classes in `where`."""

    figure: Figure
    where: dict[Name, Name] = {}
    classes: dict[Name, Span] = Field(min_length=1)


class WheelGroup(_Part):
    """Words for one feeling, in both languages, and the class that they name; None: none of the attribute's."""

    class_: Name | None = Field(default=None, alias="class")
    zh: list[Forms] = []
    en: list[Forms] = []


class Attribute(_Part):
    """One attribute: its classes, and the words for them."""

    classes: list[Name] = []
    wheel: dict[Name, WheelGroup] = {}
    aliases: dict[Name, list[Word]] = {}
    ignored: list[Word] = []
    negated: dict[Name, Name] = {}
    absent: Name | None = None
    yields: list[Name] = []
    measured: list[Fit] = []
    zh: LanguageWords = LanguageWords()
    en: LanguageWords = LanguageWords()


class Markers(_Part):
    """Words that change how other words are meant."""

    negation: list[Phrase] = []
    not_negation: list[Phrase] = []
    denial: list[Phrase] = []
    likeliest: list[Phrase] = []
    slight: list[Phrase] = []
    aside: list[Phrase] = []
    breaks: list[Phrase] = []
    nothing: list[Phrase] = []


class MarkersByLanguage(_Part):
    """The markers of each language."""

    zh: Markers = Markers()
    en: Markers = Markers()


class LexiconFile(_Part):
    """A whole file."""

    schema_: Literal[1] = Field(alias="schema")
    extends: Literal["default"] | None = None
    attributes: dict[Name, Attribute] = {}
    markers: MarkersByLanguage = MarkersByLanguage()


_PARTS: Final = [field.alias or name for part in _Part.__subclasses__() for name, field in part.model_fields.items()]


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
    except ConfigError as error:
        hint = error.hint and error.hint.replace("config file", "lexicon")
        raise LexiconError(error.message, hint=hint) from error
    return [_shipped(), own] if own.extends else [own]


def rules_of(files: Sequence[LexiconFile]) -> dict[str, Attribute]:
    """The attributes of lexicon files, later ones over earlier ones, without the words for their classes."""
    found: dict[str, Attribute] = {}
    for file in files:
        for name, own in file.attributes.items():
            below = found.get(name, Attribute())
            found[name] = Attribute(
                classes=list(dict.fromkeys(below.classes + own.classes)),
                wheel=below.wheel | own.wheel,
                negated=below.negated | own.negated,
                absent=own.absent or below.absent,
                yields=below.yields + own.yields,
                measured=own.measured + below.measured,
            )
    return found


@cache
def _shipped() -> LexiconFile:
    return _read(SHIPPED)


def _read(path: Path) -> LexiconFile:
    label = str(path)
    tree, lines = read_yaml(path, label)
    if not isinstance(tree, dict):
        raise ConfigError(f"{label} is no lexicon: it holds {show(tree)}.", hint=_HELP)
    try:
        file = LexiconFile.model_validate(tree)
    except ValidationError as error:
        # a slip in a name is often also a name that is missing: the slip explains it, so it comes first
        found = sorted(error.errors(include_url=False), key=lambda details: details["type"] != "extra_forbidden")
        raise_if_any([_problem(details, label, lines) for details in found])
        raise  # never reached: there was at least one problem
    clashes = _contradictions(file, rules_of([_shipped(), file] if file.extends else [file]))
    raise_if_any(
        ConfigError(f"{label}:{_line(lines, place)}: {message}", hint=hint) for place, message, hint in clashes
    )
    if not file.attributes and not file.extends:
        raise ConfigError(f"{label} has no attributes.", hint=_HELP)
    return file


def _line(lines: Mapping[Place, int], place: Place) -> int:
    """The line of `place`, or of the nearest part around it."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


def _problem(details: ErrorDetails, label: str, lines: Mapping[Place, int]) -> ConfigError:
    place = tuple(part for part in details["loc"] if part != "[key]")
    where = f"{label}:{_line(lines, place)}: {show_name('.'.join(map(str, place)))}"
    if details["type"] == "extra_forbidden":
        hint = suggestion(str(place[-1]), _PARTS) + _HELP
        return ConfigError(f"{where} is not a part of a lexicon.", hint=hint)
    reason = details["msg"].removeprefix("Value error, ")
    if reason.startswith("Input should"):  # of another type, or none of the values that there are
        reason = f"{reason.replace('Input', 'the value', 1)}, not {show(details['input'])}"
    return ConfigError(f"{where}: {reason}.", hint=_HELP)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is most like another one; empty where none is."""
    close = nearest(name, known)
    return f"Did you mean {show_name(close)}? " if close else ""


def _contradictions(file: LexiconFile, rules: Mapping[str, Attribute]) -> Iterator[tuple[Place, str, str]]:
    """Place, message and hint of classes that do not exist, and of words that would mean two classes at once."""
    for name, attribute in file.attributes.items():
        place = ("attributes", name)
        if not rules[name].classes:
            hint = suggestion(name, rules.keys() - {name}) + "List them: classes: [low, high]."
            yield (*place, "classes"), f"attribute {name} has no classes.", hint
            continue
        for where, of, used in _classes_used(name, attribute):
            classes = rules[of].classes if of in rules else []
            if used not in classes:
                hint = suggestion(used, classes) + f"Classes of {of}: {', '.join(classes) or 'none'}."
                yield (*place, *where), f"{of} has no class {used}.", hint
        for where, words in _word_lists(attribute):
            first: dict[str, str] = {}
            for class_, phrases in words.items():
                for index, phrase in enumerate(phrases):
                    if (other := first.setdefault(phrase.casefold(), class_)) != class_:
                        message = f"{show(phrase)} stands under {other} and under {class_}."
                        yield (*place, *where, class_, index), message, "Keep one of them."


def _classes_used(name: str, attribute: Attribute) -> Iterator[tuple[Place, str, str]]:
    """Place within the attribute, attribute and name of every class that it uses."""
    own: list[tuple[Place, str]] = [(("aliases", class_), class_) for class_ in attribute.aliases]
    own += [(("negated", key), class_) for key, value in attribute.negated.items() for class_ in (key, value)]
    own += [(("absent",), attribute.absent)] if attribute.absent else []
    own += [(("yields", index), class_) for index, class_ in enumerate(attribute.yields)]
    own += [(("wheel", key, "class"), group.class_) for key, group in attribute.wheel.items() if group.class_]
    own += [((*where, key), key) for where, words in _word_lists(attribute) if where[0] != "wheel" for key in words]
    yield from ((place, name, class_) for place, class_ in own)
    for index, fit in enumerate(attribute.measured):
        yield from ((("measured", index, "classes", class_), name, class_) for class_ in fit.classes)
        yield from ((("measured", index, "where", other), other, class_) for other, class_ in fit.where.items())


def _word_lists(attribute: Attribute) -> Iterator[tuple[Place, Words]]:
    """The lists in which a phrase may stand once: by class; of a wheel, by group."""
    for language in ("zh", "en"):
        words: LanguageWords = getattr(attribute, language)
        yield (language, "alone"), words.alone
        yield (language, "weak"), words.weak
        yield from (((language, "near", index, "words"), group.words) for index, group in enumerate(words.near))
        groups = {name: getattr(group, language) for name, group in attribute.wheel.items()}
        yield ("wheel",), {name: [form for forms in group for form in forms] for name, group in groups.items()}
