"""Checkpoints in the published layout, the ways in which they get damaged, and how such ones are refused."""

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2_5OmniThinkerForConditionalGeneration

from specdec_cli.config import ModelConfig
from specdec_cli.config.schema import RuntimeConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.laws.tolerance import allowed
from tests.support.models import TEMPLATE, save_checkpoint, tiny_clip

Edit = Callable[[Path], None]


def load(folder: Path | str, *, offline: bool = True, tested: bool = True, **options: Any) -> AudioLM:
    """What the command line does with a folder, on the CPU."""
    runs = {name: options.pop(name) for name in ("attention", "graphs") if name in options}
    config = ModelConfig(model=str(folder), **{"device": "cpu", **options})
    return load_model(config, RuntimeConfig(offline=offline, self_test=tested, **runs))


def assert_refused(folder: Path | str, *said: str, **options: Any) -> None:
    """Loading raises one typed error that names the folder ("edge" here), has a hint, and says all of that."""
    with pytest.raises(CheckpointError) as caught:
        load(folder, **options)
    message, hint = caught.value.message, caught.value.hint
    assert str(folder) in message, message
    assert "\n" not in message
    assert hint
    text = f"{message} {hint}".replace(str(folder), "edge")
    assert all(each in text for each in said), text


def greedy(model: AudioLM, tokens: int = 24) -> list[int]:
    """The model's own text for a clip, token by token."""
    session = Session(model, model.processor.prompt(tiny_clip(3, 0.8), "say how"), tokens)
    text: list[int] = []
    while len(text) < tokens:
        text.append(int(session.logits(text).argmax()))
    return text


def cache_free_logits(model: AudioLM, prompt: Prompt, text: Sequence[int]) -> torch.Tensor:
    """Raw logits after every prefix of a text, by one forward of the module: float32 [len(text) + 1, vocab_size]."""
    ids = torch.tensor([[*prompt.ids, *text]])
    with torch.no_grad():
        output = model.module(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **prompt.audio)
    rows: torch.Tensor = output.logits[0, len(prompt.ids) - 1 :, : model.processor.vocab_size].float()
    return rows


def assert_agree(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Scores [m, vocab] are equal but for rounding, wherever both are finite, and none of ours is NaN."""
    assert ours.shape == theirs.shape
    assert not ours.isnan().any()
    finite = ours.isfinite() & theirs.isfinite()
    apart = torch.where(finite, (ours - theirs).abs(), 0.0).amax(-1).tolist()
    beyond = [by for by, row in zip(apart, theirs, strict=True) if not by <= allowed(row)]
    assert not beyond, f"scores differ by {beyond}"


# --- what checkpoints are made of ---


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
    remove("processor_config.json", "chat_template.jinja")(folder)
    return folder


def write_json(path: Path, content: object) -> None:
    """Writes UTF-8 JSON."""
    path.write_text(json.dumps(content), encoding="utf-8")


# --- damage ---


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
    return lambda folder: (folder / name).write_bytes(content) and None


class _Trap:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self._mark,)


def write_trap(path: Path, mark: Path) -> None:
    """A pickle that creates the folder `mark` when anybody reads it."""
    path.write_bytes(pickle.dumps(_Trap(mark)))
