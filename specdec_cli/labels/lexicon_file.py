"""What a lexicon file holds, and reading one. The head of the shipped one, default.yaml, explains every part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from specdec_cli.config.yaml_file import read_yaml
from specdec_cli.errors import ConfigError, LexiconError
from specdec_cli.labels.units import GAP, units
from specdec_cli.prompts import Language

_HELP: Final = "A lexicon holds `schema: 1` and `attributes:`; the head of the shipped one explains every part."


def _phrase(text: str) -> str:
    """The phrase with its parts apart: 提高...音量 and "raises … voice" are written without or with spaces."""
    parts = text.replace("…", GAP).replace(GAP, f" {GAP} ").split()
    starred = any("*" in part[:-1] or part == "*" for part in parts)
    if starred or GAP in (*parts[:1], *parts[-1:]) or parts.count(GAP) > 1 or not any(map(str.isalnum, units(text))):
        raise ValueError(f"a phrase is words; a * may end one, and one {GAP} may stand between two")
    return " ".join(parts)


def _forms(value: object) -> object:
    """The forms of one word: "angry/angrily/anger", the first for all."""
    return value.split("/") if isinstance(value, str) else value


Phrase = Annotated[str, Field(max_length=60), AfterValidator(_phrase)]
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]
Words = dict[Name, list[Phrase]]  # class -> phrases
Forms = Annotated[list[Phrase], BeforeValidator(_forms), Field(min_length=1)]
Figure = Literal["f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"]
Marker = Literal["negation", "not_negation", "denial", "likeliest", "slight", "aside", "breaks", "nothing"]


class _Part(BaseModel):
    model_config = {"frozen": True, "extra": "forbid", "coerce_numbers_to_str": True, "allow_inf_nan": False}


class Near(_Part):
    """Words that mean a class only beside one of the nouns in `about`."""

    about: list[Phrase]
    words: Words


class LanguageWords(_Part):
    """How one language names the classes of one attribute."""

    near: list[Near] = []
    alone: Words = {}
    weak: Words = {}


class Span(_Part):
    """Values of a measured figure that fit a class, both ends included; None: any."""

    least: float | None = None
    most: float | None = None

    def holds(self, value: float | None) -> bool | None:
        """Whether a value lies within; None if there is no value or no limit."""
        if value is None or (self.least is None and self.most is None):
            return None
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


class Fit(_Part):
    """Which values of a figure of `Measured` fit which class, for captions that name the classes in `where`."""

    figure: Figure
    where: dict[Name, Name] = {}
    classes: dict[Name, Span]
    borders: list[float] = []  # between one class and the next, in their order
    bands: list[Annotated[float, Field(ge=0)]] = []  # distance to each border up to which both classes fit; none: 0

    @cached_property
    def decided(self) -> dict[str, Span]:
        """Class -> values at which the sound allows it: within its limits, its borders and their bands."""
        return {class_: self._decided(at, limits) for at, (class_, limits) in enumerate(self.classes.items())}

    def _decided(self, at: int, limits: Span) -> Span:
        if not self.borders:
            return limits
        edges = [*zip(self.borders, self.bands or [0.0] * len(self.borders), strict=True)]
        below, above = edges[at - 1 : at] if at else [], edges[at : at + 1]
        least = [border - band for border, band in below] + ([] if limits.least is None else [limits.least])
        most = [border + band for border, band in above] + ([] if limits.most is None else [limits.most])
        return Span(least=max(least, default=None), most=min(most, default=None))

    @field_validator("borders", "bands")
    @classmethod
    def _one_between_each_two_classes(cls, given: list[float], info: ValidationInfo) -> list[float]:
        needed, name = len(info.data.get("classes", ())) - 1, info.field_name
        if len(given) != needed or (name == "borders" and given != sorted(given)):
            order = "in rising order" if name == "borders" else "one for each border"
            raise ValueError(f"{needed + 1} classes have {needed} {name}, {order}")
        return given


class WheelGroup(_Part):
    """Words for one feeling, in both languages, and the class that they name; None: none of the attribute's."""

    class_: Name | None = Field(default=None, alias="class")
    zh: list[Forms] = []
    en: list[Forms] = []


class Attribute(_Part):
    """One attribute: its classes, and the words for them."""

    classes: list[Name] = []
    wheel: dict[Name, WheelGroup] = {}
    aliases: dict[Name, list[str]] = {}
    ignored: list[str] = []
    codes: dict[str, dict[str, Name | None]] = {}
    negated: dict[Name, Name] = {}
    absent: Name | None = None
    yields: list[Name] = []
    measured: list[Fit] = []
    zh: LanguageWords = LanguageWords()
    en: LanguageWords = LanguageWords()

    def words(self) -> Iterator[tuple[str, str | None]]:
        """Every word with its class, None for an ignored one; a word that is repeated has its last class."""
        for of in (self.zh, self.en):
            for words in (of.weak, *(near.words for near in of.near), of.alone):
                yield from pairs(words)
        named = [group for group in self.wheel.values() if group.class_ is not None]
        yield from ((form, group.class_) for group in named for forms in (*group.zh, *group.en) for form in forms)
        yield from pairs(self.aliases)
        yield from ((word, None) for word in self.ignored)
        yield from ((class_, class_) for class_ in self.classes)


def pairs(words: Words) -> Iterator[tuple[str, str]]:
    """Every phrase with its class."""
    return ((phrase, class_) for class_, phrases in words.items() for phrase in phrases)


class LexiconFile(_Part):
    """A whole file."""

    schema_: Literal[1] = Field(alias="schema")
    extends: Literal["default"] | None = None
    attributes: dict[Name, Attribute]
    markers: dict[Language, dict[Marker, list[Phrase]]] = {}

    def layers(self) -> list[LexiconFile]:
        """The files of its lexicon, later ones over earlier ones: the shipped one if it extends that, and itself."""
        return [shipped(), self] if self.extends else [self]

    @field_validator("attributes")
    @classmethod
    def _classes_exist(cls, attributes: dict[str, Attribute], info: ValidationInfo) -> dict[str, Attribute]:
        every = rules_of([shipped().attributes, attributes] if info.data.get("extends") else [attributes])
        for name, own in attributes.items():
            rules, named = every[name], {class_ for _, class_ in own.words()}
            measured = (class_ for fit in rules.measured for class_ in fit.classes)
            coded = (class_ for codes in own.codes.values() for class_ in codes.values())
            used = {*named, *coded, *measured, *rules.negated, *rules.negated.values(), *rules.yields, rules.absent}
            unknown = sorted(str(class_) for class_ in used - {None, *rules.classes})
            if unknown or not rules.classes:
                known = ", ".join(rules.classes) or "none"
                raise ValueError(f"{name} has no class {', '.join(unknown) or 'at all'}; its classes: {known}")
        return attributes


def rules_of(layers: Iterable[Mapping[str, Attribute]]) -> dict[str, Attribute]:
    """The attributes of lexicon files, later ones over earlier ones, without the words for their classes."""
    found: dict[str, Attribute] = {}
    for name, own in (item for attributes in layers for item in attributes.items()):
        below = found.get(name, Attribute())
        found[name] = Attribute(
            classes=list(dict.fromkeys(below.classes + own.classes)),
            wheel=below.wheel | own.wheel,
            codes=below.codes | own.codes,
            negated=below.negated | own.negated,
            absent=own.absent or below.absent,
            yields=below.yields + own.yields,
            measured=own.measured + below.measured,
        )
    return found


@cache
def shipped() -> LexiconFile:
    """The file that comes with specdec."""
    return read_lexicon(Path(__file__).with_name("default.yaml"))


def read_lexicon(path: Path) -> LexiconFile:
    """A file; LexiconError if it cannot be read, is malformed, or uses a class that does not exist: names the key."""
    try:
        return LexiconFile.model_validate(read_yaml(path, str(path))[0])
    except ConfigError as error:
        raise LexiconError(error.message, hint=_HELP) from error
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        place = ".".join(map(str, details["loc"])) or "the whole"
        raise LexiconError(f"{path}: {place}: {details['msg'].removeprefix('Value error, ')}.", hint=_HELP) from error
