"""Token sequences of a training dialogue: before the audio, after it, and the caption to be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS, Language, Style
from training.captions import WORDS, compose
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

    def answer(self, classes: Mapping[str, str], language: Language, style: Style) -> Answer:
        """The caption of `classes` as tokens."""
        caption = compose(classes, language, style)
        encoded = self.tokenizer(caption.text, add_special_tokens=False, return_offsets_mapping=True)
        attributes = [
            next((name for name, (start, stop) in caption.spans.items() if left < stop and right > start), "")
            for left, right in encoded["offset_mapping"]
        ]
        return Answer([*encoded["input_ids"], self.end], [*attributes, ""])

    def emotion_ids(self, language: Language) -> list[int]:
        """Token id of each emotion's word. Raises `ValueError` if a word is not one token."""
        words = [f" {word}" if language == "en" else word for word in WORDS[language]["emotion"].values()]
        return [id_ for (id_,) in map(self._ids, words)]
