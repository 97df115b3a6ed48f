"""What a lexicon file may hold; the shipped one, default.yaml, explains every part at its head."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    model_validator,
)

from specdec_cli.labels.units import GAP, units

LONGEST_PHRASE: Final = 60  # characters


def _spelled(value: object) -> object:
    """Numbers and truth values are words too where words are listed."""
    return value if isinstance(value, (str, list, dict)) or value is None else str(value)


def _phrase(text: str) -> str:
    """The phrase with its parts apart: 提高...音量 and "raises … voice" are written without or with spaces."""
    parts = text.replace("…", GAP).replace(GAP, f" {GAP} ").split()
    if not any(unit.isalnum() for unit in units(text)):
        raise ValueError("a phrase needs a letter or a character")
    if GAP in parts and (parts.count(GAP) > 1 or GAP in (parts[0], parts[-1])):
        raise ValueError(f"a phrase may hold one {GAP}, between two words")
    if any("*" in part[:-1] for part in parts):
        raise ValueError("a * stands at the end of a word")
    return " ".join(parts)


Phrase = Annotated[
    str, BeforeValidator(_spelled), StringConstraints(max_length=LONGEST_PHRASE), AfterValidator(_phrase)
]
Word = Annotated[str, BeforeValidator(_spelled), StringConstraints(min_length=1, max_length=LONGEST_PHRASE)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Words = dict[Name, list[Phrase]]
"""Class -> phrases."""


def _forms(value: object) -> object:
    """The forms of one word: "angry/angrily/anger", the first for all."""
    return value.split("/") if isinstance(value, str) else value


Forms = Annotated[list[Phrase], BeforeValidator(_forms), Field(min_length=1)]
Figure = Literal["f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"]
"""A field of `Measured`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Near(_Part):
    """Words that mean a class only beside one of the nouns in `about`."""

    about: list[Phrase] = Field(min_length=1)
    words: Words


class LanguageWords(_Part):
    """How one language says the classes of one attribute."""

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
    """Words for one feeling, in both languages, and the class that they say; None: none of the attribute's."""

    class_: Name | None = Field(default=None, alias="class")
    zh: list[Forms] = []
    en: list[Forms] = []


class Attribute(_Part):
    """One attribute: its classes, and what says them."""

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
    """Words that say how other words are meant."""

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
