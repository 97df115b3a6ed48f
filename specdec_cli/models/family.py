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
from specdec_cli.imports import deferring

if TYPE_CHECKING:
    from specdec_cli.models.processor import Processor

Samples: TypeAlias = npt.NDArray[np.float32]
Made: TypeAlias = tuple[Sequence[int], Mapping[str, torch.Tensor]]
"""Ids of a prompt, and the clip's tensors by the names of the module's forward."""

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
        """transformers' class, or auto class."""
        with deferring():  # it is imported when it is first looked up
            return getattr(transformers, self.class_name)

    def processor(self, source: str, **common: Any) -> Any:
        """The processor of a checkpoint."""
        return (AudioProcessor if self.composed else transformers.AutoProcessor).from_pretrained(source, **common)

    def placeholder(self, config: Any) -> int:
        """The id that stands for one audio token."""
        if (found := next(iter(_ids(config, *_AUDIO_IDS)), None)) is not None:
            return found
        raise CheckpointError(
            f"a model of type {config.model_type!r} names no audio_token_id",
            hint="Use an audio language model, one that takes speech and writes text.",
        )

    def placeholders(self, config: Any) -> set[int]:
        """Ids that stand for audio, image or video."""
        return set(_ids(config, *_AUDIO_IDS, *_OTHER_IDS))

    def extractor(self, parts: Any) -> Any:
        """The feature extractor of a processor."""
        found = getattr(parts, "feature_extractor", None) or getattr(parts, "audio_processor", None)
        if found is None:
            hint = "Use a checkpoint of a model that takes audio."
            raise CheckpointError(f"{type(parts).__name__} has no feature extractor", hint=hint)
        return found

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


def prune(module: Any, unused: Sequence[str]) -> None:
    """Drops the parts of `module.model` that speech does not need, by the prefixes of their parameters."""
    for prefix in unused:
        owner, _, part = prefix.rstrip(".").rpartition(".")
        if owner == "model":
            setattr(module.model, part, None)


def _ids(config: Any, *names: str) -> list[int]:
    return [id_ for name in names if isinstance(id_ := getattr(config, name, None), int)]


def conversation(instruction: str, system: str | None, **audio: Any) -> list[dict[str, Any]]:
    """The turns of a chat template, with the audio before the instruction.

    Args:
        instruction: the user's; empty: the turn is the audio alone, as some captioning models want it.
        system: a system prompt; None: the template's own.
        audio: fields of the audio part.
    """
    said = [{"type": "text", "text": instruction}] if instruction else []
    turns = [{"role": "user", "content": [{"type": "audio", **audio}, *said]}]
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
    if text.rstrip().endswith("<think>"):
        raise CheckpointError(
            "the chat template opens the answer with <think>: the model reasons before it answers",
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
