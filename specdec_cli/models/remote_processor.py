"""The tokenizer of a model behind a vLLM server, without PyTorch and transformers; the server makes the prompts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.processor import GENERATION_NAMES, PLACEHOLDERS, Processor, Prompt, eos_ids_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNNAMED: Final = {"moss_audio": {"audio_token_id": 151_654}}
"""`model_type` -> ids that stand in its code, not in its files: in MOSS-Audio `<|vision_pad|>` of Qwen3's table."""
_SUPPRESSED: Final = "suppress_tokens"


class RemoteProcessor(Processor):
    """As much of a processor as a client of a server needs. Raises CheckpointError for missing or malformed files."""

    def __init__(self, config: ModelConfig, *, offline: bool) -> None:
        self.name, folder = config.label, _folder(config, offline=offline)
        whole, generation = _read(folder, "config.json"), _read(folder, "generation_config.json")
        self.config = SimpleNamespace(specdec_prompts=whole.get("specdec_prompts"))
        self.generation: Any = SimpleNamespace(**{key: generation.get(key) for key in (*GENERATION_NAMES, _SUPPRESSED)})
        self.tokenizer = _tokenizer(self.name, folder)
        tokens: dict[str, int] = self.tokenizer.get_vocab()
        self.vocab_size = max(tokens.values()) + 1
        processing = _read(folder, "processor_config.json")
        thinker = _UNNAMED.get(str(whole.get("model_type")), {}) | whole.get("thinker_config", whole) | processing
        stand_ins = [thinker[name] for name in PLACEHOLDERS if isinstance(thinker.get(name), int)]
        if not stand_ins:
            raise CheckpointError(f"{self.name} takes no audio: its config.json names no {PLACEHOLDERS[0]}")
        self.placeholder_id: int = stand_ins[0]
        self.placeholders = set(stand_ins)
        self.banned_ids = tuple(sorted({*stand_ins, *(generation.get(_SUPPRESSED) or ())}))
        end = _read(folder, "tokenizer_config.json").get("eos_token")
        end_id = tokens.get(str(end["content"] if isinstance(end, dict) else end))
        self.eos_ids = eos_ids_of(self.name, generation.get("eos_token_id"), end_id, tokens, self.vocab_size)
        extractor = processing.get("feature_extractor", _read(folder, "preprocessor_config.json"))
        self.sampling_rate = int(extractor.get("sampling_rate", 16_000))
        self.window_s = float(extractor.get("chunk_length") or 30.0)

    def prompt(self, samples: npt.NDArray[np.float32], instruction: str, system: str | None = None) -> Prompt:
        """A clip, mono [n] at `sampling_rate`, with the instruction and system prompt for the server's template."""
        self.require_fits(samples)
        return Prompt((), {}, samples, (instruction, system))

    def prompt_settings(self) -> object:
        return self.sampling_rate, self.window_s

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _entry(self, id_: int) -> str | None:
        entry: str | None = self.tokenizer.id_to_token(id_)
        return entry

    def token_text(self, id_: int) -> str:
        return str(self.tokenizer.decode([id_], skip_special_tokens=False))


def _tokenizer(name: str, folder: Path) -> Tokenizer:
    if (folder / "tokenizer.json").is_file():
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    kind = str(_read(folder, "tokenizer_config.json").get("tokenizer_class"))
    if not kind.startswith("Qwen2Tokenizer") or not (folder / "vocab.json").is_file():
        hint = "Name a folder or hub id with the served model's tokenizer in `processor`."
        raise CheckpointError(f"{name} has no tokenizer.json in {folder}", hint=hint)
    from transformers import Qwen2Tokenizer  # from vocab.json and merges.txt, as MOSS-Audio is published

    made: Tokenizer = Qwen2Tokenizer.from_pretrained(str(folder), local_files_only=True).backend_tokenizer
    return made


def _folder(config: ModelConfig, *, offline: bool) -> Path:
    folder = Path(config.source).expanduser()
    if folder.is_dir():
        return folder
    from specdec_cli.models.download import not_downloaded, snapshot

    try:
        return Path(snapshot(config, offline=offline))
    except (OSError, ValueError) as error:  # ValueError: no name that the hub could have
        raise not_downloaded(config, error, "processor", offline=offline) from error


def _read(folder: Path, name: str) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file. Raises CheckpointError."""
    try:
        return dict(json.loads((folder / name).read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / name} cannot be read as a JSON object: {error}") from error
