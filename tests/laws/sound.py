"""What the sound bans, once more: by docs/gates.md alone, word by word, and for English.

A text is read by the lexicon (`Caption`); everything else is here: which tokens are judged, which classes they may come
to name, the values that fit, and the answers without which nothing is banned.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from transformers import LogitsProcessor

from specdec_cli.labels import Lexicon
from specdec_cli.labels.extraction import Caption
from specdec_cli.labels.probabilities import Decode
from specdec_cli.types import Measured
from tests.laws.tolerance import allowed

LIKELIEST: Final = 20
LEAST: Final = 0.01
INFINITE: Final = math.inf
FITTING: Final = {
    "rate": {"slow": (-INFINITE, 5.7), "moderate": (2.2, 6.4), "fast": (2.5, INFINITE)},
    "pitch male": {"low": (-INFINITE, 120), "medium": (112, 170), "high": (163, INFINITE)},
    "pitch female": {"low": (-INFINITE, 190), "medium": (182, 254), "high": (245, INFINITE)},
    "range": {"flat": (-INFINITE, 7), "lively": (7, INFINITE)},
    "volume": {"soft": (-INFINITE, -32), "normal": (-32, -20), "loud": (-20, INFINITE)},
    "pauses": {"few": (-INFINITE, 0.15), "many": (0.08, INFINITE)},
}
"""Attribute, or pitch with a voice -> class -> values that fit it, borders and bands within limits."""
FIGURES: Final = {
    "rate": "rate_per_s", "pitch": "f0_median_hz", "range": "f0_range_st", "volume": "level_dbfs",
    "pauses": "pause_share",
}  # fmt: skip
Classes = frozenset[tuple[str, str]]


@cache
def labels(text: str) -> dict[str, str | None]:
    """The class that a text names for every attribute."""
    return Lexicon.shipped().labels(text, "en")


@dataclass(frozen=True)
class Word:
    """The last known phrase of a sentence, if it ends the sentence: what it names, and may name before a noun."""

    length: int
    names: Classes
    may_name: Classes
    is_noun: bool


@cache
def last_word(sentence: str) -> Word | None:
    """The known phrase at the end of a sentence."""
    lexicon, words = Lexicon.shipped(), re.findall("[a-z]+|[,:]", sentence.lower())
    caption = Caption(sentence, lexicon.vocabularies["en"], lexicon._rules, "en")
    if not caption._mentions or caption._mentions[-1].end != len(words):
        return None
    *others, last = caption._mentions
    names = frozenset((found.attribute, found.class_) for found in caption.readings() if found.mention == last)
    may_name = frozenset((name, class_) for (name, _), class_ in last.meaning.near.items())
    denied = any(other.meaning.markers & {"negation", "denial"} for other in others if other.sentence == last.sentence)
    if denied or caption._nearest(len(others)) is not None:
        may_name = frozenset()
    return Word(last.end - last.start, names, may_name, bool(last.meaning.topics))


@cache
def begun(tail: tuple[str, ...], attributes: frozenset[str]) -> Classes:
    """What all phrases name that begin with some words, the last one cut off; nothing if one means something else."""
    found = set()
    for steps, meaning in Lexicon.shipped().vocabularies["en"].meanings.items():
        for start in range(len(tail)):
            *whole, cut = tail[start:]
            step = steps[len(whole)].rstrip("*") if len(steps) > len(whole) else ""
            if list(steps[: len(whole)]) == whole and step.startswith(cut) and step != cut:
                names = {name for name, _ in meaning.said}
                if meaning.topics or not names or not names <= attributes:
                    return frozenset()
                found |= meaning.said
    return frozenset(found)


@cache
def named(text: str, piece: str, attributes: frozenset[str]) -> dict[tuple[str, str], bool]:
    """(attribute, class) that a piece may come to name behind a text -> whether no noun has to follow."""
    if not piece.strip(" ,.") or (text[-1:].isalpha() and piece[:1].isalpha()):
        return {}
    before = re.split("[.]", text)[-1]
    sentence = re.sub("[ ,.]+$", "", before + piece)
    words, fresh = re.findall("[a-z]+|[,:]", sentence.lower()), len(re.findall("[a-z]+|[,:]", before.lower()))
    word = last_word(sentence)
    if word is None:
        whole = not piece[-1].isalpha() or len(words[-1]) < 3
        return {} if whole else dict.fromkeys(begun(tuple(words[-4:]), attributes), False)
    pairs = {pair: pair in word.names for pair in word.names | word.may_name if pair[0] in attributes}
    if word.is_noun or not pairs or any(name not in attributes for name, _ in word.names):
        return {}
    earlier = last_word(before) if len(words) - word.length < fresh else None
    return {} if earlier is not None and set(pairs) <= earlier.names | earlier.may_name else pairs


@dataclass(frozen=True)
class Sound:
    """The figures of a clip, and the attributes whose classes they decide."""

    measured: Measured
    attributes: frozenset[str]
    decode: Decode

    def bans(self, text: Sequence[int], row: torch.Tensor) -> tuple[set[int], bool]:
        """The ids that are banned in a row [vocab] of scores after a text, and whether that was a close call."""
        off = allowed(row)
        order = row.argsort(descending=True)
        p = row.softmax(-1)
        found = self._banned(text, order[:LIKELIEST].tolist(), p, LEAST)
        unclear = False
        if float(row[order[LIKELIEST - 1]] - row[order[LIKELIEST]]) <= off:
            other = [*order[: LIKELIEST - 1].tolist(), int(order[LIKELIEST])]
            both = order[: LIKELIEST + 1].tolist()
            unclear = any(self._banned(text, ids, p, LEAST) != found for ids in (other, both))
        for least in (LEAST * (1 - 4 * off), LEAST * (1 + 4 * off)):
            unclear = unclear or self._banned(text, order[:LIKELIEST].tolist(), p, least) != found
        return found, unclear

    def _banned(self, text: Sequence[int], ids: Sequence[int], p: torch.Tensor, least: float) -> set[int]:
        written = self.decode(text)
        judged = {id_: self._judged(written, self.decode([id_])) for id_ in ids if p[id_] > 0}
        answers = [names for id_, (names, fits, _) in judged.items() if fits and p[id_] >= least]
        return {
            id_
            for id_, (names, fits, new) in judged.items()
            if fits is False and new and any(answer <= names for answer in answers)
        }

    def _judged(self, text: str, piece: str) -> tuple[set[str], bool | None, bool]:
        """Attributes that a piece may come to name; whether all classes fit (False: none); whether one is new."""
        known = labels(text)
        pairs = [pair for pair, sure in named(text, piece, self.attributes).items() if sure or known[pair[0]] is None]
        fits = {self._fits(known, *pair) for pair in pairs}
        new = any(known[name] != class_ for name, class_ in pairs)
        return {name for name, _ in pairs}, fits.pop() if len(fits) == 1 else None, new

    def _fits(self, known: dict[str, str | None], name: str, class_: str) -> bool | None:
        value = getattr(self.measured, FIGURES[name])
        values = FITTING.get(f"pitch {known['voice']}" if name == "pitch" else name)
        if value is None or values is None:
            return None
        return values[class_][0] <= value <= values[class_][1]


class SoundProcessor(LogitsProcessor):
    """For `generate()`, which calls it after the other processors and before temperature, top-k and top-p."""

    def __init__(self, sound: Sound, prompt: int) -> None:
        self._sound, self._prompt = sound, prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        banned, _ = self._sound.bans(input_ids[0, self._prompt :].tolist(), scores[0].float().cpu())
        scores = scores.clone()
        scores[0, list(banned)] = -math.inf
        return scores
