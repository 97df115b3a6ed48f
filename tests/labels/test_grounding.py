"""Claims beside a sound: which are new and wrong, and which drafted token stands against another."""

from collections.abc import Sequence

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.prompts import Language
from specdec_cli.types import Measured

LOW_AND_SLOW = Measured(f0_median_hz=95.0, f0_range_st=3.0, level_dbfs=-26.0, rate_per_s=2.0, pause_share=0.3)


def grounding(pieces: Sequence[str], language: Language = "en", measured: Measured = LOW_AND_SLOW) -> Grounding:
    """That of a clip whose token ids are places in `pieces`."""

    def decode(ids: Sequence[int]) -> str:
        return "".join(pieces[id_] for id_ in ids)

    return Grounding(Lexicon.load(), language, decode, str.strip, lambda: measured)


def test_a_contradiction_counts_once():
    sound = grounding(["A male voice", " at a fast", " pace", ", with few", " pauses", ", and a low pitch."])
    assert sound.contradicts((), (0, 1, 2))
    assert not sound.contradicts((0, 1, 2), (5,))  # it was verified before
    assert sound.contradicts((0, 1, 2), (3, 4))  # another one
    assert not sound.contradicts((), (0, 5))


def test_what_cannot_be_told_contradicts_nothing():
    sound = grounding(["A fast pace.", "A calm voice."], measured=Measured(f0_median_hz=95.0))
    assert not sound.contradicts((), (0, 1))
    assert not grounding(["A calm voice."]).contradicts((), (0,))


def test_half_a_character_is_read_when_it_is_whole():
    assert grounding(["语速较快", "，\ufffd"], "zh").contradicts((), (0, 1))


@pytest.mark.parametrize(
    ("text", "at", "rival", "stands"),
    [
        ("A male voice| at a| slow| pace|.", 2, " fast", True),
        ("A male voice| at a| slow| pace|.", 2, " leisurely", False),  # the same class
        ("A male voice| at a| slow| pace|.", 2, " really", False),  # no class, so far
        ("A male voice| at a| fast| pace|.", 2, " slow", False),  # it is the drafted one that does not fit
        ("A male voice| at a| fast| pace|.", 2, " rapid", False),
        ("A male voice| at a| slow| pace|.", 3, " fast", False),  # beside the word
        ("A male voice| at a| slow| pace|.", 2, " rap", True),  # rapid, rapidly
        ("A male voice| at a| sl|ow| pace|.", 2, " fast", True),
        ("A male voice|,| low|-|pitched|.", 2, " high", True),
        ("A male voice|,| a| low| pitch|.", 3, " high", True),
        ("A male voice|,| a| low| pitch|.", 3, " lower", False),
        ("He| is| not| fast|, with a low pitch|.", 4, ", with a high pitch", True),
    ],
)
def test_a_drafted_token_stands_if_its_class_alone_fits(text, at, rival, stands):
    pieces = [*text.split("|"), rival]
    sound, draft = grounding(pieces), range(len(pieces) - 1)
    assert sound.stands((), draft, at, len(pieces) - 1) is stands
    assert sound.stands(draft[:1], draft[1:], at - 1, len(pieces) - 1) is stands


@pytest.mark.parametrize(
    ("text", "at", "rival", "stands"),
    [
        ("男声|，|语速|较慢|，|音调|低|。", 3, "较快", True),
        ("男声|，|语速|慢|，|音调|低|。", 3, "快", True),
        ("男声|，|语速|较|慢|，|音调|低|。", 4, "快", True),
        ("男声|，|语速|较慢|，|音调|低|。", 3, "缓慢", False),
        ("男声|，|语速|慢|，|音调|低|。", 3, "适", False),  # 适中 fits what is between two classes
        ("男声|，|语速|慢|，|音调|偏低|。", 6, "偏高", True),
        ("男声|，|语速|慢|，|情绪|高兴|。", 6, "愤怒", False),  # nothing measures it
    ],
)
def test_so_does_one_of_chinese_words(text, at, rival, stands):
    pieces = [*text.split("|"), rival]
    measured = Measured(f0_median_hz=95.0, rate_per_s=2.4)
    sound = grounding(pieces, "zh", measured)
    assert sound.stands((), range(len(pieces) - 1), at, len(pieces) - 1) is stands


@pytest.mark.parametrize(("drafted", "rival", "stands"), [("normal", "loud", True), ("loud", "normal", False)])
def test_where_both_classes_fit_the_border_between_them_decides(drafted, rival, stands):
    pieces = ["A male voice", " at a", f" {drafted}", " volume", ".", f" {rival}"]
    sound = grounding(pieces, measured=Measured(level_dbfs=-20.4))
    assert not sound.contradicts((), range(5))
    assert sound.stands((), range(5), 2, 5) is stands


def test_the_sound_is_measured_once_and_may_be_beforehand():
    calls = list[int]()

    def measure() -> Measured:
        calls.append(1)
        return LOW_AND_SLOW

    for begun in (False, True):
        sound = Grounding(Lexicon.load(), "en", lambda _: "A fast pace.", str.strip, measure)
        if begun:
            sound.begin()
            sound.begin()
        assert sound.contradicts((), (0,))
        assert sound.measured is LOW_AND_SLOW
    assert calls == [1, 1]
