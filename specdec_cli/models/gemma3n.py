"""Gemma 3n without its image tower and image processor, for which timm and torchvision would be needed."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import Gemma3nProcessor as PublishedProcessor
from transformers.models.gemma3n import modeling_gemma3n as published

from specdec_cli.models.families import AudioProcessor


class Gemma3nModel(published.Gemma3nModel):  # type: ignore[misc]
    """Decoder and audio tower."""

    __module__ = published.__name__

    def __init__(self, config: Any) -> None:
        published.Gemma3nPreTrainedModel.__init__(self, config)
        text = config.text_config
        self.vocab_size, self.vocab_size_per_layer_input = text.vocab_size, text.vocab_size_per_layer_input
        self.language_model = published.Gemma3nTextModel._from_config(text)
        self.audio_tower = published.Gemma3nAudioEncoder._from_config(config.audio_config)
        self.embed_vision = published.Gemma3nMultimodalEmbedder(config.vision_config, text)  # for ids of images
        self.embed_audio = published.Gemma3nMultimodalEmbedder(config.audio_config, text)
        self.post_init()


class Gemma3nForConditionalGeneration(published.Gemma3nForConditionalGeneration):  # type: ignore[misc]
    """The same with an output layer."""

    __module__ = published.__name__

    def __init__(self, config: Any) -> None:
        published.Gemma3nPreTrainedModel.__init__(self, config)
        self.model = Gemma3nModel(config)
        self.lm_head = nn.Linear(config.text_config.hidden_size, config.text_config.vocab_size, bias=False)
        self.post_init()


class Gemma3nProcessor(AudioProcessor, PublishedProcessor):  # type: ignore[misc]
    """Text and sound, with a fixed number of placeholders for any clip."""

    def __init__(
        self,
        feature_extractor: Any = None,
        tokenizer: Any = None,
        chat_template: str | None = None,
        audio_seq_length: int = 188,
    ) -> None:
        super().__init__(feature_extractor, tokenizer, chat_template)
        sound = tokenizer.boa_token + tokenizer.audio_token * audio_seq_length + tokenizer.eoa_token
        self.audio_seq_length, self.full_audio_sequence = audio_seq_length, f"\n\n{sound}\n\n"

    @property
    def model_input_names(self) -> list[str]:
        return [*self.tokenizer.model_input_names, *self.feature_extractor.model_input_names]
