"""Qwen's published tokenizer, built from the merges that the PyPI package dashscope carries; never committed."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import transformers as tf
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.families.checkpoints import byte_letters

MERGED = 151_643
COMMON = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
OMNI_25 = (
    *COMMON,
    *("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_bos|>", "<|vision_eos|>", "<|vision_pad|>", "<|IMAGE|>", "<|VIDEO|>", "<tool_call>", "</tool_call>"),
    *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
)
"""Special tokens of Qwen2.5-Omni, ids 151,643 to 151,664."""
OMNI_3 = (
    *COMMON,
    *("<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>"),
    *("</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>"),
    *("<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>", "<|audio_start|>"),
    *("<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
"""Special tokens of Qwen3-Omni, ids 151,643 to 151,675."""
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def merges_file() -> Path | None:
    """The file of merges, if dashscope is installed; the package itself is not imported."""
    spec = find_spec("dashscope")
    path = Path(spec.origin).parent / "resources" / "qwen.tiktoken" if spec and spec.origin else None
    return path if path is not None and path.is_file() else None


def merged_ranks(path: Path) -> dict[bytes, int]:
    """The bytes of each merged piece -> its id."""
    pairs = (line.split() for line in path.read_bytes().splitlines())
    return {base64.b64decode(piece): int(rank) for piece, rank in pairs}


def published_tokenizer(path: Path, specials: Sequence[str]) -> tf.PreTrainedTokenizerFast:
    """The byte-level BPE of the published tokenizer.json, with the special tokens of one model."""
    vocab, merges = _vocabulary(path)
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(specials))
    audio = "<|AUDIO|>" if "<|AUDIO|>" in specials else "<|audio_pad|>"
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", audio_token=audio
    )


@cache
def _vocabulary(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ids of all pieces and the merges that make them, in the order of their ranks."""
    ranks = merged_ranks(path)
    letters = byte_letters()
    words = {piece: "".join(letters[byte] for byte in piece) for piece in ranks}
    halves = (_halves(ranks, piece) for piece in ranks if len(piece) > 1)
    return {words[piece]: rank for piece, rank in ranks.items()}, [
        (words[left], words[right]) for left, right in halves
    ]


def _halves(ranks: dict[bytes, int], piece: bytes) -> list[bytes]:
    """The two pieces whose merge gives `piece`: all merges of lower rank are made first."""
    parts = [piece[at : at + 1] for at in range(len(piece))]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, MERGED) for left, right in pairwise(parts)]
        at = min(range(len(pairs)), key=pairs.__getitem__)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
