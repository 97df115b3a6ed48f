"""Text scores equal those of the libraries that papers use, in both languages."""

import re

import numpy as np
import pytest
from sacrebleu import corpus_bleu, corpus_chrf, sentence_chrf

from specdec_cli.evaluate.text_scores import clip_chrf, text_scores
from specdec_cli.prompts import Language

EN = [
    ("The speaker has a deep voice and talks slowly.", ["A deep voice, talking slowly.", "He speaks slowly and low."]),
    ("A woman sounds happy.", ["The woman sounds very happy."]),
    ("Fast and loud; angry!", ["Angry, fast and loud.", "She is angry.", "A loud, angry voice, very fast."]),
]
ZH = [
    ("他声音低沉，语速缓慢。", ["声音低沉，说话缓慢。", "语速缓慢，情绪悲伤。"]),
    ("女声，语速较快，情绪愤怒。", ["女声语速快，很愤怒。"]),
    ("音调偏高，情绪 happy 2 次。", ["音调较高，情绪happy。"]),
]
CASES: list[tuple[Language, list[tuple[str, list[str]]]]] = [("en", EN), ("zh", ZH)]


class _Characters:
    """Tokens for rouge-score: characters, Latin words whole, punctuation left out."""

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"[a-z0-9]+|[一-鿿]", text.lower())


@pytest.mark.parametrize(("language", "pairs"), CASES)
def test_bleu_and_chrf_are_sacrebleus(language, pairs):
    texts, references = [text for text, _ in pairs], [wanted[:1] for _, wanted in pairs]
    streams = [[wanted[0] for wanted in references]]
    scores = text_scores(texts, references, language)
    assert scores.bleu == corpus_bleu(texts, streams, tokenize="zh" if language == "zh" else "13a").score
    assert scores.chrf == corpus_chrf(texts, streams).score
    assert scores.clips == len(pairs)


@pytest.mark.parametrize(("language", "pairs"), CASES)
def test_rouge_l_is_rouge_scores(language, pairs):
    from rouge_score.rouge_scorer import RougeScorer  # imports nltk, which takes a second of every run

    texts, references = [text for text, _ in pairs], [wanted for _, wanted in pairs]
    scorer = RougeScorer(["rougeL"], tokenizer=_Characters() if language == "zh" else None)
    wanted = [100 * scorer.score_multi(known, text)["rougeL"].fmeasure for text, known in pairs]
    alone = [text_scores([text], [known], language).rouge_l for text, known in pairs]
    assert alone == pytest.approx(wanted)
    assert text_scores(texts, references, language).rouge_l == pytest.approx(np.mean(wanted))


def test_chrf_of_each_clip():
    wanted = [sentence_chrf(text, known).score for text, known in EN]
    assert clip_chrf([text for text, _ in EN], [known for _, known in EN]).tolist() == wanted
