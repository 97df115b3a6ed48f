"""What a family of audio language models has to say of itself, and the generic way for the others.

A family says how to load its processor and its class, which ids stand for audio, and how a clip becomes a prompt;
everything else in specdec works on ids and tensors. The families are in `families`.
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

THINK: Final = "<think>"
"""Opens the reasoning of models that write it before their answer."""
_NOT_AUDIO: Final = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})
_PLACEHOLDERS: Final = ("audio_token_id", "audio_token_index", "image_token_id", "video_token_id")


class Family:
    """The generic way.

    Attributes:
        name: of the family, as `family` in a configuration names it.
        model_types: values of `model_type` in config.json.
        class_name: transformers' class, or auto class.
        processor_name: of transformers' processor; empty: `AudioProcessor`.
        unused: prefixes of parameters that speech does not need; parts of `module.model` among them are dropped.
        eager: sections of config.json whose modules have no other attention than the eager one.
        parts_needed: sections of config.json without which transformers would build a model of default size.
        needs: packages beyond specdec's own, by their names on PyPI.
        longest_s: longest recording, seconds; None: the processor's limit or the feature extractor's window.
        takes_system: whether a prompt can have a system prompt.
        payload: what the tensors of a clip are: features of it, or the waveform itself.
    """

    name: ClassVar[str] = "generic"
    model_types: ClassVar[frozenset[str]] = frozenset()
    class_name: ClassVar[str] = "AutoModelForMultimodalLM"
    processor_name: ClassVar[str] = "AutoProcessor"
    unused: ClassVar[tuple[str, ...]] = ()
    eager: ClassVar[tuple[str, ...]] = ()
    parts_needed: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    longest_s: ClassVar[float | None] = None
    takes_system: ClassVar[bool] = True
    payload: ClassVar[str] = "features"

    def refuse(self, label: str, config: Mapping[str, Any]) -> None:
        """Raises a CheckpointError for a checkpoint of this family that is of a kind that cannot be run.

        Args:
            label: what the user calls it.
            config: the content of config.json.
        """

    def module_class(self) -> Any:
        """transformers' class, or auto class."""
        return getattr(transformers, self.class_name)

    def processor(self, source: str, **common: Any) -> Any:
        """The processor of a checkpoint."""
        made_by = getattr(transformers, self.processor_name) if self.processor_name else AudioProcessor
        return made_by.from_pretrained(source, **common)

    def prune(self, module: Any) -> None:
        """Drops the parts that speech does not need."""
        for prefix in self.unused:
            owner, _, part = prefix.rstrip(".").rpartition(".")
            if owner == "model":
                setattr(module.model, part, None)

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


def conversation(instruction: str, system: str | None, **audio: Any) -> list[dict[str, Any]]:
    """The turns of a chat template, with the audio before the instruction.

    Args:
        instruction: the user's; empty: the turn is the audio alone, as some captioning models want it.
        system: a system prompt; None: the template's own.
        audio: fields of the audio part.
    """
    content: list[dict[str, Any]] = [{"type": "audio", **audio}]
    if instruction:
        content.append({"type": "text", "text": instruction})
    turns: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return turns


def rendered(parts: Any, instruction: str, system: str | None) -> str:
    """The chat template with the audio before the instruction, as text with one placeholder.

    Raises:
        CheckpointError: the template makes the model reason before it answers.
    """
    text: str = parts.apply_chat_template(
        conversation(instruction, system, audio=""), tokenize=False, add_generation_prompt=True
    )
    if text.rstrip().endswith(THINK):
        raise CheckpointError(
            f"the chat template opens the answer with {THINK}: the model reasons before it answers",
            hint="Use an Instruct or Captioner variant: reasoning would be taken for the caption.",
        )
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
