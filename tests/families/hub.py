"""Checkpoints of the hub by the fields of their config.json: what is odd in each, and how it loads when shrunken.

Sizes are small and weights random; model types, where fields stand, ids, kinds of layers and vocabularies are those of
the published files.
"""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers as tf

from specdec_cli.models.families import Family, family_of
from tests.support.checkpoints import remove, write_json
from tests.support.kinds import KINDS, Kind, write
from tests.support.models import byte_tokenizer, byte_vocabulary

Raw = dict[str, Any]

_TEXT: Raw = {"hidden_size": 32, "intermediate_size": 128, "head_dim": 8} | {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
_SIZES: Raw = {
    **_TEXT,
    **dict.fromkeys(
        ("out_hidden_size", "d_model", "encoder_ffn_dim", "output_dim", "hidden_dim", "encoder_hidden_size"), 32
    ),
    **dict.fromkeys(("global_head_dim", "hidden_size_per_layer_input", "dim_head", "downsample_hidden_size"), 8),
    **dict.fromkeys(("num_experts_per_tok", "encoder_attention_heads", "num_layers", "num_heads"), 2),
    **dict.fromkeys(("encoder_layers", "depth"), 1),
    "position_embedding_size": 16,
    "num_experts": 4,
    "moe_intermediate_size": 16,
    "output_proj_dims": 24,
    "fullatt_block_indexes": [0],
    "deepstack_visual_indexes": [],
}
"""Of any section that names one."""
_MANY_LAYERS = 12  # of which some are full: sliding layers come in groups of five


def shrunken(raw: Raw) -> Raw:
    """A config.json with small sizes; all else is as it was."""
    made = deepcopy(raw)
    part = made.get("thinker_config", made)
    for section in (value for value in part.values() if isinstance(value, dict)):
        section |= {name: size for name, size in _SIZES.items() if section.get(name) is not None}
    text = part.get("text_config") or {}
    text |= _TEXT  # some leave their sizes to the class
    for rope in ("rope_scaling", "rope_parameters"):
        if "mrope_section" in (text.get(rope) or {}):
            text[rope]["mrope_section"] = [1, 1, 2]
    if kinds := text.get("layer_types"):
        text["layer_types"] = kinds[:_MANY_LAYERS]
        text["num_hidden_layers"] = len(text["layer_types"])
        text["num_kv_shared_layers"] = min(text.get("num_kv_shared_layers", 0), 5)
    return made


def write_shrunken(folder: Path, raw: Raw, source: Path) -> Path:
    """A checkpoint of the shrunken configuration in bfloat16, with the small files of `source` where it has them."""
    made, family = shrunken(raw), family_of(str(raw["model_type"]))
    folder.mkdir(parents=True)
    write_json(folder / "config.json", made)
    config = tf.AutoConfig.from_pretrained(folder)
    config = getattr(config, "thinker_config", config)
    kind = replace(KINDS[family.name], config=lambda _: config)
    if "chunk_length" in kind.extractor:
        kind = replace(kind, extractor=kind.extractor | {"feature_size": config.audio_config.num_mel_bins})
    write(folder, kind, 0, tokenizer=_tokenizer(config, family, kind), dtype=torch.bfloat16)
    write_json(folder / "config.json", made)
    remove("generation_config.json")(folder)
    _copy_small_files(source, folder)
    return folder


def _copy_small_files(source: Path, folder: Path) -> None:
    """What is published beside config.json, in place of what was made up: a whole tokenizer, or a template alone."""
    names = {"generation_config.json", "preprocessor_config.json", "processor_config.json"}
    if (source / "vocab.json").is_file():
        names |= {"vocab.json", "merges.txt", "tokenizer_config.json", "chat_template.json"}
        remove("tokenizer.json", "chat_template.jinja")(folder)
    for name in names:
        if (source / name).is_file():
            (folder / name).write_bytes((source / name).read_bytes())
    if (source / "tokenizer_config.json").is_file():
        content = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
        if "chat_template" in content:
            (folder / "chat_template.jinja").write_text(content["chat_template"], encoding="utf-8")


def _tokenizer(config: Any, family: Family, kind: Kind) -> Any:
    """Bytes, and special tokens at their published ids."""
    ids = dict(_SPECIALS.get(family.name, {}))
    if family.name == "granite-speech":
        ids["<|audio|>"] = family.placeholders(config)[0]
    vocab = {piece: at + 256 for piece, at in byte_vocabulary().items()}
    taken = {*vocab.values(), *ids.values()}
    vocab |= {f"<fill {at}>": at for at in range(max(taken)) if at not in taken} | ids
    return byte_tokenizer(list(ids), vocab, **{name: token for name, token in kind.extras.items() if token in ids})


_QWEN = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
_OMNI_25 = {"<|AUDIO|>": 151646, "<|audio_bos|>": 151647, "<|audio_eos|>": 151648}
_SPECIALS: dict[str, dict[str, int]] = {
    "qwen2-audio": _QWEN | _OMNI_25,
    "qwen2.5-omni": _QWEN | _OMNI_25,
    "qwen3-omni": _QWEN | {"<|audio_start|>": 151669, "<|audio_end|>": 151670, "<|audio_pad|>": 151675},
    "gemma4": (
        {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<|turn>": 105, "<turn|>": 106}
        | {"<|audio>": 256000, "<|image|>": 258880, "<|audio|>": 258881, "<audio|>": 258883, "<|video|>": 258884}
    ),
    "granite-speech": {"<|end_of_text|>": 0, "<|start_of_role|>": 1, "<|end_of_role|>": 2},
}
