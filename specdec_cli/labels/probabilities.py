"""The `scores` of a transcript: the probability of every class of an attribute, from the tokens that name one.

A caption names a class by a word. At each token of that word, and of up to `REACH` words before it, the likeliest other
tokens are put in the place of what was written, and the lexicon reads the clause as it would then be:

- a token that names another class ("sad" for "angry") gives its probability to that class;
- a token that only begins a word gives it to the classes whose phrases begin so, in proportion to their number;
- a token in the word that leads to no class, and the rest of the distribution, is `other`;
- a token before the word may turn the class round ("very" for "not" in "not lively"); one that does not ("rather" for
  "very") is another wording, and is left out.

Along the tokens the chain rule holds: what a token leaves to the written one is shared out among the next one's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Calibration, sharpened
from specdec_cli.labels.extraction import Reading
from specdec_cli.labels.units import units
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import ClassScores
from specdec_cli.types import Decider, Token

KEPT: Final = 20
"""Likeliest tokens that are kept of each position."""
REACH: Final = 3
"""Words before the one that names a class at which another class may have been decided."""
_MARK: Final = re.compile(r"[,，.。;；:：!！?？()（）\n]")

DOUBTFUL: Final = 0.5
"""A caption needs a review where a class that it names is less likely than this."""

Decode = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens left out."""


def needs_review(labels: Mapping[str, str | None], scores: Mapping[str, ClassScores]) -> bool:
    """Whether the two models disagree about a class that the caption names, or one is less likely than `DOUBTFUL`."""
    named = ((each, each.classes.get(labels.get(name) or "", 1.0)) for name, each in scores.items())
    return any(each.edge is not None or probability < DOUBTFUL for each, probability in named)


@dataclass(frozen=True)
class Scorer:
    """Scores the classes that a lexicon finds in captions; without a calibration, as the models give them."""

    lexicon: Lexicon
    calibration: Calibration | None = None

    def class_scores(
        self, tokens: Sequence[Token], decode: Decode, language: Language, labels: Mapping[str, str | None]
    ) -> dict[str, ClassScores]:
        """Attribute -> scores, where the tokens that name its class, and their rivals, are known.

        `labels` are the classes that the caption names; the caption may end before the tokens do.
        """
        ids, found = [token.id for token in tokens], {}
        texts, rows = _read(ids, decode)
        for name, reading in self.lexicon.namings(texts[-1], language).items():
            if labels.get(name) != reading.class_:
                continue
            word = _Word(self.lexicon, language, reading, tokens, decode, texts, rows)
            if all(tokens[at].alternatives[1] for at in word.places):
                classes, by = word.classes()
                temperature = (self.calibration or {}).get(by, {}).get(name)
                found[name] = ClassScores(
                    by=by,
                    classes=sharpened(classes, 1.0 / (temperature or 1.0)),
                    other=max(1.0 - sum(classes.values()), 0.0),
                    temperature=temperature,
                    edge=next(filter(None, map(word.edge_class, word.places)), None),
                )
        return found


def _read(ids: Sequence[int], decode: Decode) -> tuple[list[str], list[list[str]]]:
    """The text of the first 0, 1, ... of the ids, and the units of each."""
    texts = [_whole(decode(ids[:end])) for end in range(len(ids) + 1)]
    return texts, [units(text) for text in texts]


@dataclass
class _Word:
    """The word that names a class: the places of the tokens that decide it, and what other tokens there would name."""

    lexicon: Lexicon
    language: Language
    reading: Reading
    tokens: Sequence[Token]
    decode: Decode
    texts: Sequence[str]  # of the first so many tokens
    rows: Sequence[Sequence[str]]  # the units of these texts

    def __post_init__(self) -> None:
        texts, rows, mention, class_ = self.texts, self.rows, self.reading.mention, self.reading.class_
        count, last, sizes = len(self.tokens), mention.end - 1, [len(row) for row in rows]
        first = bisect_right(sizes, max(mention.since, mention.start - REACH), 1, count) - 1
        self._start = start = bisect_right(sizes, mention.start, first + 1, count) - 1
        self._end = next(at for at in range(start + 1, count + 1) if rows[at][last : last + 1] == [rows[-1][last]])
        settled = (at for at in range(start, self._end - 1) if set(self._begun(texts[at + 1])) == {class_})
        self.places = range(first, next(settled, self._end - 1) + 1)
        mark = _MARK.search(texts[-1], len(texts[self._end]))
        before = [found.end() for found in _MARK.finditer(texts[first])]
        self._clause = slice(max(before, default=0), mark and mark.start())
        if self._said(texts[-1][: self._clause.stop], count) != class_:
            self._clause = slice(0, None)  # the clause alone is not enough

    def classes(self) -> tuple[dict[str, float], Decider]:
        """Class -> probability; and the model at whose token other classes than the named one are likeliest."""
        found = dict.fromkeys(self.lexicon.attributes[self.reading.attribute], 0.0)
        left, by, most = 1.0, self.tokens[self._start].alternatives[0], 0.0
        for at in self.places:
            own, named = self._shared_out(at)
            if (elsewhere := sum(p for class_, p in named.items() if class_ != self.reading.class_)) > most:
                by, most = self.tokens[at].alternatives[0], elsewhere
            for class_, p in named.items():
                found[class_] += left * p
            left *= own
        found[self.reading.class_] += left
        return found, by

    def edge_class(self, at: int) -> str | None:
        """The class that the edge drafted at a verified token, if that is another one than the cloud's."""
        token = self.tokens[at]
        by, candidates = token.alternatives
        theirs = candidates[0][0] if by == "cloud" else token.id
        if token.drafted is None or token.drafted == theirs:
            return None
        named = [
            {self.reading.class_: 1.0} if id_ == token.id else self.shares(at, id_) for id_ in (token.drafted, theirs)
        ]
        drafted, other = (next(iter(shares)) if len(shares) == 1 else None for shares in named)
        return drafted if other is not None and drafted != other else None

    def _shared_out(self, at: int) -> tuple[float, dict[str, float]]:
        """The probability of the token that was written at this place, and of each class that others name there."""
        own, named = 0.0, defaultdict[str, float](float)
        for id_, p in self.tokens[at].alternatives[1]:
            if id_ == self.tokens[at].id:
                own = p
                continue
            for class_, share in self.shares(at, id_).items():
                named[class_] += p * share
        if at >= self._start:
            return own, named
        every = own + sum(named.values())  # other wordings are left out
        return (own / every, {class_: p / every for class_, p in named.items()}) if every > 0 else (1.0, {})

    def shares(self, at: int, id_: int) -> Mapping[str, float]:
        """Class -> share of another token at this place; empty: it names none."""
        text = _whole(self.decode([*(token.id for token in self.tokens[:at]), id_]))
        if (class_ := self._said(text, self._end)) is not None:
            return {class_: 1.0}
        if at >= self._start:
            return self._begun(text)
        turned = self._said(text, at + 1)
        return {} if turned is None or turned == self.reading.class_ else {turned: 1.0}

    def _begun(self, text: str) -> dict[str, float]:
        """Class -> share of the attribute's phrases that begin like the end of `text`, from the word's place on."""
        beginning = "".join(units(text[len(self.texts[self._start]) :]))
        counts = self.lexicon.vocabularies[self.language].classes_begun(self.reading.attribute, beginning)
        return {class_: count / counts.total() for class_, count in counts.items()}

    def _said(self, text: str, end: int) -> str | None:
        """The class that the clause names with `text` in place of its first `end` tokens."""
        rest = self.texts[-1][len(self.texts[end]) : self._clause.stop]
        return _class_of(self.lexicon, self.reading.attribute, text[self._clause.start :] + rest, self.language)


def _whole(text: str) -> str:
    """The text without the first bytes of a character."""
    return text.rstrip("\ufffd")


@lru_cache(maxsize=1 << 14)  # captions name the same few things over and over
def _class_of(lexicon: Lexicon, attribute: str, clause: str, language: Language) -> str | None:
    return lexicon.labels(clause, language)[attribute]
