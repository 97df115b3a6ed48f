"""The families of audio language models that specdec runs.

A family defines how its processor and its class are loaded, which ids stand for audio, and how a clip becomes a prompt;
everything else in specdec works on ids and tensors.
"""

from __future__ import annotations

import base64
import inspect
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile
import torch
import transformers
from packaging.version import Version
from transformers.processing_utils import ProcessorMixin

Samples: TypeAlias = npt.NDArray[np.float32]
Inputs: TypeAlias = tuple[Sequence[int], Mapping[str, torch.Tensor]]
"""Token ids of a prompt, and the clip's tensors by the names of arguments of the module's forward."""

PLACEHOLDERS: Final = ("audio_token_id", "audio_token_index", "image_token_id", "video_token_id")
"""Names in config.json of ids that stand for audio, image or video; those of audio first."""
CACHE: Final = "cache" if Version(transformers.__version__) >= Version("5.24") else "past_key_values"
"""The name of the cache among the arguments of a module's forward."""
_MARK: Final = "<audio>"  # in place of a clip where only the text of a prompt is made
_NOT_AUDIO: Final = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})


@dataclass(eq=False)
class Family:
    """One family; most differ in these fields alone."""

    name: str
    model_types: Sequence[str]  # in config.json
    class_name: str  # in transformers
    reduced: str | None = None  # processor class of which only what speech needs is built, see `AudioProcessor`
    unused: tuple[str, ...] = ()  # prefixes of parameters that speech does not need
    eager: tuple[str, ...] = ()  # sections of config.json whose modules have eager attention only
    needs: tuple[str, ...] = ()  # packages beyond specdec's own, by their names on PyPI
    longest_s: float | None = None  # longest recording; None: the processor's limit, or its window
    takes_system: bool = True  # whether a prompt can have a system prompt
    takes_masks: bool = False  # whether forward takes masks by kinds of layers, as generate() may make them
    payload: str = "features"  # whether the tensors of a clip are its features or its waveform

    @cached_property
    def module_class(self) -> Any:
        """The class in transformers. Its instances drop the parts that speech does not need when they are built."""
        base = getattr(transformers, self.class_name)

        def without_unused(module: Any, *args: Any, **kwargs: Any) -> None:
            base.__init__(module, *args, **kwargs)
            for prefix in self.unused:
                owner, _, part = prefix.rstrip(".").rpartition(".")
                holder = getattr(module, owner, None) if owner else module
                if part in getattr(holder, "_modules", ()):
                    setattr(holder, part, None)

        return type(base.__name__, (base,), {"__init__": without_unused, "__module__": base.__module__})

    def processor(self, source: str, **common: Any) -> Any:
        """Transformers' processor of the checkpoint in the folder `source`, reduced to what speech needs."""
        if self.reduced is None:
            return transformers.AutoProcessor.from_pretrained(source, **common)
        kind: Any = type(self.reduced, (AudioProcessor, getattr(transformers, self.reduced)), {})
        return kind.from_pretrained(source, **common)

    def placeholders(self, config: Any) -> list[int]:
        """Ids that stand for audio, image or video; the first one stands for one audio token."""
        return [id_ for name in PLACEHOLDERS if isinstance(id_ := getattr(config, name, None), int)]

    def prompt(self, parts: Any, samples: Samples, instruction: str, system: str | None, placeholder: int) -> Inputs:  # noqa: ARG002
        """A clip and an instruction as ids and tensors, by transformers' processor `parts`; see `Processor.prompt`."""
        turns = conversation(instruction, system, **self.audio_part(samples))
        how = {"tokenize": True, "add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
        made = parts.apply_chat_template(turns, **how)
        taken = inspect.signature(self.module_class.forward).parameters
        audio = {name: values for name, values in made.items() if name in taken and name not in _NOT_AUDIO}
        return made["input_ids"][0].tolist(), audio

    def audio_part(self, samples: Samples) -> dict[str, Any]:
        """A clip as a field of its part of a turn, as the processor takes it."""
        return {"audio": samples}


class QwenOmni(Family):
    """Qwen2.5-Omni, whose own processor would pad every clip to the longest one."""

    def prompt(self, parts: Any, samples: Samples, instruction: str, system: str | None, placeholder: int) -> Inputs:
        """Features at the clip's own length; one audio token for four frames."""
        turns = conversation(instruction, system, audio=_MARK)
        text = parts.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids: list[int] = parts.tokenizer(text, add_special_tokens=False).input_ids
        if (found := ids.count(placeholder)) != 1:
            raise ValueError(f"the chat template puts {found} audio placeholders into the prompt instead of one")
        at = ids.index(placeholder)
        features = self.features(parts.feature_extractor, samples)
        ids[at : at + 1] = ids[at : at + 1] * self.audio_tokens(features.shape[-1])
        mask = torch.ones(1, features.shape[-1], dtype=torch.long)
        return ids, {"input_features": features, "feature_attention_mask": mask}

    def features(self, extractor: Any, samples: Samples) -> torch.Tensor:
        """Log-mel features at the clip's own length: float32 [1, bins, ceil(n / hop)].

        The extractor would pad to its whole window, 300 s in the published Qwen2.5-Omni. Two analysis windows of zeros
        at the end give the same frames: the last frames reach into the zeros alone, and silence changes no maximum. A
        clip that fills the extractor's window ends in a reflection instead of zeros, here as there.
        """
        hop = int(extractor.hop_length)
        frames = -(-len(samples) // hop)
        padded = np.zeros(min(frames * hop + 2 * extractor.n_fft, extractor.n_samples), dtype=np.float32)
        padded[: len(samples)] = samples
        how = {"sampling_rate": extractor.sampling_rate, "padding": False, "truncation": False, "return_tensors": "pt"}
        features: torch.Tensor = extractor(padded, **how).input_features
        return features[:, :, :frames].contiguous()

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: two strides of two."""
        return max(((frames - 1) // 2 + 1 - 2) // 2 + 1, 0)


class Voxtral(Family):
    """Voxtral. Its processor, mistral-common's, takes the clip as a base64 WAV file, and no system prompt."""

    def audio_part(self, samples: Samples) -> dict[str, Any]:
        """mistral-common takes the clip as a file."""
        with io.BytesIO() as file:
            soundfile.write(file, samples, 16_000, format="WAV", subtype="FLOAT")
            return {"base64": base64.b64encode(file.getvalue()).decode()}


class GraniteSpeech(Family):
    """Granite Speech. Its published chat template takes text that holds the audio's mark, and no parts."""

    def prompt(self, parts: Any, samples: Samples, instruction: str, system: str | None, placeholder: int) -> Inputs:  # noqa: ARG002
        turns = [{"role": "user", "content": f"{parts.audio_token}{instruction}"}]
        if system is not None:
            turns.insert(0, {"role": "system", "content": system})
        text = parts.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        made = parts(text, torch.from_numpy(samples)[None], return_tensors="pt")
        audio = {name: made[name] for name in ("input_features", "input_features_mask") if name in made}
        return made["input_ids"][0].tolist(), audio


_FAMILIES: Final[tuple[Family, ...]] = (
    # of the Omnis only the thinker: talker, token-to-wave model and vision tower are never loaded
    QwenOmni(
        "qwen2.5-omni",
        ("qwen2_5_omni", "qwen2_5_omni_thinker"),
        "Qwen2_5OmniThinkerForConditionalGeneration",
        reduced="ProcessorMixin",  # the published one is not imported: its prompts would be padded
        unused=("visual.", "model.visual.", "thinker.visual.", "talker.", "token2wav."),
        takes_masks=True,
    ),
    Family("qwen2-audio", ("qwen2_audio",), "Qwen2AudioForConditionalGeneration"),
    Family(
        "qwen3-omni",
        ("qwen3_omni_moe", "qwen3_omni_moe_thinker"),
        "Qwen3OmniMoeThinkerForConditionalGeneration",
        reduced="Qwen3OmniMoeProcessor",
        unused=("visual.", "model.visual.", "thinker.visual.", "talker.", "code2wav."),
        longest_s=2400.0,  # by the technical report; its processor cuts nothing
    ),
    Family(
        "gemma4",  # E2B and E4B
        ("gemma4",),
        "Gemma4ForConditionalGeneration",
        reduced="Gemma4Processor",
        unused=("model.vision_tower.", "model.embed_vision."),
        eager=("audio_config",),
    ),
    Family(
        "gemma4-unified",  # 12B, which has no encoder: frames of 640 samples are projected into the language model
        ("gemma4_unified",),
        "Gemma4UnifiedForConditionalGeneration",
        reduced="Gemma4UnifiedProcessor",
        unused=("model.embed_vision.",),
        payload="waveform",
    ),
    Family(
        "gemma3n",  # E2B and E4B
        ("gemma3n",),
        "Gemma3nForConditionalGeneration",
        unused=("model.vision_tower.",),
        eager=("audio_config",),
        needs=("timm", "torchvision"),  # to build the image parts, which are dropped
    ),
    Voxtral(
        "voxtral",
        ("voxtral",),
        "VoxtralForConditionalGeneration",
        needs=("mistral-common",),
        takes_system=False,  # mistral-common refuses one together with audio
        longest_s=2400.0,  # by the model card; windows of 30 s follow each other
    ),
    Family("audio-flamingo-3", ("audioflamingo3",), "AudioFlamingo3ForConditionalGeneration"),
    Family("music-flamingo", ("musicflamingo",), "MusicFlamingoForConditionalGeneration"),  # and Audio Flamingo Next
    GraniteSpeech(
        "granite-speech", ("granite_speech",), "GraniteSpeechForConditionalGeneration", needs=("torchaudio",)
    ),
)

FAMILIES: Final[Mapping[str, Family]] = {family.name: family for family in _FAMILIES}
"""By their names."""


def family_of(model_type: str) -> Family | None:
    """The family of a `model_type`, if there is one."""
    return next((family for family in FAMILIES.values() if model_type in family.model_types), None)


def conversation(instruction: str, system: str | None, **audio: Any) -> list[dict[str, Any]]:
    """The turns of a chat: the audio with the given fields, and the instruction after it.

    Without an instruction the turn holds only the audio, as some captioning models were trained.
    """
    text = [{"type": "text", "text": instruction}] if instruction else []
    turns = [{"role": "user", "content": [{"type": "audio", **audio}, *text]}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return turns


class AudioProcessor(ProcessorMixin):  # type: ignore[misc]
    """Feature extractor, tokenizer and chat template: the published processors also need torchvision."""

    image_token = video_token = None

    def __init__(self, feature_extractor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        for name in ("audio_token", "audio_token_id", "boa_token", "eoa_token"):
            setattr(self, name, getattr(tokenizer, name, None))
        ProcessorMixin.__init__(self, feature_extractor, tokenizer, chat_template=chat_template)
