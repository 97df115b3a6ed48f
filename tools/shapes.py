"""Thinkers of the published sizes with made-up weights, built straight in their number format.

The sizes are those of the config.json of Qwen2.5-Omni-3B and -7B; both have an output layer of its own beside the
embedding. The vision tower is left out, as it is of a loaded checkpoint. Token ids of placeholders and tokenizer are
the mini pair's, so that no download is needed; the vocabulary has its published size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration, WhisperFeatureExtractor

import specdec_cli
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import FAMILIES, AudioProcessor
from specdec_cli.models.int4 import PackedLinear, empty_packed
from specdec_cli.models.processor import Processor
from tools.memory import weight_bytes

_WINDOW_S = 300
_PATTERN = 1 << 20  # numbers that are drawn; every weight repeats them
_STD = 0.02  # transformers' initializer_range


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a thinker.

    Attributes:
        name: what it is called.
        hidden, ffn, layers, heads, key_heads, vocabulary: of the text model.
        tower_layers, tower_width, tower_ffn, tower_heads: of the audio tower.
    """

    name: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    tower_layers: int = 32
    tower_width: int = 1280
    tower_ffn: int = 5120
    tower_heads: int = 20


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("3b", hidden=2048, ffn=11008, layers=36, heads=16, key_heads=2, vocabulary=151936),
        Shape("7b", hidden=3584, ffn=18944, layers=28, heads=28, key_heads=4, vocabulary=152064),
        Shape(
            "mini",
            hidden=192,
            ffn=512,
            layers=10,
            heads=3,
            key_heads=1,
            vocabulary=151936,
            tower_layers=6,
            tower_width=512,
            tower_ffn=2048,
            tower_heads=8,
        ),
        Shape(
            "tiny",
            hidden=64,
            ffn=128,
            layers=2,
            heads=4,
            key_heads=2,
            vocabulary=4096,
            tower_layers=1,
            tower_width=64,
            tower_ffn=128,
            tower_heads=2,
        ),
    )
}
"""By name; `tiny` shows in a second that the check itself works.

`mini` has the sizes of the mini pair's cloud and the vocabulary of 3b: as a cloud of an edge on the same CPU it takes
about as long for a verification as a large model on a GPU.
"""


def thinker_config(shape: Shape, special: dict[str, int]) -> Qwen2_5OmniThinkerConfig:
    """The configuration of a thinker; `special` names the ids of its special tokens."""
    return Qwen2_5OmniThinkerConfig(
        audio_config={
            "num_mel_bins": 128,
            "d_model": shape.tower_width,
            "encoder_layers": shape.tower_layers,
            "encoder_attention_heads": shape.tower_heads,
            "encoder_ffn_dim": shape.tower_ffn,
            "n_window": 100,
            "output_dim": shape.hidden,
        },
        text_config={
            "hidden_size": shape.hidden,
            "intermediate_size": shape.ffn,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.key_heads,
            "vocab_size": shape.vocabulary,
            "max_position_embeddings": 32768,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1_000_000.0,
                "mrope_section": _thirds(shape.hidden // shape.heads // 2),
            },
        },
        vision_config={"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 1, "out_hidden_size": 16},
        tie_word_embeddings=False,
        **special,
    )


def parameters(shape: Shape) -> int:
    """Weights of a thinker without its vision tower."""
    return allocated(shape, "float32") // 4


def allocated(shape: Shape, dtype: str) -> int:
    """Bytes of the weights of a thinker in a number format that `build` takes."""
    return weight_bytes(_empty(shape, _special(_processor().tokenizer), dtype))


def build(shape: Shape, *, dtype: str, device: torch.device) -> AudioLM:
    """A thinker of `shape`, never held in another format than its own.

    Args:
        shape: its sizes.
        dtype: a number format; or "int4": decoder and output layer, with the rest in bfloat16.
        device: where to put it.
    """
    parts = _processor()
    module = _empty(shape, _special(parts.tokenizer), dtype).to_empty(device=device)
    _fill(module, module.dtype, device)
    module.generation_config.eos_token_id = parts.tokenizer.convert_tokens_to_ids("<|im_end|>")
    processor = Processor(shape.name, FAMILIES["qwen2.5-omni"], parts, module.config, module.generation_config)
    processor.vocab_size = shape.vocabulary  # scored in full, although the tokenizer at hand has fewer ids
    return AudioLM(module.eval().requires_grad_(False), processor, quantization=dtype if dtype == "int4" else None)


def _empty(shape: Shape, special: dict[str, int], dtype: str) -> Any:
    """The module without memory for its weights, in a format that `build` takes."""
    with torch.device("meta"):
        module = Qwen2_5OmniThinkerForConditionalGeneration(thinker_config(shape, special))
    module.to(torch.bfloat16 if dtype == "int4" else getattr(torch, dtype))
    del module.model.visual
    if dtype == "int4":
        empty_packed(module)
    return module


def _thirds(pairs: int) -> list[int]:
    """Rotary pairs of time, height and width; the published 16, 24, 24 of 64."""
    return [pairs // 4, pairs * 3 // 8, pairs - pairs // 4 - pairs * 3 // 8]


def _processor() -> AudioProcessor:
    """The mini pair's tokenizer and template with the published audio front end."""
    folder = Path(specdec_cli.__file__).parent / "mini" / "weights" / "cloud"
    processor: AudioProcessor = AudioProcessor.from_pretrained(str(folder), local_files_only=True)
    processor.feature_extractor = WhisperFeatureExtractor(feature_size=128, chunk_length=_WINDOW_S)
    return processor


def _special(tokenizer: Any) -> dict[str, int]:
    """Configuration field -> the tokenizer's id of its token."""
    tokens = {
        "audio_token_id": "<|AUDIO|>",
        "image_token_id": "<|IMAGE|>",
        "video_token_id": "<|VIDEO|>",
        "audio_start_token_id": "<|audio_bos|>",
        "audio_end_token_id": "<|audio_eos|>",
    }
    return {field: int(tokenizer.convert_tokens_to_ids(token)) for field, token in tokens.items()}


@torch.no_grad()
def _fill(module: Any, dtype: torch.dtype, device: torch.device) -> None:
    """Norms 1, biases 0, every other weight the same random numbers over and over, which is as fast as memory is.

    Buffers that no checkpoint holds (rotary angles, positions of the tower) are computed as loading computes them.
    """
    generator = torch.Generator(device).manual_seed(0)
    pattern = torch.empty(_PATTERN, dtype=dtype, device=device).normal_(0.0, _STD, generator=generator)
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif parameter.dim() == 1:
            parameter.fill_(1.0)
        else:
            for piece in parameter.view(-1).split(_PATTERN):
                piece.copy_(pattern[: len(piece)])
    for part in module.modules():
        if isinstance(part, PackedLinear):
            part.weight.view(torch.uint8).random_(generator=generator)
            part.scales.fill_(_STD / 8)  # a zero point of half a step is as good as another
        elif next(part.buffers(recurse=False), None) is not None:
            module._init_weights(part)
