"""What makes a text no description."""

from __future__ import annotations

import pytest

from specdec_cli.prompts import Language
from specdec_cli.reading import flags_of, language_of

ZH = "说话人语气平静，语速适中。"
EN = "The speaker is calm and talks at a steady pace."


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("抱歉，我没有听到任何声音。请上传音频。", "zh"),
        ("无法判断情绪。", "zh"),
        ("您没有提供录音，所以我不能描述。", "zh"),
        ("你在说什么呀？", "zh"),
        ("I'm sorry, but I can't hear anything in this clip.", "en"),
        ("There is no audio attached. Please share a recording.", "en"),
        ("I'm not sure what you mean. Could you clarify?", "en"),
        ("Hmm. You haven't provided any recording yet.", "en"),
        ("对不起，我听不到任何音频。", "zh"),
        ("I'm not able to listen to recordings.", "en"),
        ("What audio do you mean?", "en"),
    ],
)
def test_refusals(text: str, language: Language) -> None:
    assert "refusal" in flags_of(text, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ZH, "zh"),
        (EN, "en"),
        ("她哭着说：“对不起，我没有听到。”", "zh"),
        ("说话人很激动，似乎无法接受这个结果。", "zh"),
        ("她兴奋得无法入睡，语速很快。", "zh"),
        ("The voice is low. He keeps saying \"I'm sorry, I can't hear you\".", "en"),
        ("The speaker seems calm. I can't tell more from this.", "en"),
    ],
)
def test_what_refuses_nothing(text: str, language: Language) -> None:
    assert flags_of(text, language) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ZH, "zh"),
        (EN, "en"),
        ("愤怒", "zh"),
        ('The man says "你好，请问您找谁呀，我们这里没有这个人" in a calm voice.', "en"),
        ("说话人用英语说了“good morning everybody and welcome”。", "zh"),
        ("Спокойный голос, медленная речь", "other"),
        ("…😊", None),
    ],
)
def test_languages(text: str, found: str | None) -> None:
    assert language_of(text) == found


def test_flags_are_of_the_language_asked_for() -> None:
    assert flags_of(ZH, "en") == flags_of(EN, "zh") == ("language",)
    assert flags_of("随时告诉我。", "zh") == ("no_description",)
    assert flags_of("", "en") == ("no_description",)
