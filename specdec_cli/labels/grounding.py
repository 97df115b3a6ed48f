"""What a text claims of the sound of its clip, beside the measured figures.

A claim is a class of an attribute for which the lexicon has limits of a measured figure (`Lexicon.claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from specdec_cli.labels.class_words import ClassWords
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.probabilities import Decode, rivals
from specdec_cli.prompts import Language
from specdec_cli.types import Candidates, Claim, Measured

LEAST_FITTING: Final = 0.01
"""Least probability of a token that names a class which the sound allows, for others to be banned."""

NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(eq=False)
class Grounding:
    """The claims in the text of one clip, beside its sound, which is measured once: when needed, or by `begin`.

    Args:
        lexicon: which words claim what.
        language: of the caption.
        decode: token ids to text, special tokens left out.
        caption: the part of a text that is the caption.
        measure: measures the sound.
        arbitrates: whether drafted tokens may stand; see `stands`.
        words: finds the classes that tokens name; None: the sound bans nothing.
    """

    lexicon: Lexicon
    language: Language
    decode: Decode
    caption: Callable[[str], str]
    measure: Callable[[], Measured]
    arbitrates: bool = True
    words: ClassWords | None = None
    _begun: Future[Measured] | None = field(default=None, init=False)
    # what was found before: rounds and replays come to the same texts again. Caches of bound methods would keep the
    # sound of a clip until the garbage collector finds them
    _labels: dict[str, dict[str, str | None]] = field(default_factory=dict, init=False)
    _wrong: dict[tuple[int, ...], frozenset[tuple[str, str | None]]] = field(default_factory=dict, init=False)
    _standing: dict[tuple[tuple[int, ...], int, int], bool] = field(default_factory=dict, init=False)

    def begin(self) -> None:
        """Starts to measure in another thread; SciPy and NumPy hold no lock meanwhile."""
        if self._begun is None:
            executor = ThreadPoolExecutor(1, "sound")
            self._begun = executor.submit(self.measure)
            executor.shutdown(wait=False)

    @cached_property
    def measured(self) -> Measured:
        """The figures of the sound."""
        return self.measure() if self._begun is None else self._begun.result()

    def labels(self, caption: str) -> dict[str, str | None]:
        """The class that a caption names for every attribute; see `Lexicon.labels`."""
        if caption not in self._labels:
            self._labels[caption] = self.lexicon.labels(caption, self.language)
        return self._labels[caption]

    def claims(self, caption: str) -> tuple[Claim, ...]:
        """What a caption claims of the sound, beside the figures."""
        return self.lexicon.claims(self.labels(caption), self.measured)

    def contradicts(self, text: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether `text` with `draft` behind it makes a claim that contradicts the sound and that `text` does not make.

        Both are token ids. A claim of the text was verified before, or could not be verified.
        """
        wrong = self._wrong_in((*text, *draft))
        return bool(wrong and wrong - self._wrong_in(tuple(text)))

    def _wrong_in(self, ids: tuple[int, ...]) -> frozenset[tuple[str, str | None]]:
        """(attribute, class) of the claims in a text or its beginning that contradict the sound."""
        if ids not in self._wrong:
            claims = self.claims(self._read(ids)) if ids else ()
            self._wrong[ids] = frozenset((each.attribute, each.class_) for each in claims if each.agrees is False)
        return self._wrong[ids]

    def _read(self, ids: Sequence[int]) -> str:
        return self.caption(self.decode(ids).rstrip("\ufffd"))

    def stands(self, text: Sequence[int], draft: Sequence[int], at: int, token: int) -> bool:
        """Whether drafted token `at` decides a class that fits the sound, and the cloud's `token` there none that does.

        The class is the one that the text with the whole draft names. The cloud's token names the class that is read
        with it in place of the drafted word. A token that only begins a word names the classes of all phrases that
        begin so, and each of them has to contradict the sound. A token that names no class may lead to any: the draft
        does not stand.
        """
        place = ((*text, *draft), len(text) + at, token)
        if place not in self._standing:
            self._standing[place] = self._fits_better(*place)
        return self._standing[place]

    def _fits_better(self, written: tuple[int, ...], at: int, token: int) -> bool:
        labels = self.labels(self._read(written))
        fitting = [each.attribute for each in self.lexicon.claims(labels, self.measured, nominal=True) if each.agrees]
        others = rivals(self.lexicon, fitting, written, at, token, self.decode, self.language)
        return any(
            classes and not any(self._may_fit(labels, attribute, class_) for class_ in classes)
            for attribute, classes in others
        )

    def _may_fit(self, labels: dict[str, str | None], attribute: str, class_: str) -> bool:
        claims = self.lexicon.claims({**labels, attribute: class_}, self.measured, nominal=True)
        return any(each.agrees is not False for each in claims if each.attribute == attribute)

    def banned(self, text: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        """Which of the likeliest tokens after `text` the sound bans.

        A token is banned if all classes that it may come to name are new to the text and contradict the sound, and if
        there is an answer: a token, of a probability of at least `LEAST_FITTING`, that can only name classes of the
        same attributes that the sound allows.
        """
        if (words := self.words) is None:
            return NOTHING
        text, naming = tuple(text), [(id_, p) for id_, p in likeliest if words.touches(id_)]
        likely = (self._judged(words, text, id_) for id_, p in naming if p >= LEAST_FITTING)
        answers = [attributes for attributes, allowed, _ in likely if allowed]
        if not answers:
            return NOTHING
        judged = ((id_, *self._judged(words, text, id_)) for id_, _ in naming)
        return frozenset(
            id_
            for id_, attributes, allowed, new in judged
            if new and allowed is False and any(answer <= attributes for answer in answers)
        )

    def _judged(self, words: ClassWords, text: tuple[int, ...], token: int) -> tuple[frozenset[str], bool | None, bool]:
        """Of the classes that a token may come to name: their attributes, whether the sound allows them, and whether
        the text has not named one of them. None: the sound allows some, or that is not known.
        """
        if not (named := words.naming(text, token, self.language)):
            return frozenset(), None, False
        labels = words.labels(text, self.language)
        classes = [(name, class_) for name, class_, sure in named if sure or labels[name] is None]
        allowed = {self.lexicon.allows(name, class_, labels, self.measured) for name, class_ in classes}
        return (
            frozenset(name for name, _ in classes),
            allowed.pop() if len(allowed) == 1 else None,
            any(labels[name] != class_ for name, class_ in classes),
        )
