"""What is particular about each family of audio language models; everything else in specdec works on ids and tensors.

A family says how to load its processor and its class, which ids stand for audio, and how a clip becomes a prompt.
`Family` itself is the generic way, through transformers' own processor and class: models of other types are tried
that way, and pass or fail the self-test when they are loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers.processing_utils import ProcessorMixin

from specdec_cli.errors import CheckpointError

if TYPE_CHECKING:
    from specdec_cli.models.processor import Processor

Samples: TypeAlias = npt.NDArray[np.float32]
Made: TypeAlias = tuple[Sequence[int], Mapping[str, torch.Tensor]]
"""Ids of a prompt, and the clip's tensors by the names of the module's forward."""

_NOT_AUDIO: Final = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})
_PLACEHOLDERS: Final = ("audio_token_id", "audio_token_index", "image_token_id", "video_token_id")


class Family:
    """The generic way.

    Attributes:
        name: of the family, as `family` in a configuration names it.
        model_types: values of `model_type` in config.json.
        class_name: transformers' class; empty: by the auto class.
        unused: prefixes of parameters that speech does not need.
        parts_needed: sections of config.json without which transformers would build a model of default size.
        needs: packages beyond specdec's own.
        payload: what the tensors of a clip are: features of it, or the waveform itself.
        joins: whether several clips can share a forward.
        note: for the table in the documentation.
    """

    name: ClassVar[str] = "generic"
    model_types: ClassVar[frozenset[str]] = frozenset()
    class_name: ClassVar[str] = ""
    unused: ClassVar[tuple[str, ...]] = ()
    parts_needed: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    payload: ClassVar[str] = "features"
    joins: ClassVar[bool] = True
    note: ClassVar[str] = "any other type that transformers' auto classes load"

    def module_class(self) -> Any:
        """transformers' class, or auto class."""
        return getattr(transformers, self.class_name or "AutoModelForMultimodalLM")

    def processor(self, source: str, **common: Any) -> Any:
        """transformers' processor out of a checkpoint."""
        return transformers.AutoProcessor.from_pretrained(source, **common)

    def prune(self, module: Any) -> None:
        """Drops the parts that speech does not need."""

    def placeholder(self, config: Any) -> int:
        """The id that stands for one audio token."""
        for name in _PLACEHOLDERS[:2]:
            if isinstance(found := getattr(config, name, None), int):
                return found
        raise CheckpointError(
            f"a model of type {config.model_type!r} names no audio_token_id",
            hint="Use an audio language model, one that takes speech and writes text.",
        )

    def placeholders(self, config: Any) -> set[int]:
        """Ids that stand for audio, image or video."""
        found = (getattr(config, name, None) for name in _PLACEHOLDERS)
        return {id_ for id_ in found if isinstance(id_, int)}

    def extractor(self, parts: Any) -> Any:
        """The feature extractor of a processor."""
        for name in ("feature_extractor", "audio_processor"):
            if (found := getattr(parts, name, None)) is not None:
                return found
        raise CheckpointError(
            f"{type(parts).__name__} has no feature extractor", hint="Use a checkpoint of a model that takes audio."
        )

    def window_s(self, parts: Any) -> float:
        """Longest recording, seconds."""
        return float(getattr(self.extractor(parts), "chunk_length", None) or 30.0)

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """A clip and an instruction as ids and tensors; see `Processor.prompt`."""
        made = processor.parts(
            text=[rendered(processor.parts, instruction, system)],
            audio=[samples],
            sampling_rate=processor.sampling_rate,
            return_tensors="pt",
        )
        taken = inspect.signature(self.module_class().forward).parameters if self.class_name else made.keys()
        tensors = {name: values for name, values in made.items() if name in taken and name not in _NOT_AUDIO}
        return made["input_ids"][0].tolist(), tensors


def rendered(parts: Any, instruction: str, system: str | None) -> str:
    """The chat template with the audio before the instruction, as text with one placeholder."""
    conversation: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "audio", "audio": ""}, {"type": "text", "text": instruction}]}
    ]
    if system is not None:
        conversation.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    text: str = parts.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    return text


class AudioProcessor(ProcessorMixin):  # type: ignore[misc]
    """Feature extractor, tokenizer and chat template alone.

    The processors of Qwen-Omni and Gemma 4 also want image and video processors, which need torchvision; speech does
    not.
    """

    def __init__(self, feature_extractor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(feature_extractor, tokenizer, chat_template=chat_template)


def whisper_features(extractor: Any, samples: Samples, sampling_rate: int) -> torch.Tensor:
    """Log-mel features at a clip's own length: float32 [1, mel bins, ceil(n / hop)].

    The extractor would pad to its whole window, 300 s in the published Qwen2.5-Omni. Two windows of trailing silence
    give the same frames: the last ones cover the zeros that the padding would be, and silence changes no maximum.
    At the end of its window the extractor pads with a reflection instead of zeros, and so does this.
    """
    hop = int(extractor.hop_length)
    frames = -(-len(samples) // hop)
    padded = np.zeros(min(frames * hop + 2 * extractor.n_fft, extractor.n_samples), dtype=np.float32)
    padded[: len(samples)] = samples
    features: torch.Tensor = extractor(
        padded, sampling_rate=sampling_rate, padding=False, truncation=False, return_tensors="pt"
    ).input_features
    return features[:, :, :frames].contiguous()


class QwenOmni(Family):
    """Qwen2.5-Omni: the thinker alone. Talker, token-to-wave model and vision tower are never built, or dropped."""

    name = "qwen2.5-omni"
    model_types = frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"})
    class_name = "Qwen2_5OmniThinkerForConditionalGeneration"
    unused = ("visual.", "model.visual.", "thinker.visual.", "talker.", "token2wav.")
    parts_needed = ("text_config", "audio_config")
    note = "25 audio tokens a second, 300 s; vision tower and talker are dropped"

    def processor(self, source: str, **common: Any) -> Any:
        """The parts that need no torchvision."""
        return AudioProcessor.from_pretrained(source, **common)

    def prune(self, module: Any) -> None:
        """Drops the vision tower."""
        del module.model.visual

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """Features at the clip's own length; one audio token for four frames."""
        features = self.features(processor, samples)
        ids = processor.expanded(rendered(processor.parts, instruction, system), self.audio_tokens(features.shape[-1]))
        mask = torch.ones(1, features.shape[-1], dtype=torch.long)
        return ids, {"input_features": features, "feature_attention_mask": mask}

    def features(self, processor: Processor, samples: Samples) -> torch.Tensor:
        """Log-mel features [1, bins, frames]."""
        return whisper_features(processor.parts.feature_extractor, samples, processor.sampling_rate)

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: two strides of two."""
        return max(((frames - 1) // 2 + 1 - 2) // 2 + 1, 0)


class Qwen3Omni(QwenOmni):
    """Qwen3-Omni-MoE: the thinker of Instruct and Captioner. Thinking variants are refused."""

    name = "qwen3-omni"
    model_types = frozenset({"qwen3_omni_moe", "qwen3_omni_moe_thinker"})
    class_name = "Qwen3OmniMoeThinkerForConditionalGeneration"
    unused = ("visual.", "model.visual.", "thinker.visual.", "talker.", "code2wav.")
    note = "12.5 audio tokens a second; the Captioner takes no instruction and writes English; Thinking is refused"

    def features(self, processor: Processor, samples: Samples) -> torch.Tensor:
        """Log-mel features [1, bins, frames]; this family's own processor pads nothing."""
        made = processor.parts.feature_extractor(
            samples, sampling_rate=processor.sampling_rate, padding=True, truncation=False, return_tensors="pt"
        )
        features: torch.Tensor = made.input_features
        return features

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
    parts_needed = ("text_config", "audio_config")
    note = "whole windows of 30 s"

    def processor(self, source: str, **common: Any) -> Any:
        """transformers' own."""
        return transformers.Qwen2AudioProcessor.from_pretrained(source, **common)


FAMILIES: Final[tuple[Family, ...]] = (QwenOmni(), Qwen2Audio(), Qwen3Omni())
"""Every family by name; a model of another type is tried as `Family`."""


def family_named(name: str) -> Family:
    """The family called `name` in a configuration."""
    return next(family for family in FAMILIES if family.name == name)


def family_of(model_type: str) -> Family:
    """The family of a `model_type`, or the generic way."""
    return next((family for family in FAMILIES if model_type in family.model_types), Family())
