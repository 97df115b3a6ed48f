"""Captions against reference texts: BLEU, chrF and ROUGE-L."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any, Final
from unicodedata import normalize

import numpy as np
from pydantic import Field
from rapidfuzz.distance import LCSseq
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specdec_cli.format import count
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.prompts import Language
from specdec_cli.stats import Figures, Values

_TOKENIZERS: Final[dict[Language, str]] = {"zh": "zh", "en": "13a"}  # of sacrebleu; zh: characters
_WORDS: Final[dict[Language, re.Pattern[str]]] = {"zh": re.compile(r"[a-z0-9]+|[^\W_]"), "en": re.compile(r"[a-z0-9]+")}
"""The units of ROUGE-L: characters of Chinese, with Latin words and numbers whole; words of English."""
_DESCRIBING: Final = 0.5


class TextQuality(Figures):
    """Captions against reference texts; figures of the whole corpus, 0 to 100."""

    clips: int = Field(description="clips with at least one reference text")
    bleu: float = Field(description="BLEU with n-grams of up to four tokens; characters in Chinese")
    chrf: float = Field(description="character F-score (order 6, beta 2)")
    rouge_l: float = Field(description="mean over clips of ROUGE-L F1 with the best reference; characters in Chinese")


def describe(texts: Collection[str], lexicon: Lexicon, language: Language) -> bool:
    """Whether reference texts describe how somebody speaks, and are not the words that were spoken.

    They do if the lexicon reads a class in at least `_DESCRIBING` of the different texts: in 90% of the captions that
    people wrote for SECap, and in at most 28% of what is said in four corpora (docs/benchmarks.md).
    """
    different = {*texts}
    telling = sum(any(lexicon.labels(text, language).values()) for text in different)
    return bool(different) and telling >= _DESCRIBING * len(different)


def in_another_language(references: Iterable[Reference | None], language: Language) -> list[str]:
    """A sentence on how many references have texts in another language only; empty if there are none."""
    others = sum(bool(each and each.texts and not each.texts_in(language)) for each in references)
    if not others:
        return []
    verb = "is" if others == 1 else "are"
    return [
        f"The texts of {count(others, 'reference')} {verb} left out: not in the language of the captions ({language})."
    ]


def text_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: Language) -> TextQuality:
    """Scores captions [n], at least one, against the references [n][one or more] of the same clips."""
    # first references of all clips, second references of all clips, and so on; None is a missing one, which
    # sacrebleu leaves out, though its annotations do not say so
    streams: Any = list(zip_longest(*references))
    rouge_l = [_rouge_l(text, wanted, language) for text, wanted in zip(hypotheses, references, strict=True)]
    return TextQuality(
        clips=len(hypotheses),
        bleu=BLEU(tokenize=_TOKENIZERS[language]).corpus_score(hypotheses, streams).score,
        chrf=CHRF().corpus_score(hypotheses, streams).score,
        rouge_l=fmean(rouge_l),
    )


def clip_chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Values:
    """chrF (Popović 2015) of each clip [n], 0 to 100; NaN where it has no reference. Its mean is not the corpus's."""
    metric = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return np.array([metric.sentence_score(text, list(known)).score if known else np.nan for text, known in pairs])


def _rouge_l(text: str, references: Sequence[str], language: Language) -> float:
    """F1 of the longest common subsequence with the best of a clip's references, 0 to 100 (Lin 2004)."""
    ours, *wanted = (_WORDS[language].findall(normalize("NFKC", part).lower()) for part in (text, *references))
    # F1 of precision common/len(ours) and recall common/len(words)
    return max(200.0 * LCSseq.similarity(ours, words) / max(len(ours) + len(words), 1) for words in wanted)
