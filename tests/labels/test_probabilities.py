"""Probabilities of classes from the likeliest tokens at each position, on captions spelled out token by token."""

from collections.abc import Sequence

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.probabilities import Scorer, Token
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import ClassScores
from specdec_cli.types import Decider

LEXICON = Lexicon.read()
Others = dict[str, float]


class Spelling:
    """Tokens are pieces of text, with an id each."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def id(self, piece: str) -> int:
        if piece not in self._pieces:
            self._pieces.append(piece)
        return self._pieces.index(piece)

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._pieces[id_].encode("utf-8", "surrogateescape") for id_ in ids).decode(errors="replace")


def found(
    language: Language, *written: str | tuple[str, Others], by: Decider = "edge", drafted: str | None = None
) -> dict[str, ClassScores]:
    """The probabilities of a caption; a piece with others stands beside them, what is left is the piece's own."""
    spelling, tokens = Spelling(), []
    for piece in written:
        text, others = (piece, {}) if isinstance(piece, str) else piece
        rows = [(text, 1 - sum(others.values())), *others.items()]
        candidates = tuple((spelling.id(other), p) for other, p in sorted(rows, key=lambda row: -row[1]))
        edge = spelling.id(drafted) if drafted and others else None
        tokens.append(Token(spelling.id(text), by, (by, candidates), edge))
    return scores(language, tokens, spelling)


def scores(language: Language, tokens: Sequence[Token], spelling: Spelling) -> dict[str, ClassScores]:
    """Attribute -> scores."""
    labels = LEXICON.labels(spelling.decode([token.id for token in tokens]), language)
    return Scorer(LEXICON).class_scores(tokens, spelling.decode, language, labels)


def shares(known: ClassScores) -> dict[str, float]:
    """Its classes that are possible, and what names none."""
    named = {name: round(p, 4) for name, p in known.classes.items() if p > 1e-9}
    return named | ({"other": round(known.other, 4)} if known.other > 1e-9 else {})


HALF = "\udce5\udcae"  # two of the three bytes of a character
DECIDED: list[tuple[str, Language, list[str | tuple[str, Others]], Others]] = [
    ("emotion", "zh", ["情绪", ("愤怒", {"悲伤": 0.3, "高兴": 0.1})], {"angry": 0.6, "sad": 0.3, "happy": 0.1}),
    ("rate", "zh", ["语速", ("较快", {"较慢": 0.2}), "，", "音调", "适中", "。"], {"fast": 0.8, "slow": 0.2}),
    ("pitch", "zh", ["语速", "较快", "，", "音调", ("适中", {"偏高": 0.4}), "。"], {"medium": 0.6, "high": 0.4}),
    ("rate", "en", ["She", " has", " a", (" slow", {" fast": 0.25}), " pace", "."], {"slow": 0.75, "fast": 0.25}),
    # a word of several tokens is decided along all of them
    ("rate", "zh", ["语速", ("较", {"适中": 0.4}), ("快", {"慢": 0.5})], {"fast": 0.3, "slow": 0.3, "moderate": 0.4}),
    ("emotion", "zh", ["情绪", ("愤怒", {HALF: 0.2}), "。"], {"angry": 0.8, "other": 0.2}),
    ("emotion", "zh", ["情绪", ("愤怒", {"，": 0.2, "悲伤": 0.3}), "。"], {"angry": 0.5, "sad": 0.3, "other": 0.2}),
    # another wording before the word is left out, but a negation may have been none
    ("rate", "zh", ["语速", ("很", {"非常": 0.4}), ("快", {"慢": 0.2}), "。"], {"fast": 0.8, "slow": 0.2}),
    ("range", "en", ["Intonation", " is", (" not", {" very": 0.3}), " lively", "."], {"flat": 0.7, "lively": 0.3}),
    ("pauses", "en", ["He", " speaks", " with", (" no", {" many": 0.2}), " pauses", "."], {"few": 0.8, "many": 0.2}),
]


@pytest.mark.parametrize(("attribute", "language", "written", "probabilities"), DECIDED)
def test_other_tokens_give_their_probability_to_their_classes(attribute, language, written, probabilities):
    known = found(language, *written, by="cloud")[attribute]
    assert shares(known) == probabilities
    assert (known.by, set(known.classes)) == ("cloud", set(LEXICON.attributes[attribute]))


def test_the_first_part_of_a_word_is_as_good_as_the_word():
    known = found("zh", "情绪", ("愤", {"悲": 0.3}), "怒", "。")["emotion"]
    assert known.classes["sad"] > 0.25
    assert known.classes["angry"] > 0.69
    assert sum(known.classes.values()) + known.other == pytest.approx(1)


def test_the_model_of_the_deciding_token_is_named():
    spelling = Spelling()
    mood, angry, sad, end = map(spelling.id, ("情绪", "愤怒", "悲伤", "。"))
    rows = [("edge", ((mood, 1.0),)), ("cloud", ((angry, 0.7), (sad, 0.3))), ("edge", ((end, 1.0),))]
    tokens = [Token(row[0][0], by, (by, row), None) for by, row in rows]
    assert scores("zh", tokens, spelling)["emotion"].by == "cloud"


@pytest.mark.parametrize(("drafted", "edge"), [("悲伤", "sad"), ("愤怒", None), ("，", None), (None, None)])
def test_a_class_that_the_cloud_replaced_is_kept(drafted, edge):
    known = found("zh", "情绪", ("愤怒", {"悲伤": 0.1}), "。", by="cloud", drafted=drafted)["emotion"]
    assert known.edge == edge


def test_a_lenient_rule_hides_no_disagreement():
    """The edge's token passed, though the cloud would rather have said another class."""
    known = found("zh", "情绪", ("愤怒", {"悲伤": 0.7}), "。", by="cloud", drafted="愤怒")["emotion"]
    assert known.edge == "angry"


def test_without_a_distribution_there_are_no_probabilities():
    spelling = Spelling()
    tokens = [Token(spelling.id(text), "cloud", ("cloud", ()), None) for text in ("情绪", "愤怒", "。")]
    assert scores("zh", tokens, spelling) == {}


def test_a_token_that_was_drawn_against_all_odds():
    """Neither it nor another class is among those kept: the word after it decides alone."""
    spelling = Spelling()
    rows = [("语速", "语速"), ("很", "，"), ("快", "快"), ("。", "。")]
    tokens = [Token(spelling.id(text), "edge", ("edge", ((spelling.id(likely), 0.9),)), None) for text, likely in rows]
    known = scores("zh", tokens, spelling)["rate"]
    assert shares(known) == {"fast": 0.9, "other": 0.1}
