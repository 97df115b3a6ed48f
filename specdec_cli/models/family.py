"""What the engine needs to know of a model family, and the registry of the families that exist.

A family is one small adapter: how to load a checkpoint, build the prompt, run the audio tower and the decoder, and
name the placeholder tokens. Everything else in specdec works on token ids and tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load one checkpoint.

    Attributes:
        model: a local folder or a hub id.
        name: what the user calls it, in messages and transcripts; None: `model`.
        revision: branch, tag or commit of a hub repository.
        device, dtype: names as in the configuration, "auto" included.
        device_map: accelerate's placement over several devices, or None for one device.
        attention: attention implementation.
        quantization: None, "int8" or "int4".
        compile: "off", "default" or "reduce-overhead"; see `models.compiled`.
        offline: never ask a hub.
    """

    model: str
    name: str | None = None
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    device_map: str | None = None
    attention: str = "sdpa"
    quantization: str | None = None
    compile: str = "off"
    offline: bool = True

    @property
    def label(self) -> str:
        """What to call the model."""
        return self.name or self.model


@dataclass(frozen=True, slots=True)
class AudioFeatures:
    """Log-mel features of one clip.

    Attributes:
        values: float32 [mel bins, frames], at the clip's own length; a family may want some more frames behind it.
        frames: number of frames of the clip itself.
    """

    values: torch.Tensor
    frames: int


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """A prompt ready for one model.

    Attributes:
        ids: token ids, the audio placeholder repeated once per audio token.
        features: the clip's features.
        waveform: mono samples [n] at the model's rate; only for a cloud behind a link that wants them.
    """

    ids: tuple[int, ...]
    features: AudioFeatures
    waveform: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One clip's share of a forward that several clips make together.

    Attributes:
        start: position of its first token: what its cache holds.
        length: tokens, at least one.
        cache: the clip's own.
    """

    start: int
    length: int
    cache: Cache


class AudioLanguageModel(ABC):
    """A loaded checkpoint behind the operations that a session needs.

    Attributes:
        name: what the user called it.
        device, dtype: where and in which format it computes.
        tokenizer: transformers' tokenizer.
        vocab_size: rows of its output layer, padding included.
        eos_ids: ids that end a text.
        placeholder_ids: ids that stand for audio, image or video; never to be generated.
        sampling_rate: Hz, of the waveform it takes.
        window_s: longest recording that it takes, seconds.
        layers: number of decoder layers.
        context: positions that it was made for, prompt and text together.
        parameters: number of weights, audio tower included; 0 if nobody counted.
        steady_encoder: whether `encode` runs on the CPU and gives the same bits with any number of threads.
        weights: what tells its weights from others of the same name, see `models.weights`; None: nobody looked.
        compiled: how its decoder is compiled, or "off: " and why it is not though it should be; None: it should not.
    """

    name: str
    device: torch.device
    dtype: torch.dtype
    tokenizer: Any
    vocab_size: int
    eos_ids: tuple[int, ...]
    placeholder_ids: tuple[int, ...]
    sampling_rate: int
    window_s: float
    layers: int
    context: int
    parameters: int = 0
    steady_encoder: bool = False
    weights: str | None = None
    compiled: str | None = None

    @classmethod
    @abstractmethod
    def load(cls, options: LoadOptions) -> AudioLanguageModel:
        """Reads a checkpoint. Raises CheckpointError where it is not one of this family, or incomplete."""

    @abstractmethod
    def features(self, waveform: npt.NDArray[np.float32]) -> AudioFeatures:
        """Log-mel features of mono samples [n] at `sampling_rate`."""

    @abstractmethod
    def build_prompt(self, instruction: str, features: AudioFeatures, system: str | None = None) -> PromptInputs:
        """The chat-formatted prompt for a clip and an instruction."""

    @abstractmethod
    def encode(self, features: AudioFeatures) -> torch.Tensor:
        """Runs the audio tower: [audio tokens, hidden]."""

    @abstractmethod
    def embed(self, ids: Sequence[int], audio: torch.Tensor | None = None) -> torch.Tensor:
        """Input embeddings [1, q, hidden]; `audio` [n, hidden] replaces the n placeholders, in order."""

    @abstractmethod
    def decode(self, embeddings: torch.Tensor, start: int, cache: Cache) -> torch.Tensor:
        """Runs the decoder on [1, q, hidden] at positions start..start+q-1, extending `cache`: [1, q, hidden]."""

    def decode_together(self, embeddings: torch.Tensor, spans: Sequence[Span]) -> torch.Tensor:
        """Runs the decoder on several clips' tokens, end to end in the order of `spans`: [tokens, hidden] -> the same.

        Each clip attends to itself alone and extends its own cache, as if `decode` had been called for each, which is
        what happens unless a family can do better.
        """
        parts = embeddings.split_with_sizes([span.length for span in spans])
        return torch.cat(
            [self.decode(part[None], span.start, span.cache)[0] for part, span in zip(parts, spans, strict=True)]
        )

    @abstractmethod
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output layer: [m, hidden] -> float32 [m, vocab_size]."""

    def feature_key(self) -> str:
        """Equal for two models exactly if `features` gives the same for both, so that it can be computed once."""
        return f"{type(self).__name__}:{id(self)}"

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens left out; bytes that are no character come as U+FFFD."""
        written: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return written

    def describe(self) -> dict[str, str]:
        """Name, dtype and device, and what is known of its weights and compiling, as transcripts record them."""
        told = {"name": self.name, "dtype": str(self.dtype).removeprefix("torch."), "device": str(self.device)}
        known = {"weights": self.weights, "compiled": self.compiled}
        return told | {name: value for name, value in known.items() if value is not None}


def family_class(name: str) -> type[AudioLanguageModel]:
    """The adapter registered under `name` (the configuration has checked that it exists)."""
    from specdec_cli.models.qwen2_audio import Qwen2Audio
    from specdec_cli.models.qwen_omni import QwenOmniThinker

    return {"qwen2.5-omni": QwenOmniThinker, "qwen2-audio": Qwen2Audio}[name]


def is_local(model: str) -> bool:
    """Whether `model` is meant as a folder rather than a hub id such as "owner/name"."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") != 1
