"""The tokenizer of a model behind a vLLM server, which makes the prompts; transformers need not know the model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from transformers import AutoTokenizer, GenerationConfig

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.families import PLACEHOLDERS
from specdec_cli.models.loading import LOCAL_ONLY, TOKENIZERS, checkpoint_errors, is_local, snapshot
from specdec_cli.models.processor import Processor, Prompt, eos_ids_of

_UNNAMED: Final = {"moss_audio": {"audio_token_id": 151_654}}
"""`model_type` -> ids that its code defines, and its files do not: in MOSS-Audio `<|vision_pad|>` of Qwen3's table."""

_HINT: Final = "Name a folder or hub id with the served model's tokenizer and config.json in `processor`."


class RemoteProcessor(Processor):
    """As much of a processor as a client of a server needs. Raises CheckpointError for missing or malformed files."""

    def __init__(self, config: ModelConfig, *, offline: bool) -> None:
        self.name = config.label
        with checkpoint_errors(config, offline=offline, setting="processor"):
            local = is_local(config.source)
            folder = Path(config.source).expanduser() if local else Path(snapshot(config, offline=offline))
            if not any((folder / name).is_file() for name in TOKENIZERS):
                raise CheckpointError(f"{self.name} has no {TOKENIZERS[0]} in {folder}", hint=_HINT)
            whole, processing = _read(folder, "config.json"), _read(folder, "processor_config.json")
            self.tokenizer = AutoTokenizer.from_pretrained(str(folder), **LOCAL_ONLY)
            self.generation = GenerationConfig(**_read(folder, "generation_config.json"))
            extractor = processing.get("feature_extractor", _read(folder, "preprocessor_config.json"))
        self.config = SimpleNamespace(specdec_prompts=whole.get("specdec_prompts"))
        tokens: dict[str, int] = self.tokenizer.get_vocab()
        self.vocab_size = max(tokens.values()) + 1
        thinker = _UNNAMED.get(str(whole.get("model_type")), {}) | whole.get("thinker_config", whole) | processing
        stand_ins = [thinker[name] for name in PLACEHOLDERS if isinstance(thinker.get(name), int)]
        if not stand_ins:
            says = f"{self.name} takes no audio: its config.json names no {PLACEHOLDERS[0]}"
            raise CheckpointError(says, hint=_HINT)
        self.placeholder_id, self.placeholders = stand_ins[0], set(stand_ins)
        self.banned_ids = tuple(sorted({*stand_ins, *(self.generation.suppress_tokens or ())}))
        declared, own = self.generation.eos_token_id, self.tokenizer.eos_token_id
        self.eos_ids = eos_ids_of(self.name, declared, own, tokens, self.vocab_size)
        self.sampling_rate = int(extractor.get("sampling_rate", 16_000))
        self.window_s = float(extractor.get("chunk_length") or 30.0)

    def prompt(self, samples: npt.NDArray[np.float32], instruction: str, system: str | None = None) -> Prompt:
        """A clip, mono [n] at `sampling_rate`, with the instruction and system prompt for the server's template."""
        self.require_fits(samples)
        return Prompt((), {}, samples, (instruction, system))

    def prompt_settings(self) -> object:
        return self.sampling_rate, self.window_s


def _read(folder: Path, name: str) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file."""
    return dict(json.loads((folder / name).read_bytes())) if (folder / name).is_file() else {}
