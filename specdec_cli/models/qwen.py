"""What Qwen's audio language models share: a Whisper-style audio tower in front of a Qwen2 decoder, speech to text.

A family says which classes and files are its own, which placeholders it has, and how its tower runs.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, PreTrainedConfig
from transformers.cache_utils import Cache

from specdec_cli.errors import AudioContentError, CheckpointError, SpecdecError
from specdec_cli.models.checkpoint import (
    checkpoint_folder,
    loading_errors,
    require_complete,
    require_family,
    weights_fingerprint,
)
from specdec_cli.models.device import resolve_device, resolve_dtype
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel, LoadOptions, PromptInputs, Span
from specdec_cli.models.packed import PackedDecoder, filled
from specdec_cli.models.quantization import quantization_config

_log = logging.getLogger(__name__)

_NEEDED_PARTS = ("text_config", "audio_config")
_EOS_TOKEN = "<|im_end|>"


class QwenAudioModel(AudioLanguageModel):
    """A loaded checkpoint of one of the families.

    Args:
        name: what the user called it.
        module: transformers' model.
        processor: its feature extractor, tokenizer and chat template.

    Attributes:
        family: name of the family.
        module_class, processor_class: transformers' classes, or stand-ins for them.
        model_types: values of `model_type` in config.json that it loads.
        unused_weights: prefixes of parameters that speech does not need.
        frames_behind: mel frames behind the clip's end that the audio tower looks at.
        spread: whether its layers lie on several devices.
    """

    family: ClassVar[str]
    module_class: ClassVar[Any]
    processor_class: ClassVar[Any]
    model_types: ClassVar[frozenset[str]]
    unused_weights: ClassVar[tuple[str, ...]] = ()
    frames_behind: ClassVar[int] = 0

    def __init__(self, name: str, module: Any, processor: Any) -> None:
        text_config = module.config.get_text_config()
        extractor = processor.feature_extractor
        self.name = name
        self.module = module
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.device = module.lm_head.weight.device
        self._embedding = module.get_input_embeddings()
        self.input_device = self._embedding.weight.device
        self.dtype = module.dtype
        self.vocab_size = int(text_config.vocab_size)
        self.layers = int(text_config.num_hidden_layers)
        self.context = int(text_config.max_position_embeddings)
        self.parameters = sum(weights.numel() for weights in module.parameters())
        self.sampling_rate = int(extractor.sampling_rate)
        self.window_s = extractor.n_samples / extractor.sampling_rate
        self._hop = int(extractor.hop_length)
        self._audio_id = int(module.config.audio_token_id)
        self.placeholder_ids = tuple(sorted(self.placeholders(module.config)))
        self.eos_ids = _eos_ids(name, module, self.tokenizer)
        # Other attention kernels, and layers spread over several devices, go through transformers' own forward.
        self._own_masks = PackedDecoder.fits(text_config)
        self.spread = len(set((getattr(module, "hf_device_map", None) or {}).values())) > 1
        self._packed = PackedDecoder(module.model.language_model) if self._own_masks and not self.spread else None

    @classmethod
    def load(cls, options: LoadOptions) -> Self:
        """Reads a checkpoint, in the layout of the hub or as transformers saves it.

        Raises:
            CheckpointError: not found, of another family, incomplete, or in a format that is not loaded.
        """
        source = checkpoint_folder(options)
        device = resolve_device(options.device)
        with loading_errors(options.label, options.model, offline=options.offline):
            common = {
                "local_files_only": options.offline,
                "revision": options.revision or "main",
                "trust_remote_code": False,  # unset, transformers would ask on the terminal
            }
            raw, _ = PreTrainedConfig.get_config_dict(source, **common)
            require_family(options.label, raw, cls.model_types, cls.family, parts=_NEEDED_PARTS)
            config = AutoConfig.from_pretrained(source, **common)
            processor = cls.processor_class.from_pretrained(source, **common)
            _log.debug("loading %s", source)
            loaded: Any = cls.module_class.from_pretrained(
                source,
                dtype=resolve_dtype(options.dtype, device, _stored_dtype(config)),
                attn_implementation=options.attention,
                device_map=options.device_map or (None if device.type == "cpu" else {"": device}),
                quantization_config=quantization_config(options.quantization, device),
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # reported below, with the names
                output_loading_info=True,
                **common,
            )
        module, info = loaded
        require_complete(options.label, info, ignored=cls.unused_weights)
        module = cls.pruned(module.eval().requires_grad_(False))
        model = cls(options.label, module, processor)
        model.weights = weights_fingerprint(source, options.revision)
        model.require_fit()
        _require_template(model)
        model.compile(options.compile)
        return model

    def compile(self, mode: str) -> None:
        """Compiles the decoder ("default", "reduce-overhead") or not ("off"); `compiled` says what came of it."""
        if self._packed is not None:
            ran = self._packed.compile(mode)
        else:
            ran = "off: " + ("it lies on several devices" if self.spread else "only plain sdpa attention can be")
        self.compiled = None if mode == "off" else ran

    @staticmethod
    @abstractmethod
    def placeholders(config: Any) -> set[int]:
        """Ids that stand for audio, image or video in a model of this configuration."""

    @staticmethod
    def pruned(module: Any) -> Any:
        """The module without the parts that speech does not need."""
        return module

    def features(self, waveform: npt.NDArray[np.float32]) -> AudioFeatures:
        """Log-mel features of mono samples [n] at the clip's own length: ceil(n / hop) frames, and `frames_behind`.

        The extractor would pad to its whole window (300 s in the published checkpoints). Two windows of trailing
        silence give the same frames: the last ones see the zeros that the padding would have been, and silence
        changes no maximum. At the end of its window the extractor sees no zeros but a reflection, and so do we.

        Raises:
            AudioContentError: not mono, or longer than the window.
        """
        extractor = self.processor.feature_extractor
        if waveform.ndim != 1 or len(waveform) > extractor.n_samples:
            raise AudioContentError(
                f"{self.name} takes mono audio of at most {self.window_s:g} s, got shape {waveform.shape}",
                hint="Split the recording with --segment.",
            )
        frames = -(-len(waveform) // self._hop)
        length = min(frames * self._hop + 2 * extractor.n_fft, extractor.n_samples)
        padded = np.zeros((length,), dtype=np.float32)
        padded[: len(waveform)] = waveform
        values = extractor(
            padded, sampling_rate=self.sampling_rate, padding=False, truncation=False, return_tensors="pt"
        ).input_features[0, :, : frames + self.frames_behind]
        return AudioFeatures(values.contiguous(), frames)

    def build_prompt(self, instruction: str, features: AudioFeatures, system: str | None = None) -> PromptInputs:
        """The chat template around the clip and `instruction`, with one placeholder per audio token."""
        conversation: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "audio", "audio": ""}, {"type": "text", "text": instruction}]}
        ]
        if system is not None:
            conversation.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
        text = self.processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        if ids.count(self._audio_id) != 1:
            raise CheckpointError(
                f"the chat template of {self.name} puts {ids.count(self._audio_id)} audio placeholders "
                "into the prompt instead of one",
                hint="Use the chat template that belongs to the checkpoint; do not write placeholders into a prompt.",
            )
        at = ids.index(self._audio_id)
        count = self.audio_tokens(features.frames)
        return PromptInputs((*ids[:at], *[self._audio_id] * count, *ids[at + 1 :]), features)

    @abstractmethod
    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames."""

    def embed(self, ids: Sequence[int], audio: torch.Tensor | None = None) -> torch.Tensor:
        """Input embeddings [1, q, hidden]; `audio` [n, hidden] replaces the n placeholders, in order."""
        tokens = torch.tensor([list(ids)], device=self.input_device)
        embeddings: torch.Tensor = self._embedding(tokens)
        if audio is not None:
            embeddings[tokens == self._audio_id] = audio.to(embeddings.device, embeddings.dtype)
        return embeddings

    def decode(self, embeddings: torch.Tensor, start: int, cache: Cache) -> torch.Tensor:
        """Runs the decoder on [1, q, hidden] at positions start..start+q-1, extending `cache`: [1, q, hidden].

        Positions are explicit and there is no padding mask: `rope_deltas` stays unused and two interleaved clips
        cannot disturb each other. Audio and text share one running position, so all three rotary axes are equal.
        """
        length = embeddings.shape[1]
        if self._packed is not None:
            return self._packed(embeddings[0], (Span(start, length, cache),))[None]
        hidden: torch.Tensor = self.module.model.language_model(
            inputs_embeds=embeddings,
            position_ids=torch.arange(start, start + length, device=embeddings.device)[None],
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return hidden

    def decode_together(self, embeddings: torch.Tensor, spans: Sequence[Span]) -> torch.Tensor:
        """Runs the decoder on several clips' tokens in one forward: [tokens, hidden] -> the same; see `packed`."""
        if self._packed is None:
            return super().decode_together(embeddings, spans)
        return self._packed(embeddings, spans)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output layer: [m, hidden] -> float32 [m, vocab_size]."""
        scores: torch.Tensor = self.module.lm_head(filled(hidden.to(self.device)))
        return scores[: len(hidden)].float()

    def feature_key(self) -> str:
        """Equal for two models that want as many frames from feature extractors of equal settings."""
        settings = sorted(self.processor.feature_extractor.to_dict().items(), key=lambda item: item[0])
        return f"{settings} and {self.frames_behind} frames behind"

    def require_fit(self) -> None:
        """Refuses a feature extractor or a tokenizer that belongs to another model."""
        bins, wanted = self.processor.feature_extractor.feature_size, self.module.config.audio_config.num_mel_bins
        if bins != wanted:
            raise CheckpointError(
                f"{self.name} hears {wanted} mel bins, but its feature extractor gives {bins}",
                hint="Use the preprocessor_config.json that belongs to the checkpoint.",
            )
        highest = max(self.tokenizer.get_vocab().values(), default=-1)
        if highest >= self.vocab_size:
            raise CheckpointError(
                f"{self.name} has {self.vocab_size} token ids, but its tokenizer goes up to {highest}",
                hint="Use the tokenizer.json that belongs to the checkpoint.",
            )


def _eos_ids(name: str, module: Any, tokenizer: Any) -> tuple[int, ...]:
    declared = module.generation_config.eos_token_id
    if declared is None or declared == []:
        fallback = tokenizer.convert_tokens_to_ids(_EOS_TOKEN)
        if fallback is None or fallback == tokenizer.unk_token_id:
            raise CheckpointError(
                f"{name} names no eos token and its tokenizer has no {_EOS_TOKEN}",
                hint="Add a generation_config.json with eos_token_id.",
            )
        declared = fallback
    ids = declared if isinstance(declared, list) else [declared]
    rows = int(module.config.get_text_config().vocab_size)
    if not all(isinstance(id_, int) and 0 <= id_ < rows for id_ in ids):
        raise CheckpointError(
            f"{name} has the eos_token_id {declared!r}, but its token ids go from 0 to {rows - 1}",
            hint="Correct eos_token_id in generation_config.json.",
        )
    return tuple(sorted(set(ids)))


def _stored_dtype(config: Any) -> torch.dtype | None:
    for part in (config, getattr(config, "thinker_config", None)):
        dtype = getattr(part, "dtype", None)
        if isinstance(dtype, torch.dtype):
            return dtype
        if isinstance(dtype, str):
            resolved = getattr(torch, dtype, None)
            return resolved if isinstance(resolved, torch.dtype) else None
    return None


def _require_template(model: QwenAudioModel) -> None:
    """Refuses a chat template that is missing, fails, or has no single place for the audio."""
    if not model.processor.chat_template:
        raise CheckpointError(
            f"{model.name} has no chat template",
            hint="Add chat_template.jinja (or chat_template.json) of the checkpoint to its folder.",
        )
    try:
        model.build_prompt("", AudioFeatures(torch.empty(0, 0), 0))
    except SpecdecError:
        raise
    except Exception as error:  # a template is a program, and may raise anything
        raise CheckpointError(
            f"the chat template of {model.name} fails: {type(error).__name__}: {error}",
            hint="Use the chat template that belongs to the checkpoint.",
        ) from error
