"""Checkpoints of the hub by the fields of their config.json: what is odd in each, and how it loads when shrunken.

Sizes are small and weights random; model types, where fields stand, ids, kinds of layers and vocabularies are those of
the published files.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import transformers as tf

from specdec_cli.models.families import family_of
from tests.families.checkpoints import CHATML, KINDS
from tests.models.checkpoints import fill, write_json
from tests.tiny import byte_tokenizer, byte_vocabulary

Raw = dict[str, Any]

_SIZES: dict[str, Raw] = {
    "text_config": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
    },
    "audio_config": {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32},
    "encoder_config": {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "dim_head": 8},
    "projector_config": {
        "hidden_size": 16,
        "encoder_hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    },
    "vision_config": {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    },
}
_SIZES_IF_THERE: dict[str, Raw] = {
    "text_config": {
        "global_head_dim": 8,
        "hidden_size_per_layer_input": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    },
    "audio_config": {
        "output_dim": 32,
        "downsample_hidden_size": 8,
        "output_proj_dims": 24,
        "head_dim": 8,
        "hidden_size": 16,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    },
    "vision_config": {
        "depth": 1,
        "num_heads": 2,
        "out_hidden_size": 32,
        "fullatt_block_indexes": [0],
        "deepstack_visual_indexes": [],
        "head_dim": 16,
        "global_head_dim": 16,
        "position_embedding_size": 16,
    },
}
_MANY_LAYERS = 12  # of which some are full: sliding layers come in groups of five


def shrunken(raw: Raw) -> Raw:
    """A config.json with small sizes; all else is as it was."""
    made = deepcopy(raw)
    part = made.get("thinker_config", made)
    for name, sizes in _SIZES.items():
        if isinstance(part.get(name), dict):
            section = part[name]
            there = {key: value for key, value in _SIZES_IF_THERE.get(name, {}).items() if section.get(key) is not None}
            section.update(sizes | there)
    text = part.get("text_config") or {}
    for rope in ("rope_scaling", "rope_parameters"):
        if "mrope_section" in (text.get(rope) or {}):
            text[rope]["mrope_section"] = [1, 1, 2]
    if kinds := text.get("layer_types"):
        text["layer_types"] = kinds[:_MANY_LAYERS]
        text["num_hidden_layers"] = len(text["layer_types"])
        text["num_kv_shared_layers"] = min(text.get("num_kv_shared_layers", 0), 5)
    if str(made["model_type"]).startswith("gemma4") and part.get("audio_config"):
        part["audio_config"]["hidden_size"] = 32  # what its convolutions give
    return made


def write_shrunken(folder: Path, raw: Raw, source: Path | None = None) -> Path:
    """A checkpoint of the shrunken configuration in bfloat16, with the small files of `source` where it has them."""
    config_file = shrunken(raw)
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config_file)
    config = tf.AutoConfig.from_pretrained(folder)
    config = getattr(config, "thinker_config", config)
    family = family_of(str(raw["model_type"]))
    made = family.module_class()
    module = made.from_config(config) if family.name == "generic" else made(config)
    module = module.eval().requires_grad_(False)
    fill(module, 0, 0.2)
    module.bfloat16().save_pretrained(folder)
    kind = KINDS.get(family.name, KINDS["qwen2-audio"])
    template = kind.template
    extractor = kind.extractor | {"feature_size": _mel_bins(config)} if "feature_size" in kind.extractor else {}
    if family.name == "generic":
        template, extractor = CHATML.replace("AUDIO", "<|pad|>"), extractor | {"processor_class": "GlmAsrProcessor"}
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    write_json(folder / "preprocessor_config.json", extractor)
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    _tokenizer(config, family.name).save_pretrained(folder)
    write_json(folder / "config.json", config_file)
    if source is not None:
        _copy_small_files(source, folder)
    return folder


def _copy_small_files(source: Path, folder: Path) -> None:
    """What is published beside config.json, in place of what was made up: a whole tokenizer, or a template alone."""
    names = {"generation_config.json", "preprocessor_config.json", "processor_config.json"}
    if (source / "vocab.json").is_file():
        names |= {"vocab.json", "merges.txt", "tokenizer_config.json", "chat_template.json"}
        for made_up in ("tokenizer.json", "chat_template.jinja"):
            (folder / made_up).unlink()
    for name in names:
        if (source / name).is_file():
            (folder / name).write_bytes((source / name).read_bytes())
    if (source / "tokenizer_config.json").is_file():
        content = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
        if "chat_template" in content:
            (folder / "chat_template.jinja").write_text(content["chat_template"], encoding="utf-8")


def _mel_bins(config: Any) -> int:
    return int(getattr(config.audio_config, "num_mel_bins", 128))


def _tokenizer(config: Any, family: str) -> Any:
    """Bytes, and special tokens at their published ids."""
    kind = KINDS.get(family, KINDS["qwen2-audio"])
    placeholder = {"generic": "<|pad|>", "granite-speech": "<|audio|>"}.get(family)
    ids = dict(SPECIALS.get(family, {}))
    if placeholder is not None:
        ids[placeholder] = next(
            id_ for name in ("audio_token_id", "audio_token_index") if (id_ := getattr(config, name, None)) is not None
        )
    vocab = {piece: at + 256 for piece, at in byte_vocabulary().items()}
    taken = {*vocab.values(), *ids.values()}
    vocab |= {f"<fill {at}>": at for at in range(max(taken)) if at not in taken} | ids
    extras = {name: token for name, token in kind.extras.items() if token in ids}
    if family == "generic":
        extras |= {"pad_token": "<|pad|>"}
    return byte_tokenizer(list(ids), vocab, **extras)


_QWEN = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
_OMNI_25 = {"<|AUDIO|>": 151646, "<|audio_bos|>": 151647, "<|audio_eos|>": 151648}
SPECIALS: dict[str, dict[str, int]] = {
    "qwen2-audio": _QWEN | _OMNI_25,
    "qwen2.5-omni": _QWEN | _OMNI_25,
    "qwen3-omni": _QWEN | {"<|audio_start|>": 151669, "<|audio_end|>": 151670, "<|audio_pad|>": 151675},
    "gemma4": {
        "<pad>": 0,
        "<eos>": 1,
        "<bos>": 2,
        "<|turn>": 105,
        "<turn|>": 106,
        "<|audio>": 256000,
        "<|image|>": 258880,
        "<|audio|>": 258881,
        "<audio|>": 258883,
        "<|video|>": 258884,
    },
    "granite-speech": {"<|end_of_text|>": 0, "<|start_of_role|>": 1, "<|end_of_role|>": 2},
}
