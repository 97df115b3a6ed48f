"""Tiny random checkpoints of every family, written to folders in the layout of the hub.

The classes, the key names of the weights and the processor files are those of the published checkpoints; sizes,
weights, tokenizer and chat templates are small ones. Weights are random and the same for the same seed.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from transformers.convert_slow_tokenizer import bytes_to_unicode

from specdec_cli.models.families import FAMILIES, family_of
from tests.support.checkpoints import fill, omni_layout, write_json
from tests.support.models import BEGIN_END, CHATML, TOWER, audio_config, byte_tokenizer, thinker_config

VOCAB = 320  # rows of the output layer
TEXT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "max_position_embeddings": 4096,
} | {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
TEKKEN = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]"),
    *("[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
    *(f"<SPECIAL_{at}>" for at in range(20, 24)),
    *("[AUDIO]", "[BEGIN_AUDIO]"),
    *(f"<SPECIAL_{at}>" for at in range(26, 34)),
    "[TRANSCRIBE]",
)
"""Special tokens of a Voxtral, by id."""


Config = Callable[[dict[str, int]], Any]


@dataclass(frozen=True)
class Kind:
    """How to make a family's tiny checkpoints."""

    config: Config  # of the module, for the ids of a tokenizer
    specials: tuple[str, ...]  # in the order of their ids after the 256 bytes, eos first; or `TEKKEN`
    template: str
    extractor: dict[str, Any]  # preprocessor_config.json
    extras: dict[str, Any] = field(default_factory=dict)  # fields of tokenizer_config.json
    spread: float = 0.3  # standard deviation of the weights: the larger, the more opinionated the model
    finish: Callable[[Path], None] = lambda _: None  # changes a written folder
    joins: bool = True  # whether clips share a forward; where layers slide, each keeps a cache of its own

    def tokenizer(self) -> tf.PreTrainedTokenizerFast:
        """A tiny one; of a Voxtral with the ids of the file that `write_tekken` writes."""
        if self.specials is not TEKKEN:
            return byte_tokenizer(self.specials, **self.extras)
        vocab = {piece: at for at, piece in enumerate([*TEKKEN, *map(bytes_to_unicode().get, range(256))])}
        return byte_tokenizer(("</s>", *TEKKEN), vocab)


def write(
    folder: Path, kind: Kind, seed: int, noise: float = 0.0, tokenizer: Any = None, dtype: torch.dtype = torch.float32
) -> Path:
    """A checkpoint with the weights of `seed`, each multiplied by 1 + `noise` times a normal deviate.

    Without a tokenizer it has a tiny one.
    """
    tokenizer = tokenizer or kind.tokenizer()
    config = kind.config(tokenizer.get_vocab())
    family = family_of(config.model_type)
    module = family.module_class(config).eval().requires_grad_(False)
    fill(module, seed, kind.spread, noise)
    module.generation_config = tf.GenerationConfig(
        eos_token_id=[tokenizer.eos_token_id, *range(59, 256, 40)], pad_token_id=0
    )
    module.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", kind.extractor)
    (folder / "chat_template.jinja").write_text(kind.template, encoding="utf-8")
    kind.finish(folder)
    return folder


def write_tekken(folder: Path) -> None:
    """A tokenizer file of mistral-common, in the format of Voxtral's; no other tokenizer file stays."""
    for path in (*folder.glob("tokenizer*.json"), folder / "chat_template.jinja"):
        path.unlink(missing_ok=True)
    encoding = {"num_mel_bins": 16, "hop_length": 160, "window_size": 400}
    content = {
        "config": {
            "pattern": r"\s+|\S+",
            "num_vocab_tokens": 256,
            "default_vocab_size": len(TEKKEN) + 256,
            "default_num_special_tokens": len(TEKKEN),
            "version": "v7",
        },
        "vocab": [
            {"rank": byte, "token_bytes": base64.b64encode(bytes([byte])).decode(), "token_str": None}
            for byte in range(256)
        ],
        "special_tokens": [{"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(TEKKEN)],
        "audio": {
            "sampling_rate": 16000,
            "frame_rate": 12.5,
            "audio_encoding_config": encoding,
            "chunk_length_s": 30.0,
        },
        "version": 1,
        "type": "Tekken",
    }
    write_json(folder / "tekken.json", content)


def _named(ids: dict[str, int], **tokens: str) -> dict[str, int]:
    return {name: ids[token] for name, token in tokens.items()}


_OMNI_25 = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|IMAGE|>", "<|VIDEO|>", "<|vision_bos|>", "<|vision_eos|>")
_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
_LAYER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
_TOWER = {"num_mel_bins": 16, **_LAYER, "intermediate_size": 64}
_OMNI_3 = (
    *("<|audio_pad|>", "<|audio_start|>", "<|audio_end|>", "<|image_pad|>", "<|video_pad|>"),
    *("<|vision_start|>", "<|vision_end|>"),
)


def _qwen3_omni(ids: dict[str, int]) -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2], "mrope_interleaved": True}
    config = tf.Qwen3OmniMoeThinkerConfig(
        audio_config=TOWER
        | {"d_model": 16} | {"n_window": 50, "n_window_infer": 100, "output_dim": 32, "downsample_hidden_size": 8},
        vision_config=_VISION | {"deepstack_visual_indexes": []},
        text_config=TEXT
        | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "rope_parameters": rope},
        position_id_per_seconds=13,
        user_token_id=ids["<|im_start|>"],
        **_named(
            ids, audio_token_id="<|audio_pad|>", image_token_id="<|image_pad|>", video_token_id="<|video_pad|>",
            audio_start_token_id="<|audio_start|>", vision_start_token_id="<|vision_start|>",
        ),
    )  # fmt: skip
    config.audio_end_token_id, config.vision_end_token_id = ids["<|audio_end|>"], ids["<|vision_end|>"]
    return config


def _audio_flamingo_3(ids: dict[str, int]) -> Any:
    text = {"model_type": "qwen2", **TEXT}
    return tf.AudioFlamingo3Config(audio_config=_TOWER, text_config=text, audio_token_id=ids["<sound>"])


def _music_flamingo(ids: dict[str, int]) -> Any:
    tokens = _named(
        ids, audio_token_id="<sound>", audio_bos_token_id="<|sound_bos|>", audio_eos_token_id="<|sound_eos|>"
    )
    tower = _audio_flamingo_3(ids).audio_config.to_dict()
    return tf.MusicFlamingoConfig(audio_config=tower, text_config={"model_type": "qwen2", **TEXT}, **tokens)


def _voxtral(ids: dict[str, int]) -> Any:
    text = {"model_type": "llama", **TEXT}
    return tf.VoxtralConfig(audio_config=_TOWER, text_config=text, audio_token_id=ids["[AUDIO]"])


_GEMMA = ("<turn|>", "<pad>", "<bos>", "<|turn>", "<|audio|>", "<|audio>", "<audio|>", "<|image|>", "<|video|>")
_GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|turn>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'audio' %}<|audio|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
_GEMMA_EXTRAS = {"bos_token": "<bos>", "pad_token": "<pad>"} | {
    "audio_token": "<|audio|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
}
_GEMMA_TEXT = TEXT | {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 24,
    "global_head_dim": 8,
    "final_logit_softcapping": 30.0,
    "num_kv_shared_layers": 2,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    },
}


def _gemma_ids(ids: dict[str, int]) -> dict[str, int]:
    others = _named(ids, image_token_id="<|image|>", video_token_id="<|video|>")
    return others | _named(ids, audio_token_id="<|audio|>", boa_token_id="<|audio>", eoa_token_index="<audio|>")


def _gemma4(ids: dict[str, int]) -> Any:
    more = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCAB, "pad_token_id": ids["<pad>"]}
    return tf.Gemma4Config(
        text_config=_GEMMA_TEXT | more,
        vision_config=None,
        audio_config=_LAYER | {"hidden_size": 32, "subsampling_conv_channels": (128, 32), "output_proj_dims": 24},
        **_gemma_ids(ids),
    )


def _gemma4_unified(ids: dict[str, int]) -> Any:
    return tf.Gemma4UnifiedConfig(
        text_config=_GEMMA_TEXT
        | {"num_kv_shared_layers": 0, "use_bidirectional_attention": "vision", "pad_token_id": ids["<pad>"]},
        vision_config=None,
        audio_config={"audio_embed_dim": 640},
        **_gemma_ids(ids),
    )


_GEMMA3N = (
    *("<end_of_turn>", "<pad>", "<bos>", "<start_of_turn>", "<start_of_audio>", "<end_of_image>"),
    *("<image_soft_token>", "<end_of_audio>", "<audio_soft_token>"),
)
GEMMA3N_TOKENS = 24  # of every clip; 188 in the published ones


def _gemma3n(ids: dict[str, int]) -> Any:
    text = _GEMMA_TEXT | {"vocab_size_per_layer_input": ids["<end_of_image>"], "hidden_size_per_layer_input": 8}
    text |= {
        "laurel_rank": 4,
        "altup_num_inputs": 2,
        "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
        "pad_token_id": ids["<pad>"],
    }
    del text["global_head_dim"]
    rope = {"rope_type": "default", "rope_theta": 1e6}
    text["rope_parameters"] = text["rope_parameters"] | {"full_attention": rope}
    begin, end = ids["<end_of_image>"], ids["<image_soft_token>"] + 1  # from where on ids are of images, and of sound
    images = {"architecture": "test_resnet", "hidden_size": 16, "vocab_offset": begin, "vocab_size": end - begin}
    sound = _LAYER | {"hidden_size": 32, "vocab_offset": end, "vocab_size": VOCAB - end, "input_feat_size": 128}
    sound |= {"conf_num_hidden_layers": 1, "conf_num_attention_heads": 2, "conf_reduction_factor": 4}
    return tf.Gemma3nConfig(
        text_config=text,
        vision_config=images,
        audio_config=sound | {"sscp_conv_channel_size": (16, 8)},
        audio_soft_tokens_per_image=GEMMA3N_TOKENS,
        **_named(
            ids, audio_token_id="<audio_soft_token>", image_token_id="<image_soft_token>",
            boa_token_id="<start_of_audio>", eoa_token_id="<end_of_audio>", eoi_token_id="<end_of_image>",
        ),
    )  # fmt: skip


def _granite_speech(ids: dict[str, int]) -> Any:
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    return tf.GraniteSpeechConfig(
        text_config={"model_type": "granite", **text},
        encoder_config=(
            {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "dim_head": 8}
            | {"input_dim": 160, "output_dim": 10, "context_size": 20}
        ),
        projector_config=_LAYER | {"model_type": "blip_2_qformer", "encoder_hidden_size": 16, "intermediate_size": 32},
        audio_token_index=ids["<|audio|>"],
        has_lora_adapter=False,
    )


def _gemma3n_layout(folder: Path) -> None:
    extractor = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
    (folder / "preprocessor_config.json").unlink()
    parts = {"feature_extractor": extractor, "image_processor": {"image_processor_type": "SiglipImageProcessor"}}
    rest = {"audio_seq_length": GEMMA3N_TOKENS, "processor_class": "Gemma3nProcessor"}
    write_json(folder / "processor_config.json", parts | rest)


def _gemma_layout(folder: Path) -> None:
    """The published repositories hold one processor_config.json."""
    extractor = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
    (folder / "preprocessor_config.json").unlink()
    write_json(folder / "processor_config.json", {"feature_extractor": extractor, "processor_class": "Gemma4Processor"})


WHISPER = {"feature_size": 16, "chunk_length": 30, "return_attention_mask": True, "sampling_rate": 16000}
WHISPER |= {"feature_extractor_type": "WhisperFeatureExtractor"}


def _chatml(config: Config, specials: Sequence[str], audio: str, processor: str, omni: bool = False) -> Kind:
    """A family with Qwen's tokens and template, in which `audio` stands for a clip, and Whisper's features."""
    return Kind(
        config,
        ("<|im_end|>", "<|endoftext|>", "<|im_start|>", *specials),
        CHATML.replace("AUDIO", audio),
        WHISPER | {"processor_class": processor},
        {"pad_token": "<|endoftext|>"} | ({"audio_token": specials[0]} if omni else {}),
        finish=omni_layout if omni else lambda _: None,
    )


def _gemma(config: Config, extractor: str) -> Kind:
    features = {"feature_extractor_type": extractor, "feature_size": 128, "sampling_rate": 16000}
    return Kind(config, _GEMMA, _GEMMA_TEMPLATE, features, _GEMMA_EXTRAS, spread=0.2, finish=_gemma_layout, joins=False)


KINDS: dict[str, Kind] = {
    "qwen2.5-omni": _chatml(
        lambda ids: thinker_config(ids, vocab_size=VOCAB), _OMNI_25, BEGIN_END, "Qwen2_5OmniProcessor", omni=True
    ),
    "qwen2-audio": _chatml(
        lambda ids: audio_config(ids, TEXT), _OMNI_25[:3], f"Audio 1: {BEGIN_END}\n", "Qwen2AudioProcessor"
    ),
    "qwen3-omni": _chatml(
        _qwen3_omni, _OMNI_3, "<|audio_start|><|audio_pad|><|audio_end|>", "Qwen3OmniMoeProcessor", omni=True
    ),
    "gemma4": _gemma(_gemma4, "Gemma4AudioFeatureExtractor"),
    "gemma4-unified": _gemma(_gemma4_unified, "Gemma4UnifiedAudioFeatureExtractor"),
    "gemma3n": Kind(
        _gemma3n,
        _GEMMA3N,
        _GEMMA_TEMPLATE.replace("<|audio|>", "<audio_soft_token>")
        .replace("<|turn>", "<start_of_turn>")
        .replace("<turn|>", "<end_of_turn>"),
        {"feature_extractor_type": "Gemma3nAudioFeatureExtractor", "feature_size": 128, "sampling_rate": 16000},
        # images first: ids from the first of theirs on are embedded apart
        {"bos_token": "<bos>", "pad_token": "<pad>", "boi_token": "<end_of_image>", "eoi_token": "<end_of_image>"}
        | {"image_token": "<image_soft_token>", "audio_token": "<audio_soft_token>"}
        | {"boa_token": "<start_of_audio>", "eoa_token": "<end_of_audio>"},
        spread=0.2,
        finish=_gemma3n_layout,
        joins=False,
    ),
    "voxtral": Kind(
        _voxtral,
        TEKKEN,
        "",  # mistral-common has its own
        WHISPER | {"processor_class": "VoxtralProcessor"},
        finish=write_tekken,
    ),
    "audio-flamingo-3": _chatml(_audio_flamingo_3, ("<sound>",), "<sound>", "AudioFlamingo3Processor"),
    "music-flamingo": _chatml(
        _music_flamingo, ("<sound>", "<|sound_bos|>", "<|sound_eos|>"), "<sound>", "MusicFlamingoProcessor"
    ),
    "granite-speech": Kind(
        _granite_speech,
        ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|audio|>"),
        "{% for message in messages %}"
        "{{ '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}",
        {"feature_extractor_type": "GraniteSpeechFeatureExtractor", "sampling_rate": 16000},
        {"pad_token": "<|end_of_text|>"},
    ),
}
"""By the names of the families."""
if not all(map(find_spec, FAMILIES["gemma3n"].needs)):
    del KINDS["gemma3n"]  # its class and its processor cannot be built
