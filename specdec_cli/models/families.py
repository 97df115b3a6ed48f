"""The families of audio language models that specdec is tested with, and the generic way for the others.

A family says how to load its processor and its class, which ids stand for audio, and how a clip becomes a prompt;
everything else in specdec works on ids and tensors.
"""

from __future__ import annotations

import base64
import inspect
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile
import torch
import transformers
from transformers.processing_utils import ProcessorMixin

from specdec_cli.errors import CheckpointError
from specdec_cli.imports import deferring

if TYPE_CHECKING:
    from specdec_cli.models.processor import Processor

Samples: TypeAlias = npt.NDArray[np.float32]
Made: TypeAlias = tuple[Sequence[int], Mapping[str, torch.Tensor]]
"""Ids of a prompt, and the clip's tensors by the names of the module's forward."""

THINK: Final = "<think>"  # opens the reasoning of models that write it before their answer
_NOT_AUDIO: Final = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})
_AUDIO_IDS: Final = ("audio_token_id", "audio_token_index")
_OTHER_IDS: Final = ("image_token_id", "video_token_id")


class Family:
    """The generic way."""

    name: ClassVar[str] = "generic"  # `family` in a configuration
    model_types: ClassVar[frozenset[str]] = frozenset()  # in config.json
    class_name: ClassVar[str] = "AutoModelForMultimodalLM"  # in transformers
    composed: ClassVar[bool] = False  # whether its processor is composed of what speech needs, see `AudioProcessor`
    unused: ClassVar[tuple[str, ...]] = ()  # prefixes of parameters that speech does not need
    eager: ClassVar[tuple[str, ...]] = ()  # sections of config.json whose modules have eager attention only
    needs: ClassVar[tuple[str, ...]] = ()  # packages beyond specdec's own, by their names on PyPI
    longest_s: ClassVar[float | None] = None  # longest recording; None: the processor's limit, or its window
    takes_system: ClassVar[bool] = True  # whether a prompt can have a system prompt
    takes_masks: ClassVar[bool] = False  # whether forward takes masks by kinds of layers, as generate() may make them
    payload: ClassVar[str] = "features"  # what the tensors of a clip are: features of it, or the waveform itself

    def module_class(self) -> Any:
        with deferring():  # it is imported when it is first looked up
            return getattr(transformers, self.class_name)

    def processor(self, source: str, **common: Any) -> Any:
        return (AudioProcessor if self.composed else transformers.AutoProcessor).from_pretrained(source, **common)

    def placeholder(self, name: str, config: Any) -> int:
        """The id that stands for one audio token."""
        if (found := next(iter(_ids(config, *_AUDIO_IDS)), None)) is not None:
            return found
        raise CheckpointError(
            f"{name} is a model of type {config.model_type!r}, which takes no audio",
            hint="Use an audio language model, one that takes speech, writes text and names its audio_token_id.",
        )

    def placeholders(self, config: Any) -> set[int]:
        """Ids that stand for audio, image or video."""
        return set(_ids(config, *_AUDIO_IDS, *_OTHER_IDS))

    def extractor(self, parts: Any) -> Any:
        return getattr(parts, "feature_extractor", None) or parts.audio_processor

    def window_s(self, parts: Any) -> float:
        """Longest recording, seconds; some processors cut longer ones without a warning."""
        limits = (self.longest_s, getattr(parts, "max_audio_len", None))
        return float(next(filter(None, (*limits, getattr(self.extractor(parts), "chunk_length", None))), 30.0))

    def prompt(self, processor: Processor, samples: Samples, instruction: str, system: str | None) -> Made:
        """A clip and an instruction as ids and tensors; see `Processor.prompt`."""
        made = processor.parts(
            text=[rendered(processor.parts, instruction, system)],
            audio=[samples],
            sampling_rate=processor.sampling_rate,
            return_tensors="pt",
        )
        return made["input_ids"][0].tolist(), self.tensors(made)

    def tensors(self, made: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What the module's forward takes of a processor's output, ids and masks over them left out."""
        taken = inspect.signature(self.module_class().forward).parameters if self.model_types else made
        return {name: values for name, values in made.items() if name in taken and name not in _NOT_AUDIO}


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


def prune(module: Any, unused: Sequence[str]) -> None:
    """Drops the parts of `module.model` that speech does not need, by the prefixes of their parameters."""
    for prefix in unused:
        owner, _, part = prefix.rstrip(".").rpartition(".")
        if owner == "model":
            setattr(module.model, part, None)


def _ids(config: Any, *names: str) -> list[int]:
    return [id_ for name in names if isinstance(id_ := getattr(config, name, None), int)]


def conversation(instruction: str, system: str | None, **audio: Any) -> list[dict[str, Any]]:
    """The turns of a chat template, with the audio, whose fields are given, before the instruction.

    Without an instruction the turn is the audio alone, as some captioning models want it.
    """
    said = [{"type": "text", "text": instruction}] if instruction else []
    turns = [{"role": "user", "content": [{"type": "audio", **audio}, *said]}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return turns


def rendered(parts: Any, instruction: str, system: str | None) -> str:
    """The chat template with the audio before the instruction, as text with one placeholder."""
    text: str = parts.apply_chat_template(
        conversation(instruction, system, audio=""), tokenize=False, add_generation_prompt=True
    )
    if text.rstrip().endswith(THINK):
        raise reasons(f"the chat template opens the answer with {THINK}")
    return text


def reasons(says: str) -> CheckpointError:
    """A model is refused because it reasons first."""
    hint = "Use an Instruct or Captioner variant: reasoning would be taken for the caption."
    return CheckpointError(f"{says}: the model reasons before it answers", hint=hint)


class AudioProcessor(ProcessorMixin):  # type: ignore[misc]
    """Feature extractor, tokenizer and chat template alone: those of Qwen-Omni and Gemma 4 also want torchvision."""

    def __init__(self, feature_extractor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(feature_extractor, tokenizer, chat_template=chat_template)
