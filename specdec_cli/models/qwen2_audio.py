"""Qwen2-Audio: speech in a window of 30 s in, text out."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import gelu
from transformers import Qwen2AudioForConditionalGeneration, Qwen2AudioProcessor

from specdec_cli.errors import CheckpointError
from specdec_cli.models.family import AudioFeatures
from specdec_cli.models.qwen import QwenAudioModel


class Qwen2Audio(QwenAudioModel):
    """A Qwen2-Audio model: Whisper's audio tower at half its rate, Qwen2 decoder."""

    family = "qwen2-audio"
    module_class = Qwen2AudioForConditionalGeneration
    processor_class = Qwen2AudioProcessor
    model_types = frozenset({"qwen2_audio"})
    frames_behind = 2  # the two convolutions see that far

    @staticmethod
    def placeholders(config: Any) -> set[int]:
        """The id that stands for audio."""
        return {int(config.audio_token_id)}

    def require_fit(self) -> None:
        """Refuses a feature extractor or a tokenizer that belongs to another model."""
        super().require_fit()
        frames = self.processor.feature_extractor.n_samples // self._hop
        wanted = 2 * int(self.module.config.audio_config.max_source_positions)
        if frames != wanted:
            raise CheckpointError(
                f"{self.name} hears windows of {wanted} mel frames, but its feature extractor gives {frames}",
                hint="Use the preprocessor_config.json that belongs to the checkpoint.",
            )

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: a stride of two, then the means of two."""
        return _strided(frames) // 2

    def encode(self, features: AudioFeatures) -> torch.Tensor:
        """Runs the audio tower at the clip's own length: [audio tokens, hidden].

        transformers pads to the window, and lets no position of the clip attend to the padding. What the padding
        does change is the end of the convolutions, so they get the frames that stand there.
        """
        tower: Any = self.module.model.audio_tower
        hidden = features.values[None].to(tower.conv1.weight.device, tower.conv1.weight.dtype)
        positions = _strided(features.frames)
        hidden = gelu(tower.conv2(gelu(tower.conv1(hidden))))[:, :, :positions].transpose(1, 2)
        hidden = hidden + tower.embed_positions.weight[:positions]
        for layer in tower.layers:
            hidden = layer(hidden, None)
        hidden = tower.avg_pooler(hidden.transpose(1, 2)).transpose(1, 2)
        projected: torch.Tensor = self.module.model.multi_modal_projector(tower.layer_norm(hidden))
        return projected[0]


def _strided(frames: int) -> int:
    """Positions that the tower attends over: a convolution of stride two."""
    return (frames + 1) // 2
