"""Thinkers of published sizes with made-up weights, built straight in their number format, and what they write.

The sizes are those of the config.json of Qwen2.5-Omni-3B and -7B; both have an output layer of its own beside the
embedding. The vision tower is left out, as it is of a loaded checkpoint. Token ids of placeholders and tokenizer are
the mini pair's, so that no download is needed; the vocabulary has its published size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration, WhisperFeatureExtractor
from transformers.cache_utils import Cache

import specdec_cli
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import FAMILIES, AudioProcessor
from specdec_cli.models.int4 import PackedLinear, empty_packed
from specdec_cli.models.processor import Processor

_WINDOW_S = 300
_PATTERN = 1 << 20  # numbers that are drawn; every weight repeats them
_STD = 0.02  # transformers' initializer_range
_SURE: Final = 100.0  # by how much a chosen token's logit exceeds the others'
_UNSURE: Final = 0.01


class Shape(NamedTuple):
    """Sizes of the text model of a thinker, and of its audio tower."""

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
    "3b": Shape(2048, 11008, layers=36, heads=16, key_heads=2, vocabulary=151936),
    "7b": Shape(3584, 18944, layers=28, heads=28, key_heads=4, vocabulary=152064),
    "tiny": Shape(64, 128, 2, 4, 2, 4096, tower_layers=1, tower_width=64, tower_ffn=128, tower_heads=2),
}
"""By name; `tiny` shows in a second that a measurement itself works."""


class ChosenLM(AudioLM):
    """A loaded model whose tokens are chosen for it, one clip at a time: made-up weights choose nothing of interest.

    Every forward is made, and its logits are raised at the token that is to be chosen, so that times are real.
    """

    def __init__(self, model: AudioLM) -> None:
        vars(self).update(vars(model))  # it has been set up, and its encoder is watched
        self.choose((), 0)

    def choose(self, text: Sequence[int], prompt_tokens: int, unsure: Collection[int] = ()) -> None:
        """From here on `text` is written after a prompt of so many tokens; hardly so at the places `unsure`."""
        self._text, self._prompt_tokens, self._unsure = tuple(text), prompt_tokens, frozenset(unsure)

    def forward(
        self,
        ids: Sequence[int] | torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        rows: int | torch.Tensor,
        audio: Mapping[str, torch.Tensor] | None = None,
        mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, float, int]:
        start = cache.get_seq_length() + len(ids) + 1 - self._prompt_tokens
        logits, encoder_ms, passes = super().forward(ids, positions, cache, rows, audio, mask)
        for at, row in enumerate(logits, start=start - len(logits)):
            if 0 <= at < len(self._text):
                row[self._text[at]] = row.max() + (_UNSURE if at in self._unsure else _SURE)
        return logits, encoder_ms, passes


def build(name: str, dtype: str, device: torch.device) -> ChosenLM:
    """The thinker of a shape, never held in another format than its own.

    Args:
        name: of its shape.
        dtype: a number format; or "int4": decoder and output layer, with the rest in bfloat16.
        device: where to put it.
    """
    parts = _processor()
    module = _empty(name, dtype).to_empty(device=device)
    _fill(module, module.dtype, device)
    module.generation_config.eos_token_id = parts.tokenizer.convert_tokens_to_ids("<|im_end|>")
    processor = Processor(name, FAMILIES["qwen2.5-omni"], parts, module.config, module.generation_config)
    processor.vocab_size = SHAPES[name].vocabulary  # scored in full, although the tokenizer at hand has fewer ids
    quantization = dtype if dtype == "int4" else None
    return ChosenLM(AudioLM(module.eval().requires_grad_(False), processor, quantization=quantization))


def allocated(name: str, dtype: str) -> int:
    """Bytes of the weights of a thinker in a number format that `build` takes."""
    return weight_bytes(_empty(name, dtype))


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers of `module`."""
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _empty(name: str, dtype: str) -> Any:
    """The module without memory for its weights, in a format that `build` takes."""
    with torch.device("meta"):
        module = Qwen2_5OmniThinkerForConditionalGeneration(_config(SHAPES[name]))
    module.to(torch.bfloat16 if dtype == "int4" else getattr(torch, dtype))
    del module.model.visual
    if dtype == "int4":
        empty_packed(module)
    return module


def _config(shape: Shape) -> Qwen2_5OmniThinkerConfig:
    token = _processor().tokenizer.convert_tokens_to_ids
    pairs = shape.hidden // shape.heads // 2
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
                "mrope_section": [pairs // 4, pairs * 3 // 8, pairs - pairs // 4 - pairs * 3 // 8],  # 16, 24, 24 of 64
            },
        },
        vision_config={"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 1, "out_hidden_size": 16},
        tie_word_embeddings=False,
        audio_token_id=token("<|AUDIO|>"),
        image_token_id=token("<|IMAGE|>"),
        video_token_id=token("<|VIDEO|>"),
        audio_start_token_id=token("<|audio_bos|>"),
        audio_end_token_id=token("<|audio_eos|>"),
    )


def _processor() -> AudioProcessor:
    """The mini pair's tokenizer and template with the published audio front end."""
    folder = Path(specdec_cli.__file__).parent / "mini" / "weights" / "cloud"
    processor: AudioProcessor = AudioProcessor.from_pretrained(str(folder), local_files_only=True)
    processor.feature_extractor = WhisperFeatureExtractor(feature_size=128, chunk_length=_WINDOW_S)
    return processor


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
