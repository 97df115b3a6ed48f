"""Qwen2.5-Omni: the thinker alone, for speech in and text out.

The talker, the token-to-wave model and the vision tower of a full checkpoint are never built or are dropped.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2_5OmniThinkerForConditionalGeneration
from transformers.processing_utils import ProcessorMixin

from specdec_cli.models.family import AudioFeatures
from specdec_cli.models.qwen import QwenAudioModel
from specdec_cli.models.tower import ExactTower


class AudioProcessor(ProcessorMixin):  # type: ignore[misc]
    """Feature extractor, tokenizer and chat template of Qwen2.5-Omni.

    transformers' own processor also wants a video processor, which needs torchvision; speech does not.
    """

    def __init__(self, feature_extractor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(feature_extractor, tokenizer, chat_template=chat_template)


class QwenOmniThinker(QwenAudioModel):
    """A Qwen2.5-Omni thinker: Whisper-style audio tower, Qwen2 decoder."""

    family = "qwen2.5-omni"
    module_class = Qwen2_5OmniThinkerForConditionalGeneration
    processor_class = AudioProcessor
    model_types = frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"})
    unused_weights = ("visual.", "model.visual.", "thinker.visual.", "talker.", "token2wav.")

    def __init__(self, name: str, module: Any, processor: Any) -> None:
        super().__init__(name, module, processor)
        tower = module.model.audio_tower
        self.steady_encoder = ExactTower.fits(tower) and not self.spread
        self._tower = ExactTower(tower) if self.steady_encoder else None

    @staticmethod
    def placeholders(config: Any) -> set[int]:
        """Ids that stand for audio, image or video."""
        return {int(config.audio_token_id), int(config.image_token_id), int(config.video_token_id)}

    @staticmethod
    def pruned(module: Any) -> Any:
        """The module without its vision tower."""
        del module.model.visual
        return module

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: two strides of two."""
        _, tokens = self.module.model.audio_tower._get_feat_extract_output_lengths(torch.tensor(frames))
        return int(tokens)

    def encode(self, features: AudioFeatures) -> torch.Tensor:
        """Runs the audio tower: [audio tokens, hidden]."""
        tower: Any = self.module.model.audio_tower
        values = features.values.to(tower.conv1.weight.device, tower.conv1.weight.dtype)
        if self._tower is not None:
            return self._tower(values)
        lengths = torch.tensor([features.frames], device=values.device)
        hidden: torch.Tensor = tower(values, feature_lens=lengths).last_hidden_state
        return hidden
