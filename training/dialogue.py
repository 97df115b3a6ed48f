"""Token sequences of a training dialogue: before the audio, after it, and the caption to be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS, Language, Style
from training.captions import compose
from training.tokenizer import SYSTEM


@dataclass(frozen=True)
class Answer:
    """A tokenised caption with `<|im_end|>`. `attributes`: for each token the attribute whose word it holds, or ""."""

    ids: list[int]
    attributes: list[str]


class Dialogue:
    """Encodes prompts and captions with one tokenizer.

    Layout: system turn, user turn (`<|audio_bos|>`, audio, `<|audio_eos|>`, instruction), assistant turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.end = int(tokenizer.convert_tokens_to_ids("<|im_end|>"))
        self.audio = int(tokenizer.convert_tokens_to_ids("<|AUDIO|>"))
        self.before = self._ids(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n<|audio_bos|>")
        self._after = {
            key: self._ids(f"<|audio_eos|>{prompt}<|im_end|>\n<|im_start|>assistant\n")
            for key, prompt in PROMPTS.items()
        }

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def after(self, language: Language, style: Style) -> list[int]:
        """Token ids between the audio and the caption."""
        return self._after[language, style]

    def prompt(self, language: Language, style: Style, audio_tokens: int) -> list[int]:
        """The whole prompt with `audio_tokens` placeholders."""
        return [*self.before, *[self.audio] * audio_tokens, *self._after[language, style]]

    def answer(self, classes: Mapping[str, str], language: Language, style: Style) -> Answer:
        """The caption of `classes` as tokens."""
        caption = compose(classes, language, style)
        encoded = self.tokenizer(caption.text, add_special_tokens=False, return_offsets_mapping=True)
        attributes = [
            next((name for name, (start, stop) in caption.spans.items() if left < stop and right > start), "")
            for left, right in encoded["offset_mapping"]
        ]
        return Answer([*encoded["input_ids"], self.end], [*attributes, ""])

    def word_ids(self, attribute: str, words: Mapping[str, str], spaced: bool) -> dict[str, int]:
        """Token id of each class's word. Raises `ValueError` if a word is not one token."""
        found: dict[str, int] = {}
        for name, word in words.items():
            ids = self._ids(" " + word if spaced else word)
            if len(ids) != 1:
                raise ValueError(f"the {attribute} word {word!r} is {len(ids)} tokens, not one")
            found[name] = ids[0]
        return found
