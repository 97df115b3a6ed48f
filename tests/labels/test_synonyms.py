"""Tokens that may stand for one another, because they say the same class."""

from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language

_WORDS = ("happy", "cheerful", "joy", "sad", "sorrowful", "Happy", "the", "pitch", "not", "h", "high", "fast")
ENGLISH = tuple(f" {word}" for word in _WORDS)
CHINESE = ("高兴", "快乐的", "愤怒", "很生气", "说话", "不", "高", "较高", "，")


def _groups(words: tuple[str, ...], language: Language) -> list[set[str]]:
    found = Lexicon.read().vocabularies[language].synonyms(enumerate(words))
    groups: dict[int, set[str]] = {}
    for id_, number in found.items():
        groups.setdefault(number, set()).add(words[id_])
    return list(groups.values())


def test_words_of_one_class_are_synonyms_and_nothing_else_is():
    assert _groups(ENGLISH, "en") == [
        {" happy", " cheerful", " joy", " Happy"},
        {" sad", " sorrowful"},
        {" high"},
        {" fast"},
    ]
    assert _groups(CHINESE, "zh") == [{"高兴", "快乐的"}, {"愤怒", "很生气"}, {"高", "较高"}]


def test_a_beginning_counts_where_all_words_that_begin_so_say_the_same():
    assert _groups((" joyf", " cheerf", " slug", " sluggi", " happ", " sl"), "en") == [
        {" joyf", " cheerf"},
        {" slug", " sluggi"},
    ]


def test_all_synonyms_are_read_as_the_same_classes():
    lexicon = Lexicon.read()
    for group in _groups(ENGLISH, "en"):
        assert len({str(lexicon.labels(f"The emotion sounds{word}.", "en")) for word in group}) == 1


def test_a_fragment_of_a_word_says_nothing():
    """Tokens that stand within words, and beginnings that other words of the vocabulary share."""
    assert _groups(("ing", " happy", "he", " male", "sad", " cheerfu"), "en") == [{" happy", " cheerfu"}, {" male"}]
    assert _groups((" cheer", " melan", " sadness"), "en") == [{" cheer"}, {" melan", " sadness"}]
    assert _groups((" melan", " melanin", " sadness"), "en") == [{" sadness"}]
