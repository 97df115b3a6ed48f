"""Lookup-table models: the next token depends on the last one alone, by a table that a test writes down.

They go through the real session and cache, so that everything but the transformer is the product's own code.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedConfig
from transformers.cache_utils import Cache

from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.rows import Groups
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import Family, Inputs
from specdec_cli.models.processor import Processor, Prompt
from tests.tiny import settings

START = 0  # the last prompt token, from which the text sets out
EOS = 1


class Letters:
    """A tokenizer of single letters: id 0 is "^", 1 is eos, 2.. are "a", "b", ..."""

    eos_token_id = EOS
    all_special_ids = (START, EOS)

    def __init__(self, size: int) -> None:
        self._pieces = ["^", ""] + [chr(ord("a") + i) for i in range(size - 2)]

    def __len__(self) -> int:
        return len(self._pieces)

    def get_vocab(self) -> dict[str, int]:
        return {piece or "<eos>": id_ for id_, piece in enumerate(self._pieces)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        del skip_special_tokens
        return "".join(self._pieces[id_] for id_ in ids)


class TableFamily(Family):
    """Whatever the clip, the prompt is two start tokens."""

    def placeholders(self, config: Any) -> list[int]:
        return []

    def prompt(self, parts: Any, samples: Any, instruction: str, system: str | None, placeholder: int) -> Inputs:
        return (START, START), {"sound": torch.zeros(1)}


class Rows(torch.nn.Module):
    """The output layer: hidden states are token ids, and a token's logits are its row of the table."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.table[hidden[..., 0].long()].clone()


class TableModule(torch.nn.Module):
    """A module of the shape that `AudioLM` calls."""

    dtype = torch.float32

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        size = len(table)
        self.config = PreTrainedConfig(vocab_size=size, num_hidden_layers=1, max_position_embeddings=4096)
        self.config._attn_implementation = "sdpa"
        self.embedding, self.output = torch.nn.Embedding(size, 1), Rows(table)
        self.fed: list[tuple[int, int]] = []  # (position, token id), in order

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embedding

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.output

    def get_decoder(self) -> torch.nn.Module:
        return self.embedding

    def get_audio_features(self, sound: torch.Tensor) -> torch.Tensor:
        return sound

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        past_key_values: Cache,
        sound: torch.Tensor | None = None,
        **_: Any,
    ) -> Any:
        if sound is not None:
            self.get_audio_features(sound)
        self.fed += zip(position_ids[0].tolist(), input_ids[0].tolist(), strict=True)
        keys = input_ids[:, None, :, None].float()
        past_key_values.update(keys, keys, 0)
        return SimpleNamespace(logits=self.output(input_ids[..., None].float()))


class TableModel(AudioLM):
    """Distribution of the next token = table[last token]."""

    def __init__(self, table: torch.Tensor, name: str = "table", letters: int | None = None) -> None:
        module = TableModule(table)
        parts = SimpleNamespace(tokenizer=Letters(letters or len(table)), feature_extractor=SimpleNamespace())
        generation = GenerationConfig(eos_token_id=EOS)
        processor = Processor(name, TableFamily("table", (), ""), parts, module.config, generation)
        processor.placeholder_id = START
        super().__init__(module, processor)

    @property
    def table(self) -> torch.Tensor:
        """The logits by the last token, to read and to write."""
        return self.module.output.table

    @property
    def fed(self) -> list[tuple[int, int]]:
        """(position, token id) of everything that was fed, in order."""
        return self.module.fed


def certain(next_of: Mapping[str, str], size: int = 8, margin: float = 20.0) -> TableModel:
    """A model that is sure: `next_of` maps a letter ("^" at the start) to the next one ("" for eos)."""
    table = torch.zeros(size, size)
    vocab = Letters(size).get_vocab()
    for letter, following in next_of.items():
        table[vocab[letter], vocab[following or "<eos>"]] = margin
    return TableModel(table)


def table_prompt(model: TableModel) -> Prompt:
    """The prompt of any clip."""
    return model.processor.prompt(np.zeros(8, dtype=np.float32), "")


def table_loop(edge: TableModel | None, cloud: TableModel | None, groups: Groups | None = None, **given: Any) -> Loop:
    """A loop over lookup tables, with settings by name."""
    mode = given.pop("mode", "hybrid" if cloud else "edge")
    config = settings(mode=mode, **given)
    prompts = table_prompt(edge) if edge else None, (lambda: table_prompt(cloud)) if cloud else None
    return Pair.of(edge, cloud).new_loop(config, prompts, Gate.of(config, groups))


def spelled(model: TableModel, ids: Sequence[int]) -> str:
    """Token ids as letters."""
    return model.processor.text(ids)


def random_table(seed: int, size: int = 5, spread: float = 1.0) -> TableModel:
    """A model with a random distribution behind every token."""
    rng = np.random.default_rng(seed)
    return TableModel(torch.tensor(rng.normal(0, spread, (size, size)), dtype=torch.float32), f"table-{seed}")
