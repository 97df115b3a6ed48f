"""How good a caption is, as one figure per clip between 0 and 1: what the gap between edge and cloud is taken in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics import Reference, clip_chrf
from specdec_cli.prompts import Language
from specdec_cli.tune.recording import Recording

Measure = Literal["labels", "texts", "agreement"]

SENTENCES: Final[dict[Measure, str]] = {
    "labels": "share of a clip's reference classes that its caption names",
    "texts": "chrF of the caption against the reference texts, over 100",
    "agreement": "1 - token edit distance to the cloud's caption over the longer of the two",
}


class Yardstick:
    """Measures texts of recorded clips: against classes where references have them, else texts, else the cloud.

    Args:
        lexicon: reads classes from captions.
        references: SHA-256 of a clip -> its reference; empty without references.
        language: of the captions.
        decode: token ids to text.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        references: Mapping[str, Reference],
        language: Language,
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self._lexicon = lexicon
        self._references = references
        self._language = language
        self._decode = decode
        self._known: dict[tuple[str, tuple[int, ...]], float] = {}
        self.measure: Measure = "agreement"
        if any(reference.labels for reference in references.values()):
            self.measure = "labels"
        elif any(reference.texts for reference in references.values()):
            self.measure = "texts"

    def figure(self, recording: Recording, ids: tuple[int, ...]) -> float:
        """Of one text of a clip; NaN where its reference does not tell."""
        key = recording.sha256, ids
        if key not in self._known:  # most settings give a clip one of a few texts
            self._known[key] = self._figure(recording, ids)
        return self._known[key]

    def _figure(self, recording: Recording, ids: tuple[int, ...]) -> float:
        if self.measure == "agreement":
            return _alike(ids, recording.cloud.ids)
        reference = self._references.get(recording.sha256)
        if reference is None:
            return float("nan")
        caption = self._decode(ids)
        if self.measure == "texts":
            return float(clip_chrf([caption], [reference.texts])[0]) / 100 if reference.texts else float("nan")
        said = self._lexicon.labels(caption, self._language)
        hits = [said.get(attribute) == class_ for attribute, class_ in reference.labels.items()]
        return float(np.mean(hits)) if hits else float("nan")


def _alike(ids: Sequence[int], target: Sequence[int]) -> float:
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.normalized_similarity(list(ids), list(target)))
