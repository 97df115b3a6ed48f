"""Lookup-table models: the next token depends on the last one alone, by a table that a test writes down.

They go through the real session and cache, so that everything but the transformer is the product's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel, LoadOptions, PromptInputs

START = 0  # the last prompt token, from which the text sets out
EOS = 1


class Letters:
    """A tokenizer of single letters: id 0 is "^", 1 is eos, 2.. are "a", "b", ..."""

    def __init__(self, size: int) -> None:
        self._pieces = ["^", ""] + [chr(ord("a") + i) for i in range(size - 2)]

    def get_vocab(self) -> dict[str, int]:
        return {piece or "<eos>": id_ for id_, piece in enumerate(self._pieces)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        del skip_special_tokens
        return "".join(self._pieces[id_] for id_ in ids)


class TableModel(AudioLanguageModel):
    """Distribution of the next token = table[last token]."""

    def __init__(self, table: torch.Tensor, name: str = "table") -> None:
        self.table = table
        self.name = name
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.tokenizer: Any = Letters(len(table))
        self.vocab_size = len(table)
        self.eos_ids, self.placeholder_ids = (EOS,), ()
        self.sampling_rate, self.window_s, self.layers, self.context = 16000, 30.0, 1, 4096
        self.fed: list[tuple[int, int]] = []  # (position, token id), in order

    @classmethod
    def load(cls, options: LoadOptions) -> TableModel:
        raise NotImplementedError

    def features(self, waveform: Any) -> AudioFeatures:
        return AudioFeatures(torch.zeros(1, 4), 4)

    def build_prompt(self, instruction: str, features: AudioFeatures, system: str | None = None) -> PromptInputs:
        return PromptInputs((START, START), features)

    def encode(self, features: AudioFeatures) -> torch.Tensor:
        return torch.zeros(1, 1)

    def embed(self, ids: Sequence[int], audio: torch.Tensor | None = None) -> torch.Tensor:
        return torch.tensor([[[float(id_)] for id_ in ids]])

    def decode(self, embeddings: torch.Tensor, start: int, cache: Cache) -> torch.Tensor:
        self.fed += [(start + i, int(token)) for i, token in enumerate(embeddings[0, :, 0])]
        cache.update(embeddings[:, None], embeddings[:, None], 0)
        return embeddings

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.table[hidden[:, 0].long()].clone()


def certain(next_of: Mapping[str, str], size: int = 8, margin: float = 20.0) -> TableModel:
    """A model that is sure: `next_of` maps a letter ("^" at the start) to the next one ("" for eos)."""
    table = torch.zeros(size, size)
    vocab = Letters(size).get_vocab()
    for letter, following in next_of.items():
        table[vocab[letter], vocab[following or "<eos>"]] = margin
    return TableModel(table)


def table_engine(edge: TableModel, cloud: TableModel | None, **options: Any) -> Engine:
    """An engine over lookup tables."""
    silence = AudioFeatures(torch.zeros(1, 4), 4)
    mode = options.pop("mode", "hybrid" if cloud else "edge")
    return build_engine(
        Pair.of(edge, cloud),
        DecodingOptions(mode=mode, **options),
        edge.build_prompt("", silence),
        cloud.build_prompt("", silence) if cloud else None,
    )


def spelled(model: TableModel, ids: Sequence[int]) -> str:
    """Token ids as letters."""
    return model.tokenizer.decode(ids)  # type: ignore[no-any-return]


def random_table(seed: int, size: int = 5, spread: float = 1.0) -> TableModel:
    """A model with a random distribution behind every token."""
    rng = np.random.default_rng(seed)
    return TableModel(torch.tensor(rng.normal(0, spread, (size, size)), dtype=torch.float32), f"table-{seed}")
