"""The families of audio language models that specdec is tested with."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import soundfile
import torch

from specdec_cli.models.family import Family, Made, Samples, conversation, rendered

if TYPE_CHECKING:
    from specdec_cli.models.processor import Processor


class QwenOmni(Family):
    """Qwen2.5-Omni: the thinker alone. Talker, token-to-wave model and vision tower are never built, or dropped."""

    name = "qwen2.5-omni"
    model_types = frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"})
    class_name = "Qwen2_5OmniThinkerForConditionalGeneration"
    composed = True  # the whole one needs torchvision
    unused = ("visual.", "model.visual.", "thinker.visual.", "talker.", "token2wav.")
    takes_masks = True

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """Features at the clip's own length; one audio token for four frames."""
        features = self.features(processor, samples)
        ids = processor.expanded(rendered(processor.parts, instruction, system), self.audio_tokens(features.shape[-1]))
        mask = torch.ones(1, features.shape[-1], dtype=torch.long)
        return ids, {"input_features": features, "feature_attention_mask": mask}

    def features(self, processor: Processor, samples: Samples) -> torch.Tensor:
        """Log-mel features at the clip's own length: float32 [1, bins, ceil(n / hop)].

        The extractor would pad to its whole window, 300 s in the published Qwen2.5-Omni. Two windows of silence at the
        end give the same frames: the last ones cover the zeros that the padding would be, and silence changes no
        maximum. At the end of its window the extractor pads with a reflection instead of zeros, and so does this.
        """
        extractor = processor.parts.feature_extractor
        hop = int(extractor.hop_length)
        frames = -(-len(samples) // hop)
        padded = np.zeros(min(frames * hop + 2 * extractor.n_fft, extractor.n_samples), dtype=np.float32)
        padded[: len(samples)] = samples
        return self.extracted(processor, padded, padding=False)[:, :, :frames].contiguous()

    def extracted(self, processor: Processor, samples: Samples, *, padding: bool) -> torch.Tensor:
        """What the feature extractor makes of all samples."""
        features: torch.Tensor = processor.parts.feature_extractor(
            samples, sampling_rate=processor.sampling_rate, padding=padding, truncation=False, return_tensors="pt"
        ).input_features
        return features

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: two strides of two."""
        return max(((frames - 1) // 2 + 1 - 2) // 2 + 1, 0)


class Qwen3Omni(QwenOmni):
    """Qwen3-Omni-MoE: the thinker of Instruct and Captioner."""

    name = "qwen3-omni"
    model_types = frozenset({"qwen3_omni_moe", "qwen3_omni_moe_thinker"})
    class_name = "Qwen3OmniMoeThinkerForConditionalGeneration"
    unused = ("visual.", "model.visual.", "thinker.visual.", "talker.", "code2wav.")
    takes_masks = False
    longest_s = 2400.0  # by the technical report; its processor cuts nothing

    def features(self, processor: Processor, samples: Samples) -> torch.Tensor:
        """Log-mel features [1, bins, frames]; this family's own processor pads nothing."""
        return self.extracted(processor, samples, padding=True)

    def audio_tokens(self, frames: int) -> int:
        """Three strides of two in chunks of 100 frames, 13 tokens each."""
        rest = frames % 100
        strided = (rest - 1) // 2 + 1
        return ((strided - 1) // 2 + 1 - 1) // 2 + 1 + frames // 100 * 13


class Qwen2Audio(Family):
    """Qwen2-Audio, through transformers' own processor: whole windows of 30 s."""

    name = "qwen2-audio"
    model_types = frozenset({"qwen2_audio"})
    class_name = "Qwen2AudioForConditionalGeneration"


class AudioFlamingo3(Family):
    """Audio Flamingo 3, which no auto class loads."""

    name = "audio-flamingo-3"
    model_types = frozenset({"audioflamingo3"})
    class_name = "AudioFlamingo3ForConditionalGeneration"


class Gemma4(Family):
    """Gemma 4 E2B and E4B; the vision tower is dropped."""

    name = "gemma4"
    model_types = frozenset({"gemma4"})
    class_name = "Gemma4ForConditionalGeneration"
    composed = True  # the whole one needs torchvision
    unused: ClassVar[tuple[str, ...]] = ("model.vision_tower.", "model.embed_vision.")
    eager: ClassVar[tuple[str, ...]] = ("audio_config",)

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """Features and their mask; audio tokens stand between a begin and an end token."""
        made = processor.parts.feature_extractor([samples], return_tensors="pt")
        made["input_features_mask"] = made["input_features_mask"].bool()
        tokenizer, count = processor.tokenizer, self.audio_tokens(made["input_features_mask"][0])
        around = tokenizer.convert_tokens_to_ids([tokenizer.boa_token, tokenizer.eoa_token])
        text = rendered(processor.parts, instruction, system)
        return processor.expanded(text, count, around[:1], around[1:]), self.tensors(made)

    def audio_tokens(self, mask: torch.Tensor) -> int:
        """Audio tokens of a clip with this mask [frames]: two strides of two."""
        return int(mask[::4].sum())


class Gemma4Unified(Gemma4):
    """Gemma 4 12B, which has no encoder: frames of 640 samples are projected into the language model."""

    name = "gemma4-unified"
    model_types = frozenset({"gemma4_unified"})
    class_name = "Gemma4UnifiedForConditionalGeneration"
    unused = ("model.embed_vision.",)
    eager = ()
    payload = "waveform"

    def audio_tokens(self, mask: torch.Tensor) -> int:
        """One per frame."""
        return int(mask.sum())


class Voxtral(Family):
    """Voxtral Mini and Small, through transformers' processor over mistral-common."""

    name = "voxtral"
    model_types = frozenset({"voxtral"})
    class_name = "VoxtralForConditionalGeneration"
    needs = ("mistral-common",)
    takes_system = False  # mistral-common refuses one beside audio
    longest_s = 2400.0  # by the model card; windows of 30 s follow each other

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """mistral-common builds the prompt, and takes the clip as a file."""
        with io.BytesIO() as file:
            soundfile.write(file, samples, processor.sampling_rate, format="WAV", subtype="FLOAT")
            encoded = base64.b64encode(file.getvalue()).decode()
        made = processor.parts.apply_chat_template(conversation(instruction, system, base64=encoded))
        return made["input_ids"][0].tolist(), self.tensors(made)


class GraniteSpeech(Family):
    """Granite Speech, whose features need torchaudio."""

    name = "granite-speech"
    model_types = frozenset({"granite_speech"})
    class_name = "GraniteSpeechForConditionalGeneration"
    needs = ("torchaudio",)


FAMILIES: Final[tuple[Family, ...]] = (
    QwenOmni(),
    Qwen2Audio(),
    Qwen3Omni(),
    Gemma4(),
    Gemma4Unified(),
    Voxtral(),
    AudioFlamingo3(),
    GraniteSpeech(),
)
"""Every family; a model of another type is tried as `Family`."""


def family_named(name: str) -> Family:
    """The family called `name` in a configuration."""
    return next(family for family in FAMILIES if family.name == name)


def family_of(model_type: str) -> Family:
    """The family of a `model_type`, or the generic way."""
    return next((family for family in FAMILIES if model_type in family.model_types), Family())
