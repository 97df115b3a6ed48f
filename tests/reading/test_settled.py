"""What a stream shows of an unfinished caption stays: the caption of every continuation begins with it."""

import random

import pytest

from specdec_cli.reading import CaptionRules, caption_of, description_end, settled

PARTS = (
    "The speaker has a calm voice. ", "说话人声音低沉，语速较慢。", "Sure! ", "Here is a description: ",
    "Would you like to know more? ", "Let me know if you need anything else. ",
    "I'm sorry, I cannot describe the voice. ", "他说“你好吗？我很好。”然后停顿。",
    'She says "are you there?" and laughs, ', "quoting 'it's fine' slowly. ", "如果您需要更多信息，请告诉我。",
    "User: what else?\n", "at 3.5 Hz, e.g. low", "……", "!? ", "\n", "“", '"', "You sound tired. ",
)  # fmt: skip


def texts() -> list[str]:
    drawn = random.Random(5)
    return ["".join(drawn.choice(PARTS) for _ in range(drawn.randint(1, 6))) for _ in range(100)]


def written(text: str) -> list[str]:
    """A text as it is written, up to where the description ends."""
    states: list[str] = []
    for end in range(len(text) + 1):
        states.append(text[:end])
        if description_end(text[:end]) is not None:
            break
    return states


@pytest.mark.parametrize("at", range(4))
def test_what_is_settled_is_in_the_caption_of_every_continuation(at):
    shown = 0
    for text in texts()[at::4]:
        states = written(text)
        caption = caption_of(states[-1])
        for state in states:
            said = settled(state[: description_end(state)].strip())
            assert caption.startswith(said), (state, text)
            shown += len(said)
    assert shown > 300


@pytest.mark.parametrize("closing", ["on", "off"])
def test_text_that_a_stop_string_may_cut_waits(closing):
    rules = CaptionRules(closing == "on", ["low voice", "voice.", "。说"])
    for text in (*texts(), "A low voi", "A low voice.", "A low low voice", "A voicevoice. A"):
        states = written(text) if closing == "on" else [text[:end] for end in range(len(text) + 1)]
        caption = rules.caption(states[-1])
        for state in states:
            shown = state[: description_end(state)] if closing == "on" else state
            assert caption.startswith(rules.settled(shown.strip())), (state, text)
