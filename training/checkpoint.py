"""Writing a side of the pair as an ordinary checkpoint directory, and reading it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5OmniThinkerForConditionalGeneration,
    WhisperFeatureExtractor,
)

from training.captions import fixed_words
from training.features import MEL_BINS


def save_checkpoint(
    folder: Path, model: Qwen2_5OmniThinkerForConditionalGeneration, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Write config, float16 weights, generation config, tokenizer, chat template and feature extractor to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.dtype = torch.float16
    model.config.architectures = ["Qwen2_5OmniThinkerForConditionalGeneration"]
    model.config.specdec_prompts = "shipped"  # the pair follows no others, which specdec warns of
    model.config.specdec_words = fixed_words()  # so that the sound bans the right ones (docs/gates.md)
    model.config.save_pretrained(folder)
    weights = {name: value.detach().to(torch.float16).contiguous() for name, value in model.state_dict().items()}
    weights = {_stored_name(name): value for name, value in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    GenerationConfig(eos_token_id=end, pad_token_id=pad, do_sample=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=MEL_BINS, sampling_rate=16_000, chunk_length=30).save_pretrained(folder)


def _stored_name(name: str) -> str:
    """Names as in published thinker checkpoints, which transformers maps to its module tree on loading."""
    for inside, stored in (("model.language_model.", "model."), ("model.audio_tower.", "audio_tower.")):
        if name.startswith(inside):
            return stored + name.removeprefix(inside)
    return name


def load_checkpoint(folder: Path) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The model in `folder`, float32, without its vision tower.

    Raises `ValueError` naming the keys if weights other than the vision tower's are missing, or any is left over.
    """
    loaded: tuple[Any, dict[str, Any]] = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    model, info = loaded
    wrong = [key for key in info["missing_keys"] if "visual." not in key]
    wrong += list(info["unexpected_keys"]) + list(info["mismatched_keys"])
    if wrong:
        raise ValueError(f"{folder}: weights do not fit: {wrong}")
    if hasattr(model.model, "visual"):
        del model.model.visual
    model.eval()
    return model
