"""The tokenizer of a model behind a vLLM server, without PyTorch and transformers; the server makes the prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specdec_cli.config import ModelConfig
from specdec_cli.errors import AudioContentError, CheckpointError
from specdec_cli.models.processor import SUGGESTED, Processor, Prompt

_PLACEHOLDER: Final = ("audio_token_id", "audio_token_index")
_OTHERS: Final = ("image_token_id", "video_token_id")


class ServedProcessor(Processor):
    """As much of a processor as a client of a server needs. Raises CheckpointError where its files are missing."""

    def __init__(self, config: ModelConfig, *, offline: bool) -> None:
        from tokenizers import Tokenizer

        self.name, folder = config.label, _folder(config, offline=offline)
        if not (folder / "tokenizer.json").is_file():
            raise CheckpointError(
                f"{self.name} has no tokenizer.json in {folder}",
                hint="Name a folder or hub id with the served model's tokenizer in `processor`.",
            )
        whole = _read(folder, "config.json")
        thinker = whole.get("thinker_config", whole)
        self.config = SimpleNamespace(specdec_prompts=whole.get("specdec_prompts"))
        generation = _read(folder, "generation_config.json")
        self.generation: Any = SimpleNamespace(**dict.fromkeys(SUGGESTED), suppress_tokens=None)
        vars(self.generation).update((name, generation.get(name)) for name in vars(self.generation))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        vocabulary: Mapping[str, int] = self.tokenizer.get_vocab()
        self.vocab_size = max(vocabulary.values()) + 1
        placeholder = next((thinker[name] for name in _PLACEHOLDER if isinstance(thinker.get(name), int)), None)
        if placeholder is None:
            raise CheckpointError(f"{self.name} takes no audio: its config.json names no {_PLACEHOLDER[0]}")
        self.placeholder_id: int = placeholder
        self._others = {thinker[name] for name in _OTHERS if isinstance(thinker.get(name), int)}
        self.banned_ids = tuple(sorted(self.placeholders | {*(self.generation.suppress_tokens or ())}))
        self.eos_ids = _eos_ids(generation, _read(folder, "tokenizer_config.json"), vocabulary)
        if not self.eos_ids:
            raise CheckpointError(f"{self.name} names no id that ends a text", hint="Add its generation_config.json.")
        extractor = _read(folder, "preprocessor_config.json")
        extractor = _read(folder, "processor_config.json").get("feature_extractor", extractor)
        self.sampling_rate = int(extractor.get("sampling_rate", 16_000))
        self.window_s = float(extractor.get("chunk_length") or 30.0)

    def prompt(self, samples: npt.NDArray[np.float32], instruction: str, system: str | None = None) -> Prompt:
        """A clip, mono [n] at `sampling_rate`, and what the server is to put around it."""
        if samples.ndim != 1 or len(samples) > self.window_s * self.sampling_rate:
            raise AudioContentError(
                f"{self.name} takes mono audio of at most {self.window_s:g} s, got shape {samples.shape}",
                hint="Split the recording with audio.segment.",
            )
        return Prompt((), {}, samples, (instruction, system))

    @property
    def placeholders(self) -> set[int]:
        return {self.placeholder_id} | self._others

    def prompt_settings(self) -> object:
        return self.sampling_rate, self.window_s

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def word(self, id_: int) -> str:
        text, piece = self.text([id_]), self.tokenizer.id_to_token(id_)
        return f" {text}" if text and piece and piece[0] in "▁Ġ" and text[0] != " " else text

    def piece(self, id_: int) -> str:
        return str(self.tokenizer.decode([id_], skip_special_tokens=False))


def _folder(config: ModelConfig, *, offline: bool) -> Path:
    folder = Path(config.source).expanduser()
    if folder.is_dir():
        return folder
    from specdec_cli.models.download import describe

    return describe(config.source, config.revision, offline=offline)


def _read(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / name} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def _eos_ids(
    generation: Mapping[str, Any], tokenizer: Mapping[str, Any], vocabulary: Mapping[str, int]
) -> tuple[int, ...]:
    """As `models.processor` finds them."""
    declared = generation.get("eos_token_id")
    if declared in (None, []):
        name = tokenizer.get("eos_token")
        name = name.get("content") if isinstance(name, dict) else name
        declared = vocabulary.get("<|im_end|>", vocabulary.get(str(name)))
    ids = declared if isinstance(declared, list) else [] if declared is None else [declared]
    return tuple(sorted(id_ for id_ in set(ids) if isinstance(id_, int)))
