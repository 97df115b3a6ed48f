"""Where a caption ends: what is for the listener goes, what describes stays."""

from __future__ import annotations

import random

import pytest

from specdec_cli.reading import caption_of, description_end
from tests.laws.cases import WORDS

ZH = "说话人语速很快，声音发抖，听起来很害怕。"
EN = "The speaker talks fast in a trembling voice. They seem afraid."


@pytest.mark.parametrize(
    "chatter",
    [
        "你觉得呢？",
        "您还有别的录音吗？",
        "如果还有别的问题，随时告诉我哦！😊",
        "要是你想聊聊，可以跟我说呀。",
        "希望能帮到你。",
        "有什么想法也可以和我分享。加油！",
        "嗯，你怎么突然问这个？",
        "\nHuman: 再来一段",
        "\nHuman",
        "用户：谢谢",
        "有需要尽管提！",
        "讲给我听听吧。",
    ],
)
def test_chinese_chatter_goes(chatter: str) -> None:
    assert caption_of(ZH + chatter) == ZH


@pytest.mark.parametrize(
    "chatter",
    [
        "What do you think?",
        "Do you have any other clips? I'd be happy to listen.",
        "If you want, we can go through it again.",
        "Feel free to send more!",
        "Let me know what else you need.",
        "So, how does this sound to you?",
        "It'd be great to hear your thoughts.",
        "Please share another recording.",
        "Human: and this one?",
        "I can help with other clips.",
        "Can I hear your story?",
        "\nUser",
    ],
)
def test_english_chatter_goes(chatter: str) -> None:
    assert caption_of(f"{EN} {chatter}") == EN


@pytest.mark.parametrize(
    "text",
    [
        ZH,
        EN,
        "你这句话听起来很着急，是不是在催我呀？",  # a first sentence that describes
        "她语气平静。她在问对方：“你吃饭了吗？”声音很轻。",
        "他先停了一下。他让你觉得他在犹豫，语气里带着疑问。",
        "她的声音很轻。这给人一种期待的感觉，希望得到回答。",
        'The voice is sharp. He asks, "What do you want from me?" and sighs.',
        "The tone is low. You can hear the tension in every word.",
        "The tone is warm. It is as if you were being read a story.",
        "She sounds unsure. I'd say she is nervous. Maybe she is late for something?",
        "The rate is 3.5 syllables a second. The voice, e.g. at the end, is soft.",
        "Human laughter is heard. It sounds relieved.",
    ],
)
def test_descriptions_stay_whole(text: str) -> None:
    assert caption_of(text) == text


@pytest.mark.parametrize(
    "text", ["如果还有问题，随时问我。", "What do you think? Feel free to ask.", "Human: hi", "", " \n"]
)
def test_what_is_nothing_but_chatter_has_no_caption(text: str) -> None:
    assert caption_of(text) == ""


def test_a_preamble_is_no_end() -> None:
    text = f"I can help you with that. {EN}"
    assert description_end(text) is None
    assert caption_of(f"{text} What do you think?") == text


def test_a_text_that_ends_where_it_shows_has_the_caption_of_the_whole() -> None:
    rng = random.Random(5)
    ended = 0
    for _ in range(1500):
        pieces = rng.choices(WORDS, k=rng.randint(2, 20))
        prefixes = ("".join(pieces[:length]) for length in range(1, len(pieces) + 1))
        if (shown := next((each for each in prefixes if description_end(each) is not None), None)) is not None:
            ended += 1
            assert caption_of(shown) == caption_of("".join(pieces)), pieces
    assert ended > 200


def test_half_a_word_and_half_a_character_wait_for_the_rest() -> None:
    assert description_end(f"{EN} Let me know") is None
    assert description_end(f"{EN} Let me know ") == len(EN) + 1
    assert description_end(f"{ZH}\ufffd") is None
