"""The claims of a text about the sound of its clip, the measured figures, and the tokens that the sound bans.

A claim is a class of an attribute for which the lexicon has limits of a measured figure (`Lexicon.claims`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from specdec_cli.labels.class_words import ClassWords
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.prompts import Language
from specdec_cli.types import Candidates, Claim, Measured

LEAST_FITTING: Final = 0.01
"""Least probability of a token that names a class which the sound allows, for others to be banned."""

NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(eq=False)
class Grounding:
    """One clip's claims and bans, beside the figures of its sound.

    Args:
        lexicon: which words make which claims.
        language: of the caption.
        measured: the figures.
        words: finds the classes that tokens name; None: the sound bans nothing.
    """

    lexicon: Lexicon
    language: Language
    measured: Measured
    words: ClassWords | None = None
    _labels: dict[str, dict[str, str | None]] = field(default_factory=dict, init=False)  # by caption

    @property
    def attributes(self) -> frozenset[str]:
        """Those whose classes the sound decides."""
        return frozenset() if self.words is None else self.words.attributes

    @property
    def lexicon_digest(self) -> str:
        return self.lexicon.digest

    def labels(self, caption: str) -> dict[str, str | None]:
        """The class that a caption names for every attribute; see `Lexicon.labels`."""
        if caption not in self._labels:
            self._labels[caption] = self.lexicon.labels(caption, self.language)
        return self._labels[caption]

    def claims(self, caption: str) -> tuple[Claim, ...]:
        """The claims of a caption about the sound, with the figures."""
        return self.lexicon.claims(self.labels(caption), self.measured)

    def banned(self, text_ids: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        """Which of the likeliest tokens after `text_ids` the sound bans.

        A token is banned if all classes that it may come to name are new to the text and contradict the sound, and if
        there is a replacement: a token of a probability of at least `LEAST_FITTING` that can only name classes of the
        same attributes that the sound allows.
        """
        if (words := self.words) is None:
            return NOTHING
        text_ids, naming = tuple(text_ids), [(id_, p) for id_, p in likeliest if words.touches(id_)]
        likely = (self._judged(words, text_ids, id_) for id_, p in naming if p >= LEAST_FITTING)
        answers = [attributes for attributes, allowed, _ in likely if allowed]
        if not answers:
            return NOTHING
        judged = ((id_, *self._judged(words, text_ids, id_)) for id_, _ in naming)
        return frozenset(
            id_
            for id_, attributes, allowed, new in judged
            if new and allowed is False and any(answer <= attributes for answer in answers)
        )

    def contradicts(self, text_ids: Sequence[int], token: int) -> bool:
        """Whether the sound bans a token after `text_ids` if there is a replacement of any probability."""
        if self.words is None or not self.words.touches(token):
            return False
        _, allowed, is_new = self._judged(self.words, tuple(text_ids), token)
        return is_new and allowed is False

    def _judged(
        self, words: ClassWords, text_ids: tuple[int, ...], token: int
    ) -> tuple[frozenset[str], bool | None, bool]:
        """Of the classes that a token may come to name: their attributes, whether the sound allows them, and whether
        the text has not named one of them. None: the sound allows some, or that is not known.
        """
        if not (named := words.naming(text_ids, token, self.language)):
            return frozenset(), None, False
        labels = words.labels(text_ids, self.language)
        classes = [(name, class_) for name, class_, sure in named if sure or labels[name] is None]
        allowed = {self.lexicon.allows(name, class_, labels, self.measured) for name, class_ in classes}
        return (
            frozenset(name for name, _ in classes),
            allowed.pop() if len(allowed) == 1 else None,
            any(labels[name] != class_ for name, class_ in classes),
        )
