"""Tokenizer, feature extractor and chat template of a checkpoint: of a remote cloud's, nothing else is loaded here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from transformers import GenerationConfig

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.config.settings import check_value
from specdec_cli.errors import AudioContentError, CheckpointError, TokenizerMismatchError, first_line
from specdec_cli.models.families import Family
from specdec_cli.types import NOTHING_DONE

_OTHER_NAMES: Final = {"no_repeat_ngram": "no_repeat_ngram_size"}  # setting -> its name in generation_config.json
GENERATION_NAMES: Final = tuple(_OTHER_NAMES.get(name, name) for name in NOTHING_DONE)
"""The names in generation_config.json of the settings in `NOTHING_DONE`, in its order."""
_CHAT_END = "<|im_end|>"  # ends a turn in the chat templates of many families
_NEARLY_ALL: Final = 0.99  # of the words of the smaller of two tables
_NAMED: Final = 3  # ids in a message
_TEST_SOUND_S = (0.37, 3.0)  # two lengths determine the number of audio tokens per second


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt ready for one model."""

    ids: tuple[int, ...]  # the audio placeholder repeated once per audio token
    audio: Mapping[str, torch.Tensor]  # on the CPU, by the names of the module's forward; log-mel features in float32
    # mono [n] at the model's rate, for a cloud that computes features itself
    waveform: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    unformatted: tuple[str, str | None] | None = None  # instruction and system prompt, if a server makes the ids


class Processor:
    """Tokenizer, feature extractor and chat template of one checkpoint.

    `parts` is transformers' processor, or the parts of it that speech needs; `generation` holds what the checkpoint
    suggests for `generate()`.
    """

    def __init__(self, name: str, family: Family, parts: Any, config: Any, generation: GenerationConfig) -> None:
        self.name, self.family, self.parts, self.config, self.generation = name, family, parts, config, generation
        self.tokenizer = parts.tokenizer
        self.extractor = extractor = getattr(parts, "feature_extractor", None) or parts.audio_processor
        text_config = config.get_text_config(decoder=True)
        self.logits_size = int(text_config.vocab_size)
        self.context = _context(text_config)  # positions of prompt and text together
        tokens: dict[str, int] = self.tokenizer.get_vocab()
        # Voxtral's table lacks ids of parts of characters
        self.vocab_size = max(*tokens.values(), len(self.tokenizer) - 1) + 1
        if self.vocab_size > self.logits_size:
            raise CheckpointError(
                f"{name} has {self.logits_size} token ids, but its tokenizer goes up to {self.vocab_size - 1}",
                hint="Use the tokenizer.json that belongs to the checkpoint.",
            )
        self.eos_ids = eos_ids_of(name, generation.eos_token_id, self.tokenizer.eos_token_id, tokens, self.logits_size)
        stand_ins = family.placeholders(config)
        self.placeholders = set(stand_ins)  # ids that stand for audio, image or video
        self.placeholder_id = next(iter(stand_ins), -1)  # stands for one audio token
        self.banned_ids = tuple(sorted({*self.placeholders, *(generation.suppress_tokens or ())}))  # never generated
        self.sampling_rate = int(getattr(extractor, "sampling_rate", 16_000))
        # longest recording; some processors cut longer ones without a warning
        limits = (family.longest_s, getattr(parts, "max_audio_len", None), getattr(extractor, "chunk_length", None))
        self.window_s = float(next(filter(None, limits), 30.0))

    def prompt(self, samples: npt.NDArray[np.float32], instruction: str, system: str | None = None) -> Prompt:
        """The chat template around a clip, mono [n] at `sampling_rate`, and an instruction after it.

        `system` None: the template's own system prompt, if it has one.

        Raises:
            AudioContentError: the clip is not mono, or longer than the window.
            CheckpointError: template or extractor fail, there is no place for the audio, or the family takes no system
                prompt.
            MemoryError
        """
        self.require_fits(samples)
        if system is not None and not self.family.takes_system:
            raise CheckpointError(f"{self.name} takes no system prompt", hint="Put it into the instruction.")
        try:
            ids, audio = self.family.prompt(self.parts, samples, instruction, system, self.placeholder_id)
            if self.placeholders and self.placeholder_id not in ids:
                raise ValueError(f"it holds no audio placeholder (id {self.placeholder_id} by config.json)")
        except MemoryError:
            raise
        except Exception as error:  # a template or an extractor may raise anything
            seconds, why = len(samples) / self.sampling_rate, f"{type(error).__name__}: {first_line(error)}"
            raise CheckpointError(
                f"{self.name} makes no prompt of {seconds:.2f} s of audio: {why}",
                hint="Use the checkpoint's own chat template, tokenizer and processor_config.json, and write no "
                "placeholders into a prompt.",
            ) from error
        return Prompt(tuple(ids), audio, samples)

    def require_fits(self, samples: npt.NDArray[np.float32]) -> None:
        """Raises AudioContentError for samples that are not mono, or longer than the window."""
        if samples.ndim != 1 or len(samples) > self.window_s * self.sampling_rate:
            raise AudioContentError(
                f"{self.name} takes mono audio of at most {self.window_s:g} s, got shape {samples.shape}",
                hint="Split the recording with audio.segment.",
            )

    def prompt_settings(self) -> object:
        """What determines prompts beside the tokenizer, for comparison with another processor's."""
        return self.family.name, self.placeholder_id, self.parts.chat_template, self.extractor.to_dict()

    def encode(self, text: str) -> list[int]:
        """A text as token ids, marks of the chat template included."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False).input_ids
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text without special tokens. Bytes that form no character become U+FFFD."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def word(self, id_: int) -> str:
        """The text of one token, with the space before it that some tokenizers drop at the beginning of a text."""
        text, token = self.text([id_]), self._entry(id_)
        return f" {text}" if text and token and token[0] in "▁Ġ" and text[0] != " " else text

    def _entry(self, id_: int) -> str | None:
        """A token as the tokenizer's table writes it."""
        entry = self.tokenizer.convert_ids_to_tokens(id_)
        return entry if isinstance(entry, str) else None

    def token_text(self, id_: int) -> str:
        """The text of one token, special ones included."""
        return str(self.tokenizer.decode([id_]))

    @cached_property
    def word_ids(self) -> frozenset[int]:
        """The ids of words and parts of words: all in the tokenizer's table but special and added tokens."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        added = {} if callable(added) else added  # that of mistral-common is a method that raises
        return frozenset(self.tokenizer.get_vocab().values()) - {*added, *self.tokenizer.all_special_ids}

    def fingerprints(self) -> dict[str, str]:
        """Hashes by name: `tokenizer` (which ids mean which tokens) and `prompts` (ids and features of test clips)."""
        digest = hashlib.sha256()
        for seconds in _TEST_SOUND_S:
            for system in (None, "Test.") if self.family.takes_system else (None,):
                made = self.prompt(test_sound(seconds, self.sampling_rate), "How?", system)
                digest.update(repr(made.ids).encode())
                for name, values in sorted(made.audio.items()):
                    # rounded, since two processors' kernels differ in the last bits
                    digest.update(f"{name} {tuple(values.shape)} {float(values.double().mean()):.3f}".encode())
        return {
            "tokenizer": _tokenizer_fingerprint(self.tokenizer.get_vocab()),
            "prompts": f"sha256:{digest.hexdigest()[:32]}",
        }


def _context(text_config: Any) -> int:
    """Positions up to which rope turns every token by its own place alone, whatever the length of the text.

    Beyond its original length, longrope turns all tokens by other angles, and those in the cache would keep the former
    ones. What transformers calls dynamic does so beyond `max_position_embeddings`.
    """
    rope = getattr(text_config, "rope_parameters", None) or {}
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, Mapping))]  # one, or one of each kind of layer
    originals = [kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope"]
    return int(min([text_config.max_position_embeddings, *originals]))


def test_sound(seconds: float, sampling_rate: int) -> npt.NDArray[np.float32]:
    """Mono samples of a rising tone, the same on every machine."""
    t = np.arange(round(seconds * sampling_rate)) / sampling_rate
    return (0.3 * np.sin(2 * np.pi * (150 * t + 100 * t**2))).astype(np.float32)


def same_prompts(one: Processor, other: Processor) -> bool:
    """Whether two processors make the same prompt of a clip and an instruction."""
    return one is other or (one.prompt_settings(), _table(one)) == (other.prompt_settings(), _table(other))


def shared_vocab_size(edge: Processor, cloud: Processor) -> int:
    """Number of leading token ids that mean the same to both models.

    Special tokens may differ as long as words follow. Raises TokenizerMismatchError if the words among these ids are
    not nearly all words of the smaller table, or if an id that ends a text is not among them.
    """
    mine, theirs = _table(edge), _table(cloud)
    words = edge.word_ids, cloud.word_ids
    most = min(len(mine), len(theirs))
    unlike = [id_ for id_ in range(most) if mine[id_] != theirs[id_]]
    first = next((id_ for id_ in unlike if id_ in words[0] or id_ in words[1]), most)
    shared = max((id_ + 1 for id_ in words[0] & words[1] if id_ < first), default=0)
    while shared < most and mine[shared] == theirs[shared]:
        shared += 1
    smaller = min(words, key=len)
    agreeing = sum(id_ < shared for id_ in smaller)
    ends = {*edge.eos_ids, *cloud.eos_ids}
    lost = sorted(id_ for id_ in ends if id_ >= shared or mine[id_] != theirs[id_])
    few = agreeing < _NEARLY_ALL * len(smaller)
    if few or lost:
        what = f"of {len(smaller)} words only the first {agreeing} agree" if few else "ids that end a text differ"
        named = (unlike if few else lost)[:_NAMED]
        shown = ", ".join(f"{id_} ({_shown(mine, id_)} and {_shown(theirs, id_)})" for id_ in named)
        raise TokenizerMismatchError(
            f"edge {edge.name} and cloud {cloud.name} have different tokenizers: {what}: {shown}",
            hint="Drafted ids would mean other words to the cloud. Use two models of one tokenizer, such as two sizes "
            "of one family, or one model (--mode edge, --mode cloud).",
        )
    return shared


def require_lossless(cloud: Processor, shared: int) -> None:
    """Raises TokenizerMismatchError if the cloud has words beyond the shared ids: its own text might hold them."""
    if beyond := sorted(id_ for id_ in cloud.word_ids if id_ >= shared):
        table = _table(cloud)
        shown = ", ".join(f"{id_} ({_shown(table, id_)})" for id_ in beyond[:_NAMED])
        raise TokenizerMismatchError(
            f"cloud {cloud.name} has {len(beyond)} words that the edge does not have: {shown}",
            hint="Its own text could not be kept in lossless mode. Use --mode hybrid, or an edge with all its words.",
        )


def _shown(table: list[str | None], id_: int) -> str:
    return "none" if id_ >= len(table) or table[id_] is None else repr(table[id_])


def suggestions(settings: ScoringConfig, processor: Processor) -> dict[str, float]:
    """What a checkpoint's generation_config.json adds to settings that were left open, by name.

    Raises ConfigError for a value that the setting does not take.
    """
    found = {
        name: value
        for (name, off), theirs in zip(NOTHING_DONE.items(), GENERATION_NAMES, strict=True)
        if getattr(settings, name) is None and (value := getattr(processor.generation, theirs)) not in (None, off)
    }
    for name, value in found.items():
        check_value(f"decoding.{name}", value, f"generation_config.json of {processor.name}")
    if processor.generation.suppress_tokens:
        found["suppressed"] = len(processor.generation.suppress_tokens)
    return found


def effective(settings: ScoringConfig, processor: Processor) -> ScoringConfig:
    """The settings for one model. A setting that was left open is as the checkpoint suggests, or off."""
    found = suggestions(settings, processor)
    opened = {name: found.get(name, off) for name, off in NOTHING_DONE.items() if getattr(settings, name) is None}
    return settings.model_copy(update=opened)


def _table(processor: Processor) -> list[str | None]:
    table: list[str | None] = [None] * processor.vocab_size
    for token, id_ in processor.tokenizer.get_vocab().items():
        table[id_] = token
    return table


def eos_ids_of(
    name: str, declared: object, of_tokenizer: int | None, tokens: Mapping[str, int], rows: int
) -> tuple[int, ...]:
    """The ids that end a text: those of generation_config.json, or else the end of a turn, or else the tokenizer's own.

    Raises CheckpointError for an id beyond `rows`, the number of scores.
    """
    if declared is None or declared == []:
        declared = tokens.get(_CHAT_END, of_tokenizer)
    ids = declared if isinstance(declared, list) else [declared]
    if not all(isinstance(id_, int) and 0 <= id_ < rows for id_ in ids):
        raise CheckpointError(
            f"{name} has the eos_token_id {declared!r}, but its token ids go from 0 to {rows - 1}",
            hint="Set the right eos_token_id in its generation_config.json.",
        )
    return tuple(sorted(set(ids)))


def _tokenizer_fingerprint(vocabulary: Mapping[str, int]) -> str:
    """Hash of a tokenizer's pieces and their ids: if it is equal, an id means the same in both tokenizers."""
    digest = hashlib.sha256()
    for piece, id_ in sorted(vocabulary.items(), key=lambda item: item[1]):
        digest.update(f"{id_}\t{piece}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()[:32]}"
