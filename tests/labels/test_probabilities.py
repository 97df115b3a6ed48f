"""Probabilities of classes from the likeliest tokens at each position, on captions spelled out token by token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.probabilities import Scorer, Token
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import ClassScores
from specdec_cli.types import Decider

LEXICON = Lexicon.load()
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
        tokens.append(Token(spelling.id(text), (by, candidates), edge))
    return scores(language, tokens, spelling)


def scores(language: Language, tokens: Sequence[Token], spelling: Spelling) -> dict[str, ClassScores]:
    """Attribute -> scores."""
    labels = LEXICON.labels(spelling.decode([token.id for token in tokens]), language)
    return Scorer(LEXICON).scores(tokens, spelling.decode, language, labels)


def shares(known: ClassScores) -> dict[str, float]:
    """Its classes that are possible, and what names none."""
    named = {name: round(p, 4) for name, p in known.classes.items() if p > 1e-9}
    return named | ({"other": round(known.other, 4)} if known.other > 1e-9 else {})


def test_one_token_decides() -> None:
    known = found("zh", "听起来", "情绪", ("愤怒", {"悲伤": 0.3, "高兴": 0.1}), "。", by="cloud")["emotion"]
    assert shares(known) == {"angry": 0.6, "sad": 0.3, "happy": 0.1}
    assert (known.by, set(known.classes)) == ("cloud", set(LEXICON.attributes["emotion"]))


def test_every_attribute_has_its_own_place() -> None:
    speed, tone = ("较快", {"较慢": 0.2}), ("适中", {"偏高": 0.4})
    known = found("zh", "语速", speed, "，", "音调", tone, "。")
    assert {name: shares(each) for name, each in known.items()} == {
        "rate": {"fast": 0.8, "slow": 0.2},
        "pitch": {"medium": 0.6, "high": 0.4},
    }


def test_english_words_stand_before_their_nouns() -> None:
    known = found("en", "She", " speaks", " at", " a", (" slow", {" fast": 0.25, " moderate": 0.25}), " pace", ".")[
        "rate"
    ]
    assert shares(known) == {"slow": 0.5, "fast": 0.25, "moderate": 0.25}


def test_a_word_of_several_tokens_is_decided_along_all_of_them() -> None:
    known = found("zh", "语速", ("较", {"适中": 0.4}), ("快", {"慢": 0.5}), "。")["rate"]
    assert shares(known) == {"fast": 0.3, "slow": 0.3, "moderate": 0.4}


def test_the_first_part_of_a_word_is_as_good_as_the_word() -> None:
    known = found("zh", "情绪", ("愤", {"悲": 0.3}), "怒", "。")["emotion"]
    assert known.classes["sad"] > 0.25
    assert known.classes["angry"] > 0.69
    assert sum(known.classes.values()) + known.other == pytest.approx(1)


def test_half_a_character_names_nothing() -> None:
    half = "\udce5\udcae"  # two of the three bytes of a character
    known = found("zh", "情绪", ("愤怒", {half: 0.2}), "。")["emotion"]
    assert shares(known) == {"angry": 0.8, "other": 0.2}


def test_what_names_no_class_is_other() -> None:
    known = found("zh", "情绪", ("愤怒", {"，": 0.25, "悲伤": 0.25}), "。")["emotion"]
    assert shares(known) == {"angry": 0.5, "sad": 0.25, "other": 0.25}


def test_another_wording_before_the_word_is_left_out() -> None:
    known = found("zh", "语速", ("很", {"非常": 0.4}), ("快", {"慢": 0.2}), "。")["rate"]
    assert shares(known) == {"fast": 0.8, "slow": 0.2}


def test_a_negation_may_have_been_none() -> None:
    known = found("en", "The", " intonation", " is", (" not", {" very": 0.3}), " lively", ".")["range"]
    assert shares(known) == {"flat": 0.7, "lively": 0.3}


def test_no_pauses_could_have_been_many() -> None:
    known = found("en", "He", " speaks", " with", (" no", {" many": 0.2}), " pauses", ".")["pauses"]
    assert shares(known) == {"few": 0.8, "many": 0.2}


def test_the_model_of_the_deciding_token_is_named() -> None:
    spelling = Spelling()
    pieces = [("情绪", "edge", {}), ("愤怒", "cloud", {"悲伤": 0.3}), ("。", "edge", {})]
    tokens = []
    for text, by, others in pieces:
        row = ((spelling.id(text), 1 - sum(others.values())), *((spelling.id(o), p) for o, p in others.items()))
        tokens.append(Token(spelling.id(text), (by, row), None))
    assert scores("zh", tokens, spelling)["emotion"].by == "cloud"


@pytest.mark.parametrize(("drafted", "edge"), [("悲伤", "sad"), ("愤怒", None), ("，", None), (None, None)])
def test_a_class_that_the_cloud_replaced_is_kept(drafted: str | None, edge: str | None) -> None:
    known = found("zh", "情绪", ("愤怒", {"悲伤": 0.1}), "。", by="cloud", drafted=drafted)["emotion"]
    assert known.edge == edge


def test_a_lenient_rule_hides_no_disagreement() -> None:
    """The edge's token passed, though the cloud would rather have said another class."""
    known = found("zh", "情绪", ("愤怒", {"悲伤": 0.7}), "。", by="cloud", drafted="愤怒")["emotion"]
    assert known.edge == "angry"


def test_without_a_distribution_there_are_no_probabilities() -> None:
    spelling = Spelling()
    tokens = [Token(spelling.id(text), ("cloud", ()), None) for text in ("情绪", "愤怒", "。")]
    assert scores("zh", tokens, spelling) == {}


def test_a_token_that_was_drawn_against_all_odds() -> None:
    """Neither it nor another class is among those kept: the word after it decides alone."""
    spelling = Spelling()
    rows = [("语速", "语速"), ("很", "，"), ("快", "快"), ("。", "。")]
    tokens = [Token(spelling.id(text), ("edge", ((spelling.id(likely), 0.9),)), None) for text, likely in rows]
    known = scores("zh", tokens, spelling)["rate"]
    assert shares(known) == {"fast": 0.9, "other": 0.1}
