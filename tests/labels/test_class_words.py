"""What a text comes to name with one more token, piece by piece."""

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import ClassWords
from specdec_cli.prompts import Language
from training.captions import fixed_words

MEASURED = Lexicon.shipped().measured


def named(language: Language, *pieces: str, fixed: bool = False) -> str:
    """What the last piece adds, as "pitch low"; with ? where a noun is still to come."""
    words = ClassWords(
        Lexicon.shipped(), MEASURED, lambda ids: "".join(pieces[id_] for id_ in ids), fixed_words() if fixed else None
    )
    text, token = tuple(range(len(pieces) - 1)), len(pieces) - 1
    found = words.naming(text, token, language)
    assert words.touches(token) or not found
    return ", ".join(sorted({f"{name} {class_}{'' if sure else '?'}" for name, class_, sure in found}))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # beside its noun, before it, and without one
        (["The pitch is", " low"], "pitch low"),
        (["a voice", " with a", " low"], "pitch low?, range flat?, rate slow?, volume soft?"),
        (["She speaks", " slowly"], "rate slow"),
        (["in a", " whispered"], "volume soft"),
        # never a noun, nor what only follows a word
        (["a", " low", " pitch"], ""),
        (["a", " low", "-pitched"], ""),
        (["a", " low", "key"], ""),
        (["a", " fast", " paced"], ""),
        (["a", " low-pitched", " man"], ""),
        # parts of words: the first one, where the phrases that begin so agree
        (["She speaks", " leis"], "rate slow?"),
        (["She speaks", " leis", "urely"], ""),
        (["at a", " mod"], ""),
        (["a", " fe", "male"], ""),
        # denied, quoted, of another kind
        (["The pitch is not", " low"], ""),
        (["The voice is not", " lively"], "range flat"),
        (["neither", " high"], ""),
        (["neither high nor", " low"], "pitch medium?"),
        (["She says “this is", " slow"], ""),
        (["She is", " sad"], ""),
        (["a", " baritone"], ""),
        # a mark ends what a token names, a sentence what it may go with
        (["The pitch is", " low,"], "pitch low"),
        (["The pitch changes. It is", " slow"], "rate slow"),
        # of the subject: no noun follows
        (["The voice is", " clear"], ""),
        (["The voice is very", " clear"], ""),
        (["The voice is in a", " clear"], "range lively?"),
        (["There are", " noticeable"], "pauses many?, range lively?"),
    ],
)
def test_english(pieces, expected):
    assert named("en", *pieces) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["语速", "较快"], "rate fast"),
        (["语速", "适中"], "rate moderate"),
        (["音量", "较大"], "volume loud"),
        (["用", "响亮", "的声音"], ""),
        # a character that begins words of other kinds, or of other classes
        (["音量", "大"], "volume loud, volume normal?"),
        (["音量", "大", "小适中"], "volume normal"),
        (["音量", "大", "小"], "volume normal?, volume soft"),
        (["语速", "快"], "rate fast, rate moderate?"),
        (["语气", "快"], ""),
        (["语速适", "中"], "rate moderate"),
        # parts of other words, words of their own, and particles
        (["一个", "年轻"], ""),
        (["音量", "比较大的"], "volume loud"),
        (["显得紧张", "和"], ""),
        (["有点着急", "呢"], ""),
        (["声音如", "呢", "喃"], "volume soft"),
        (["语调", "平"], ""),
        (["语调", "平静"], ""),
        (["语调", "起伏"], ""),
        (["语调", "起伏", "不大"], "range flat"),
        (["语调", "起伏", "不"], ""),
        (["女", "低音"], ""),
        (["声音很", "洪"], "volume loud?"),
        (["声音", "低沉"], "pitch low"),
    ],
)
def test_chinese(pieces, expected):
    assert named("zh", *pieces) == expected


def test_a_table_says_what_the_words_of_a_model_of_fixed_wording_mean():
    assert named("en", "with a", " low", fixed=True) == "pitch low"
    assert named("en", "with a", " normal", fixed=True) == "volume normal"
    assert named("zh", "音量", "适中", fixed=True) == "volume normal"
    assert named("zh", "起伏", "明显", fixed=True) == "range lively"
    assert named("en", "a", " male", fixed=True) == ""


def test_a_caption_is_read_in_the_language_that_it_is_written_in():
    assert named("en", "说话人是女声，语速", "较快") == "rate fast"
