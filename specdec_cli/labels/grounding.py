"""What a text claims of the sound of its clip, set against what was measured: which claims contradict it, and what stands.

A claim is a class of an attribute for which the lexicon has limits of a measured figure (`Lexicon.claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.probabilities import Decode, rivals
from specdec_cli.prompts import Language
from specdec_cli.types import Claim, Measured


@dataclass(eq=False)
class Grounding:
    """The claims in the text of one clip, beside its sound, which is measured when it is first needed, or beforehand.

    Args:
        lexicon: which words claim what.
        language: of the caption.
        decode: token ids to text, special tokens left out.
        caption: the part of a text that is the caption.
        measure: measures the sound.
    """

    lexicon: Lexicon
    language: Language
    decode: Decode
    caption: Callable[[str], str]
    measure: Callable[[], Measured]
    _begun: Future[Measured] | None = field(default=None, init=False)
    _labels: tuple[str, dict[str, str | None]] = field(default=("", {}), init=False)  # of the text that was read last

    def begin(self) -> None:
        """Measures in another thread from now on; SciPy and NumPy hold no lock meanwhile."""
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
        if caption != self._labels[0] or not self._labels[1]:
            self._labels = caption, self.lexicon.labels(caption, self.language)
        return self._labels[1]

    def claims(self, caption: str) -> tuple[Claim, ...]:
        """What a caption claims of the sound, beside the figures."""
        return self.lexicon.claims(self.labels(caption), self.measured)

    def contradicts(self, text: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether `text` with `draft` behind it makes a claim that contradicts the sound and that `text` does not make.

        Both are token ids. A claim of the text was verified before, or nobody could verify it.
        """
        wrong = self._wrong([*text, *draft])
        return bool(wrong and wrong - self._wrong(text))

    def _wrong(self, ids: Sequence[int]) -> set[tuple[str, str | None]]:
        """(attribute, class) of the claims in a text, or in what there is of it, that contradict the sound."""
        if not ids:
            return set()
        claims = self.claims(self.caption(self.decode(ids).rstrip("\ufffd")))
        return {(claim.attribute, claim.class_) for claim in claims if claim.agrees is False}

    def stands(self, text: Sequence[int], draft: Sequence[int], at: int, token: int) -> bool:
        """Whether drafted token `at` names a class that fits the sound, and the cloud's `token` there none that does.

        The class is the one that the text with the whole draft names. The token names the class that is read with it
        in place of the drafted word; one that only begins a word, all those of the phrases that begin so, and each of
        them has to contradict the sound. A token that names no class does not count: the cloud may go on to any.
        """
        written = [*text, *draft]
        labels = self.labels(self.caption(self.decode(written).rstrip("\ufffd")))
        fitting = [each.attribute for each in self.lexicon.claims(labels, self.measured) if each.agrees]
        others = rivals(self.lexicon, fitting, written, len(text) + at, token, self.decode, self.language)
        return any(
            classes and not any(self._may_fit(labels, attribute, class_) for class_ in classes)
            for attribute, classes in others
        )

    def _may_fit(self, labels: dict[str, str | None], attribute: str, class_: str) -> bool:
        claims = self.lexicon.claims({**labels, attribute: class_}, self.measured)
        return any(each.agrees is not False for each in claims if each.attribute == attribute)
