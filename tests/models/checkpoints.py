"""Checkpoints on disk in the two layouts that exist, and the ways in which they get damaged."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2_5OmniThinkerForConditionalGeneration

from specdec_cli.config import ModelConfig
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from specdec_cli.models.session import Session
from tests.tiny import TEMPLATE, tiny_clip, tiny_processor

Edit = Callable[[Path], None]

HUB_EXTRACTOR = {
    "chunk_length": 30,
    "dither": 0.0,
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 16,
    "hop_length": 160,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_processor_type": "Qwen2VLImageProcessor",
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "max_pixels": 12845056,
    "merge_size": 2,
    "min_pixels": 3136,
    "n_fft": 400,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "patch_size": 14,
    "processor_class": "Qwen2_5OmniProcessor",
    "return_attention_mask": True,
    "sampling_rate": 16000,
    "temporal_patch_size": 2,
}


def load(folder: Path | str, *, offline: bool = True, tested: bool = True, **options: Any) -> AudioLM:
    """What the command line does with a folder, on the CPU."""
    config = ModelConfig(model=str(folder), **{"device": "cpu", **options})
    return load_model(config, offline=offline, tested=tested)


def write_thinker(
    folder: Path, module: Qwen2_5OmniThinkerForConditionalGeneration, *, shards: int = 1, visual: bool = True
) -> Path:
    """A thinker-only checkpoint: config, weights, tokenizer, extractor, chat template."""
    folder.mkdir(parents=True)
    module.config.save_pretrained(folder)
    module.generation_config.save_pretrained(folder)
    tiny_processor().save_pretrained(folder)
    tensors = {key: value.contiguous() for key, value in module.state_dict().items()}
    write_weights(folder, {k: v for k, v in tensors.items() if visual or "visual" not in k}, shards)
    return folder


def write_hub(
    folder: Path, module: Qwen2_5OmniThinkerForConditionalGeneration, *, shards: int = 3, visual: bool = True
) -> Path:
    """A full Omni checkpoint as published: thinker, talker and token2wav, keys and files named as on the hub."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", hub_config(module))
    write_json(folder / "generation_config.json", {"_from_model_config": True, "transformers_version": "4.52.4"})
    write_json(folder / "preprocessor_config.json", HUB_EXTRACTOR)
    write_json(folder / "chat_template.json", {"chat_template": TEMPLATE})
    _write_hub_tokenizer(folder)
    tensors = {_hub_key(key): value.contiguous() for key, value in module.state_dict().items()}
    tensors = {key: value for key, value in tensors.items() if visual or "visual" not in key}
    tensors["talker.model.layers.0.self_attn.q_proj.weight"] = torch.ones(4, 4)
    tensors["talker.codec_head.weight"] = torch.ones(4, 4)
    tensors["talker.thinker_to_talker_proj.weight"] = torch.ones(4, 4)
    tensors["token2wav.code2wav_bigvgan_model.conv_pre.weight"] = torch.ones(4, 4)
    tensors["token2wav.code2wav_dit_model.proj_out.weight"] = torch.ones(4, 4)
    write_weights(folder, tensors, shards)
    return folder


def hub_config(module: Qwen2_5OmniThinkerForConditionalGeneration) -> dict[str, Any]:
    """The thinker's configuration inside a full one, in the spelling of the published files."""
    thinker = module.config.to_dict()
    text = thinker["text_config"]
    rope = text.pop("rope_parameters")
    text.pop("layer_types")
    text["rope_theta"] = rope["rope_theta"]
    text["rope_scaling"] = {"mrope_section": rope["mrope_section"], "rope_type": "default", "type": "default"}
    text |= {"sliding_window": 32768, "use_sliding_window": False, "max_window_layers": 28}
    thinker["vision_config"].pop("rope_parameters", None)
    for kind in ("audio", "image", "video"):
        thinker[f"{kind}_token_index"] = thinker.pop(f"{kind}_token_id", None) or thinker[f"{kind}_token_index"]
    for part in (thinker, text, thinker["audio_config"], thinker["vision_config"]):
        part.pop("dtype", None)
        part.pop("transformers_version", None)
    thinker["torch_dtype"] = "bfloat16"
    return {
        "architectures": ["Qwen2_5OmniModel"],
        "enable_audio_output": True,
        "enable_talker": True,
        "model_type": "qwen2_5_omni",
        "thinker_config": thinker,
        "talker_config": {
            "model_type": "qwen2_5_omni_talker",
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 4,
            "rope_scaling": {"mrope_section": [1, 1, 0], "rope_type": "default", "type": "default"},
        },
        "token2wav_config": {
            "model_type": "qwen2_5_omni_token2wav",
            "dit_config": {"model_type": "qwen2_5_omni_dit", "depth": 1, "dim": 8, "heads": 1},
            "bigvgan_config": {"model_type": "qwen2_5_omni_bigvgan", "mel_dim": 8},
        },
        "torch_dtype": "bfloat16",
        "transformers_version": "4.50.0.dev0",
    }


def _hub_key(key: str) -> str:
    for inside, published in (("model.language_model.", "model."), ("model.audio_tower.", "audio_tower.")):
        if key.startswith(inside):
            return "thinker." + published + key.removeprefix(inside)
    return "thinker." + key.replace("model.visual.", "visual.")


def _write_hub_tokenizer(folder: Path) -> None:
    tokenizer = tiny_processor().tokenizer
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    backend = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    added = {str(entry.pop("id")): entry for entry in backend["added_tokens"]}
    names = [entry["content"] for entry in added.values()]
    write_json(folder / "vocab.json", backend["model"]["vocab"])
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    write_json(folder / "added_tokens.json", {entry["content"]: int(id_) for id_, entry in added.items()})
    special = {"additional_special_tokens": names, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    write_json(folder / "special_tokens_map.json", special)
    write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "audio_bos_token": "<|audio_bos|>",
            "audio_eos_token": "<|audio_eos|>",
            "audio_token": "<|AUDIO|>",
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "errors": "replace",
            "extra_special_tokens": {"audio_token": "<|AUDIO|>", "image_token": "<|IMAGE|>"},
            "image_token": "<|IMAGE|>",
            "model_max_length": 32768,
            "processor_class": "Qwen2_5OmniProcessor",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
            **special,
        },
    )


def write_weights(folder: Path, tensors: dict[str, torch.Tensor], shards: int = 1) -> None:
    """`model.safetensors`, or several files and their index."""
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    placed = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = names[number::shards]
        save_file({key: tensors[key] for key in part}, folder / file, metadata={"format": "pt"})
        placed |= dict.fromkeys(part, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": placed})


def write_json(path: Path, content: object) -> None:
    """Writes UTF-8 JSON."""
    path.write_text(json.dumps(content), encoding="utf-8")


def edit_json(name: str, **changes: object) -> Edit:
    """Sets keys of a JSON file, "__" between levels; None removes one."""

    def edit(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        for path, value in changes.items():
            *parents, last = path.split("__")
            at = content
            for parent in parents:
                at = at[parent]
            if value is None:
                at.pop(last, None)
            else:
                at[last] = value
        write_json(folder / name, content)

    return edit


def edit_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Edit:
    """Changes the tensors of an unsharded checkpoint."""

    def edit(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        write_weights(folder, tensors)

    return edit


def remove(*names: str) -> Edit:
    """Deletes files."""

    def edit(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return edit


def overwrite(name: str, content: bytes) -> Edit:
    """Replaces a file."""

    def edit(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return edit


def cut(name: str, keep: float) -> Edit:
    """Truncates a file to a part of its length."""

    def edit(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * keep)])

    return edit


class _Trap:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self._mark,)


def write_trap(path: Path, mark: Path) -> None:
    """A pickle that creates the folder `mark` when anybody reads it."""
    path.write_bytes(pickle.dumps(_Trap(mark)))


def greedy(model: AudioLM, tokens: int = 24, instruction: str = "say how", seconds: float = 0.8) -> list[int]:
    """The model's own text for a clip, token by token."""
    session = Session(model, model.processor.prompt(tiny_clip(3, seconds), instruction), tokens)
    text: list[int] = []
    while len(text) < tokens:
        text.append(int(session.logits(text).argmax()))
    return text
