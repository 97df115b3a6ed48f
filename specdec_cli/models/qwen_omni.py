"""Qwen2.5-Omni: the thinker alone, for speech in and text out.

The talker, the token-to-wave model and the vision tower of a full checkpoint are never built or are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, PreTrainedConfig, Qwen2_5OmniThinkerForConditionalGeneration
from transformers.cache_utils import Cache
from transformers.processing_utils import ProcessorMixin

from specdec_cli.errors import AudioContentError, CheckpointError, SpecdecError
from specdec_cli.models.checkpoint import checkpoint_folder, loading_errors, require_complete, require_family
from specdec_cli.models.device import resolve_device, resolve_dtype
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel, LoadOptions, PromptInputs, Span
from specdec_cli.models.packed import PackedDecoder, filled
from specdec_cli.models.quantization import quantization_config

_log = logging.getLogger(__name__)

_MODEL_TYPES = frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"})
_NEEDED_PARTS = ("text_config", "audio_config")
_UNUSED_WEIGHTS = ("visual.", "model.visual.", "thinker.visual.", "talker.", "token2wav.")
_EOS_TOKEN = "<|im_end|>"


class AudioProcessor(ProcessorMixin):  # type: ignore[misc]
    """Feature extractor, tokenizer and chat template of Qwen2.5-Omni.

    transformers' own processor also wants a video processor, which needs torchvision; speech does not.
    """

    def __init__(self, feature_extractor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(feature_extractor, tokenizer, chat_template=chat_template)


class QwenOmniThinker(AudioLanguageModel):
    """A Qwen2.5-Omni thinker: Whisper-style audio tower, Qwen2 decoder."""

    def __init__(
        self, name: str, module: Qwen2_5OmniThinkerForConditionalGeneration, processor: AudioProcessor
    ) -> None:
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
        self.sampling_rate = int(extractor.sampling_rate)
        self.window_s = extractor.n_samples / extractor.sampling_rate
        self._hop = int(extractor.hop_length)
        self._audio_id = int(module.config.audio_token_id)
        self.placeholder_ids = tuple(
            sorted({self._audio_id, int(module.config.image_token_id), int(module.config.video_token_id)})
        )
        self.eos_ids = _eos_ids(name, module, self.tokenizer)
        # Other attention kernels, and layers spread over several devices, go through transformers' own forward.
        self._own_masks = PackedDecoder.fits(text_config)
        spread = len(set((getattr(module, "hf_device_map", None) or {}).values())) > 1
        self._packed = PackedDecoder(module.model.language_model) if self._own_masks and not spread else None

    @classmethod
    def load(cls, options: LoadOptions) -> QwenOmniThinker:
        """Reads the thinker of a checkpoint, full (hub layout) or thinker only.

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
            require_family(options.label, raw, _MODEL_TYPES, "qwen2.5-omni", parts=_NEEDED_PARTS)
            config = AutoConfig.from_pretrained(source, **common)
            processor = AudioProcessor.from_pretrained(source, **common)
            _log.debug("loading %s", source)
            loaded: Any = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained(
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
        require_complete(options.label, info, ignored=_UNUSED_WEIGHTS)
        del module.model.visual
        module.eval().requires_grad_(False)
        model = cls(options.label, module, processor)
        _require_fit(model)
        _require_template(model)
        return model

    def features(self, waveform: npt.NDArray[np.float32]) -> AudioFeatures:
        """Log-mel features of mono samples [n] at the clip's own length: ceil(n / hop) frames.

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
        ).input_features[0, :, :frames]
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

    def audio_tokens(self, frames: int) -> int:
        """Audio tokens of a clip of `frames` mel frames: two strides of two."""
        _, tokens = self.module.model.audio_tower._get_feat_extract_output_lengths(torch.tensor(frames))
        return int(tokens)

    def encode(self, features: AudioFeatures) -> torch.Tensor:
        """Runs the audio tower: [audio tokens, hidden]."""
        tower: Any = self.module.model.audio_tower
        values = features.values.to(tower.conv1.weight.device, tower.conv1.weight.dtype)
        lengths = torch.tensor([features.frames], device=values.device)
        hidden: torch.Tensor = tower(values, feature_lens=lengths).last_hidden_state
        return hidden

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
        """Equal for two thinkers whose feature extractors have equal settings."""
        return str(sorted(self.processor.feature_extractor.to_dict().items(), key=lambda item: item[0]))


def _eos_ids(name: str, module: Qwen2_5OmniThinkerForConditionalGeneration, tokenizer: Any) -> tuple[int, ...]:
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


def _require_fit(model: QwenOmniThinker) -> None:
    """Refuses a feature extractor or a tokenizer that belongs to another model."""
    bins, wanted = model.processor.feature_extractor.feature_size, model.module.config.audio_config.num_mel_bins
    if bins != wanted:
        raise CheckpointError(
            f"{model.name} hears {wanted} mel bins, but its feature extractor gives {bins}",
            hint="Use the preprocessor_config.json that belongs to the checkpoint.",
        )
    highest = max(model.tokenizer.get_vocab().values(), default=-1)
    if highest >= model.vocab_size:
        raise CheckpointError(
            f"{model.name} has {model.vocab_size} token ids, but its tokenizer goes up to {highest}",
            hint="Use the tokenizer.json that belongs to the checkpoint.",
        )


def _require_template(model: QwenOmniThinker) -> None:
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
