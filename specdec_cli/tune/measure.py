"""What is measured of settings: how good their captions are, from 0 to 1, and the cloud's time, from measured parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

import numpy as np
from pydantic import Field

from specdec_cli.evaluate.accuracy import attribute_table, label_hits
from specdec_cli.evaluate.bootstrap import Figures, Values
from specdec_cli.evaluate.text_scores import clip_chrf
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.recording import Trace

Measure = Literal["labels", "texts", "agreement"]


class CaptionQuality:
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

    def table(self, traces: Sequence[Trace], texts: Iterable[tuple[int, ...]]) -> Values:
        """Figures of one text of each clip [clips, attributes], one column for texts; NaN without a reference."""
        return np.stack([self._figures(trace, ids) for trace, ids in zip(traces, texts, strict=True)])

    def differing(self, traces: Sequence[Trace], texts: Iterable[tuple[int, ...]]) -> Values:
        """1 where a text of a clip names another class of any attribute than the cloud's caption, else 0 [clips]."""
        pairs = zip(traces, texts, strict=True)
        return np.array([float(self.classes(ids) != self.classes(trace.cloud.ids)) for trace, ids in pairs])

    def classes(self, ids: tuple[int, ...]) -> Mapping[str, str | None]:
        """The class of every attribute that a text names, None where it names none."""
        if ids not in self._classes:
            self._classes[ids] = self._lexicon.labels(self._decode(ids), self._language)
        return self._classes[ids]

    def _figures(self, trace: Trace, ids: tuple[int, ...]) -> Values:
        key = trace.sha256, ids
        if key in self._known:  # most settings give a clip one of a few texts
            return self._known[key]
        reference = self._references.get(trace.sha256)
        if self.measure == "labels":
            truth = reference.labels if reference else {}
            found = attribute_table(label_hits([self.classes(ids)], [truth], self._lexicon)).ravel()
        else:
            texts = reference.texts if reference else ()
            if self.measure == "agreement":
                texts = (trace.cloud_caption,)
            found = clip_chrf([self._decode(ids)], [texts]) / 100
        self._known[key] = found
        return found


class Parts(Figures):
    """Medians over clips of the cloud's forwards, ms: from them the cloud's time of a replay is estimated."""

    prefill_ms: float = Field(description="audio encoder and prefill, by cloud-only")
    step_ms: float = Field(description="each further forward of cloud-only")
    verification_ms: float = Field(description="each verification after the first one, which the prefill makes too")

    def hybrid_ms(self, escalations: Values) -> Values:
        """Of clips with so many escalations [n]; a clip without any takes no time."""
        return np.where(escalations > 0, self.prefill_ms + (escalations - 1) * self.verification_ms, 0.0)

    def alone_ms(self, tokens: Sequence[int]) -> Values:
        """Of cloud-only, which writes so many tokens [n]."""
        return self.prefill_ms + np.maximum(np.array(tokens, dtype=np.float64) - 1, 0.0) * self.step_ms


def parts_of(alone: Sequence[Transcript], lossless: Sequence[Transcript]) -> Parts | None:
    """The parts, by runs of cloud-only and of lossless; None where the cloud does not report its times."""
    prefills = [run.timing.prefill_cloud_ms for run in alone if run.timing.prefill_cloud_ms is not None]
    steps, verifications = (
        [ms for run in runs if (ms := _after_prefill_ms(run)) is not None] for runs in (alone, lossless)
    )
    if not (prefills and steps and verifications):
        return None
    found = {"prefill_ms": prefills, "step_ms": steps, "verification_ms": verifications}
    return Parts(**{name: round(median(ms), 4) for name, ms in found.items()})


def _after_prefill_ms(run: Transcript) -> float | None:
    """Mean time of the cloud's forwards after its prefill."""
    spent, read, forwards = run.timing.forwards_cloud_ms, run.timing.prefill_cloud_ms, 0
    if run.totals is not None:
        forwards = run.totals.forwards_cloud or 0
    return None if spent is None or read is None or forwards < 2 else (spent - read) / (forwards - 1)
