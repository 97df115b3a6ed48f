"""What tiny checkpoints are made of: byte-level tokenizers, random weights, JSON files, and the Omni's own layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

Edit = Callable[[Path], None]


def byte_vocabulary() -> dict[str, int]:
    """The 256 bytes, as byte-level BPE writes them."""
    return {piece: at for at, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def byte_tokenizer(
    specials: Sequence[str],
    vocab: Mapping[str, int] | None = None,
    merges: Sequence[tuple[str, str]] = (),
    **fields: Any,
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer, whose special tokens follow the vocabulary (default: the 256 bytes), eos first."""
    backend = Tokenizer(models.BPE(vocab=dict(vocab or byte_vocabulary()), merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **fields)
    tokenizer.add_special_tokens({"eos_token": specials[0], "additional_special_tokens": list(specials)})
    return tokenizer


def fill(module: Any, seed: int, spread: float, noise: float = 0.0) -> None:
    """Random matrices, a function of seed and noise alone; global seeds are left alone."""
    values, jitter = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(1000 + seed)
    for weight in module.parameters():
        if weight.ndim > 1:
            weight.copy_(torch.randn(weight.shape, generator=values) * spread)
            weight.mul_(1 + noise * torch.randn(weight.shape, generator=jitter))


def omni_layout(folder: Path) -> None:
    """Puts a thinker inside a full Omni checkpoint, beside a talker that is never loaded."""
    thinker = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    whole = thinker["model_type"].removesuffix("_thinker")
    write_json(folder / "config.json", {"model_type": whole, "thinker_config": thinker, "enable_audio_output": True})
    path = folder / "model.safetensors"
    tensors = {f"thinker.{key.removeprefix('thinker.')}": value for key, value in load_file(path).items()}
    save_file({**tensors, "talker.codec_head.weight": torch.ones(4, 4)}, path, {"format": "pt"})


def split_weights(folder: Path, shards: int) -> None:
    """Spreads `model.safetensors` over several files and their index."""
    tensors, placed = load_file(folder / "model.safetensors"), {}
    (folder / "model.safetensors").unlink()
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = sorted(tensors)[number::shards]
        save_file({key: tensors[key] for key in part}, folder / file, {"format": "pt"})
        placed |= dict.fromkeys(part, file)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": 0}, "weight_map": placed})


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
