"""Which of the likeliest tokens the sound bans, by what they would make a text claim."""

from collections.abc import Collection, Sequence

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import ClassWords
from specdec_cli.labels.grounding import LEAST_FITTING, Grounding
from specdec_cli.prompts import Language
from specdec_cli.types import Measured

HIGH_FAST_LOUD = Measured(f0_median_hz=300.0, f0_range_st=12.0, level_dbfs=-10.0, rate_per_s=7.5, pause_share=0.0)


def banned(
    text: str,
    *likeliest: str | tuple[str, float],
    language: Language = "en",
    measured: Measured = HIGH_FAST_LOUD,
    attributes: Collection[str] = Lexicon.shipped().measured,
    lexicon: Lexicon | None = None,
) -> list[str]:
    """The pieces that are banned after `text`; of those without a probability each has 0.1."""
    given = [each if isinstance(each, tuple) else (each, 0.1) for each in likeliest]
    pieces, lexicon = [text, *(piece for piece, _ in given)], lexicon or Lexicon.shipped()

    def decode(ids: Sequence[int]) -> str:
        return "".join(pieces[id_] for id_ in ids)

    words = ClassWords(lexicon, attributes, decode)
    sound = Grounding(lexicon, language, measured, words)
    found = sound.banned((0,), tuple((id_, p) for id_, (_, p) in enumerate(given, start=1)))
    return [pieces[id_] for id_ in sorted(found)]


def test_a_class_that_contradicts_goes_where_another_one_fits():
    assert banned("The volume is", " soft", " loud", " volume", ".") == [" soft"]
    assert banned("音量", "较小", "适中", "较大", language="zh") == ["较小", "适中"]
    assert banned("The volume is", " soft", " normal", ".") == []  # nothing fits


def test_an_answer_needs_some_probability():
    assert banned("The volume is", " soft", (" loud", LEAST_FITTING)) == [" soft"]
    assert banned("The volume is", " soft", (" loud", LEAST_FITTING * 0.99)) == []
    assert banned("The volume is", (" soft", 1e-6), " loud") == [" soft"]


def test_a_word_before_its_noun_goes_if_it_fits_nothing_that_the_text_has_not_named():
    woman = "She is a woman who speaks with a"
    assert banned(woman, " low", " high") == [" low"]
    quiet = Measured(f0_median_hz=300.0, f0_range_st=12.0, level_dbfs=-40.0, rate_per_s=7.5)
    assert banned(woman, " low", " high", measured=quiet) == []  # "a low volume"
    assert banned("She is a woman of soft voice and speaks with a", " low", " high", measured=quiet) == [" low"]


def test_pitch_waits_for_the_voice():
    for voice, wrong in (("The speaker", []), ("A woman", [" low"]), ("A man", [" low"])):
        assert banned(f"{voice} whose pitch is", " low", " high") == wrong
    between = Measured(f0_median_hz=178.0)
    assert banned("A man whose pitch is", " low", " medium", " high", measured=between) == [" low", " medium"]
    assert banned("A woman whose pitch is", " low", " medium", " high", measured=between) == [" medium", " high"]


def test_what_was_not_measured_bans_nothing():
    assert banned("The volume is", " soft", " loud", measured=Measured()) == []
    assert banned("The volume is", " soft", " loud", attributes=("rate",)) == []


def test_a_claim_that_the_text_makes_already_may_be_made_again():
    assert banned("The volume is soft. The volume is", " soft", " loud") == []
    assert banned("The volume is loud. The volume is", " soft", " loud") == [" soft"]


def test_rate_has_limits_and_no_borders():
    for rate, wrong in ((5.0, []), (6.0, [" slow"]), (7.0, [" slow", " moderate"])):
        assert banned("The pace is", " slow", " moderate", " fast", measured=Measured(rate_per_s=rate)) == wrong


def test_within_the_band_of_a_border_the_model_decides(tmp_path):
    words = tmp_path / "words.yaml"
    words.write_text(
        "schema: 1\nattributes:\n  volume: {classes: [soft, loud], measured: [{figure: level_dbfs, classes: "
        "{soft: {}, loud: {}}, borders: [-20], bands: [2]}], en: {alone: {soft: [soft], loud: [loud]}}}\n"
    )
    lexicon = Lexicon.read(words)
    for level, wrong in ((-22.5, [" loud"]), (-22, []), (-18, []), (-17.5, [" soft"])):
        found = banned(
            "It is", " soft", " loud", measured=Measured(level_dbfs=level), lexicon=lexicon, attributes=["volume"]
        )
        assert found == wrong


@pytest.mark.parametrize("piece", [" sad", " baritone", " pitch", " low-key", ".", " the"])
def test_other_tokens_are_never_banned_and_no_answer(piece):
    assert banned("A woman whose voice is", piece, " high") == ([] if piece != " low-key" else [" low-key"])
    assert banned("A woman whose voice is", " low", piece) == []
