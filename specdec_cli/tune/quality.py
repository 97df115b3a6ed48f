"""How good a caption is, as figures between 0 and 1: what the gap between edge and cloud is taken in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from specdec_cli.inputs.references import Reference
from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics.bootstrap import Values
from specdec_cli.metrics.labels import attribute_table, label_hits
from specdec_cli.metrics.text import clip_chrf
from specdec_cli.prompts import Language
from specdec_cli.tune.trace import Trace

Measure = Literal["labels", "texts", "agreement"]


class Yardstick:
    """Measures texts of recorded clips: the classes that references name, else chrF with their texts.

    Without references the cloud's caption is the reference text.

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
        self._classes: dict[tuple[int, ...], Mapping[str, str | None]] = {}
        self._known: dict[tuple[str, tuple[int, ...]], Values] = {}
        self.measure: Measure = "agreement"
        if any(reference.labels for reference in references.values()):
            self.measure = "labels"
        elif any(reference.texts for reference in references.values()):
            self.measure = "texts"

    def figures(self, trace: Trace, ids: tuple[int, ...]) -> Values:
        """Of one text of a clip [attributes], a single one for texts; NaN where its reference does not tell."""
        key = trace.sha256, ids
        if key not in self._known:  # most settings give a clip one of a few texts
            self._known[key] = self._figures(trace, ids)
        return self._known[key]

    def table(self, traces: Sequence[Trace], texts: Iterable[tuple[int, ...]]) -> Values:
        """The figures of one text of each clip [clips, attributes]."""
        return np.stack([self.figures(trace, ids) for trace, ids in zip(traces, texts, strict=True)])

    def differing(self, traces: Sequence[Trace], texts: Iterable[tuple[int, ...]]) -> Values:
        """1 where a text of a clip names another class of any attribute than the cloud's caption, else 0 [clips]."""
        pairs = zip(traces, texts, strict=True)
        return np.array([float(self.classes(ids) != self.classes(trace.cloud.ids)) for trace, ids in pairs])

    @property
    def attributes(self) -> list[str]:
        """What the columns of figures are about, where they are classes of references."""
        return list(self._lexicon.attributes)

    def classes(self, ids: tuple[int, ...]) -> Mapping[str, str | None]:
        """The class of every attribute that a text names, None where it names none."""
        if ids not in self._classes:
            self._classes[ids] = self._lexicon.labels(self._decode(ids), self._language)
        return self._classes[ids]

    def _figures(self, trace: Trace, ids: tuple[int, ...]) -> Values:
        reference = self._references.get(trace.sha256)
        if self.measure == "labels":
            truth = reference.labels if reference else {}
            return attribute_table(label_hits([self.classes(ids)], [truth], self._lexicon)).ravel()
        texts = reference.texts if reference else ()
        if self.measure == "agreement":
            texts = (trace.cloud_caption,)
        return clip_chrf([self._decode(ids)], [texts]) / 100
