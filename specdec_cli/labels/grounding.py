"""What a text claims of the sound of its clip, beside the measured figures.

A claim is a class of an attribute for which the lexicon has limits of a measured figure (`Lexicon.claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property

from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.probabilities import Decode, rivals
from specdec_cli.prompts import Language
from specdec_cli.types import Claim, Measured


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
    """

    lexicon: Lexicon
    language: Language
    decode: Decode
    caption: Callable[[str], str]
    measure: Callable[[], Measured]
    arbitrates: bool = True
    _begun: Future[Measured] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.labels = cache(self._find_labels)  # rounds and replays come to the same texts again
        self._wrong = cache(self._find_wrong)
        self._stands = cache(self._find_standing)

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

    def _find_labels(self, caption: str) -> dict[str, str | None]:
        """The class that a caption names for every attribute; see `Lexicon.labels`."""
        return self.lexicon.labels(caption, self.language)

    def claims(self, caption: str) -> tuple[Claim, ...]:
        """What a caption claims of the sound, beside the figures."""
        return self.lexicon.claims(self.labels(caption), self.measured)

    def contradicts(self, text: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether `text` with `draft` behind it makes a claim that contradicts the sound and that `text` does not make.

        Both are token ids. A claim of the text was verified before, or could not be verified.
        """
        wrong = self._wrong((*text, *draft))
        return bool(wrong and wrong - self._wrong(tuple(text)))

    def _find_wrong(self, ids: tuple[int, ...]) -> frozenset[tuple[str, str | None]]:
        """(attribute, class) of the claims in a text or its beginning that contradict the sound."""
        claims = self.claims(self._read(ids)) if ids else ()
        return frozenset((claim.attribute, claim.class_) for claim in claims if claim.agrees is False)

    def _read(self, ids: Sequence[int]) -> str:
        return self.caption(self.decode(ids).rstrip("\ufffd"))

    def stands(self, text: Sequence[int], draft: Sequence[int], at: int, token: int) -> bool:
        """Whether drafted token `at` decides a class that fits the sound, and the cloud's `token` there none that does.

        The class is the one that the text with the whole draft names. The cloud's token names the class that is read
        with it in place of the drafted word. A token that only begins a word names the classes of all phrases that
        begin so, and each of them has to contradict the sound. A token that names no class may lead to any: the draft
        does not stand.
        """
        return self._stands((*text, *draft), len(text) + at, token)

    def _find_standing(self, written: tuple[int, ...], at: int, token: int) -> bool:
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
