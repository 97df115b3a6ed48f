"""Where a caption ends, and what makes a text no description: what is for the listener goes, what describes stays.

`captions.tsv` holds texts as models write them: the flags, the part that describes, and the rest.
"""

import random
from pathlib import Path

import pytest

from specdec_cli.reading import caption_of, description_end, flags_of, language_of
from tests.laws.cases import WORDS

WRITTEN = [line.split("\t") for line in Path(__file__).with_name("captions.tsv").read_text("utf-8").splitlines()[1:]]
ZH = "说话人语速很快，声音发抖，听起来很害怕。"
EN = "The speaker talks fast in a trembling voice. They seem afraid."


@pytest.mark.parametrize(("language", "flags", "caption", "rest"), WRITTEN)
def test_a_text_is_cut_where_it_stops_describing_and_flagged(language, flags, caption, rest):
    text = caption + rest.replace("\\n", "\n")
    assert (caption_of(text), flags_of(text, language)) == (caption, tuple(flags.split()))


def test_a_preamble_is_no_end():
    text = f"I can help you with that. {EN}"
    assert description_end(text) is None
    assert caption_of(f"{text} What do you think?") == text


def test_a_text_that_ends_where_it_shows_has_the_caption_of_the_whole():
    rng = random.Random(5)
    ended = 0
    for _ in range(1500):
        pieces = rng.choices(WORDS, k=rng.randint(2, 20))
        prefixes = ("".join(pieces[:length]) for length in range(1, len(pieces) + 1))
        if (shown := next((each for each in prefixes if description_end(each) is not None), None)) is not None:
            ended += 1
            assert caption_of(shown) == caption_of("".join(pieces)), pieces
    assert ended > 200


LOOK_AHEAD = (
    *(
        " I'd like", " I would like", " I'm glad", " to", " say", " know", " that", " you", "If you", " are",
        " talking", " feel",
    ),
    *(
        " you sound", " your voice", " can", " hear", "please", " share", "Human", " resources", ":", " laughs", "'",
        "don't",
    ),
    *(
        "希望", "能", "他", "自己", "这", "大家", "你", "的", "语气", "很难过", "听起来", "别", "可以", "听到", "让",
        "咱们", "可能",
    ),
    *("如果", "还有什么", "用户", "吧", "不知道他", "\ufffd", "…", "”", "「", "’", ")"),
    *("吧嗯", "不过", "要是", "怎么"),
)  # fmt: skip


@pytest.mark.parametrize("words", [LOOK_AHEAD, (*LOOK_AHEAD, *WORDS)], ids=["look-ahead", "all"])
def test_every_prefix_of_a_text_that_shows_an_end_shows_that_of_the_whole(words):
    """Character by character, in both languages, whether the text is finished or goes on."""
    rng, ended = random.Random(17), 0
    for number in range(300):
        text = (ZH, f"{EN} ", "")[number % 3] + "".join(
            rng.choice((*words, "。", ". ", "？", "? ", "，", " ", "\n")) for _ in range(rng.randint(2, 14))
        )
        ends = [description_end(text[:length]) for length in range(1, len(text) + 1)]
        shown = [end for end in ends if end is not None]
        assert len({*shown}) <= 1, text
        assert None not in ends[len(ends) - len(shown) :], text
        if shown:
            ended += 1
            assert shown[0] == description_end(text, finished=True), text
    assert ended > 30


@pytest.mark.parametrize(
    "text",
    [
        f"{ZH}希望能让他自己安静下来。语气很轻。",
        f"{ZH}希望这一次她不再离开。",
        f"{EN} I'd like to say that the pace drops. The tone is low.",
        f"{EN} I am glad to say it is calm.",
        f"{EN} You can often hear the breath.",
        f"{EN} It is loud if you listen closely to it.",
        f"{ZH}这让你能听到颤抖。",
        f"{ZH}你说话时很紧张。声音很轻。",
    ],
)
def test_no_prefix_of_a_description_shows_an_end(text):
    assert [description_end(text[:length]) for length in range(len(text) + 1)] == [None] * (len(text) + 1)
    assert caption_of(text) == text


def test_half_a_word_and_half_a_character_wait_for_the_rest():
    assert description_end(f"{EN} Let me know") is None
    assert description_end(f"{EN} Let me know ") == len(EN) + 1
    assert description_end(f"{ZH}\ufffd") is None


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
def test_languages(text, found):
    assert language_of(text) == found


def test_flags_are_of_the_language_asked_for():
    assert flags_of(ZH, "en") == flags_of(EN, "zh") == ("language",)
    assert flags_of(" \n", "zh") == flags_of("", "en") == ("no_description",)
