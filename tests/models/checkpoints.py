"""Checkpoints in the published layout, and the ways in which they get damaged."""

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
from tests.models.files import Edit, omni_layout, split_weights, write_json
from tests.tiny import TEMPLATE, save_checkpoint, tiny_clip


def load(folder: Path | str, *, offline: bool = True, tested: bool = True, **options: Any) -> AudioLM:
    """What the command line does with a folder, on the CPU."""
    config = ModelConfig(model=str(folder), **{"device": "cpu", **options})
    return load_model(config, offline=offline, tested=tested)


def write_hub(
    folder: Path, module: Qwen2_5OmniThinkerForConditionalGeneration, *, shards: int = 3, visual: bool = True
) -> Path:
    """A full Omni checkpoint as published: thinker and talker, several files of weights, no processor_config.json."""
    save_checkpoint(module, folder, visual=visual)
    omni_layout(folder)
    split_weights(folder, shards)
    processor = json.loads((folder / "processor_config.json").read_text(encoding="utf-8"))
    extractor = processor["feature_extractor"] | {"processor_class": "Qwen2_5OmniProcessor"}
    write_json(folder / "preprocessor_config.json", extractor)
    write_json(folder / "chat_template.json", {"chat_template": TEMPLATE})
    for name in ("processor_config.json", "chat_template.jinja"):
        (folder / name).unlink()
    return folder


def edit_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Edit:
    """Changes the tensors of an unsharded checkpoint."""

    def edit(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

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
